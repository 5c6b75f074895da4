@triton.jit
def relu_kernel(x, y, first, BLOCK: tl.constexpr):
    offsets = first + tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(y + offsets, tl.where(value < 0, 0.0, value))


def relu(x):
    out = torch.empty_like(x)
    done = 0
    # Meant to be `done < x.numel()`: where the length is no multiple of 1024, `done` jumps past it for ever.
    while done != x.numel():
        if done + 1024 <= x.numel():
            relu_kernel[(1,)](x, out, done, BLOCK=1024)
        done += 1024
    return out
