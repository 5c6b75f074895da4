# loses: test_speed
# tiers: gpu


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask), mask=mask)


@triton.jit
def relu_kernel(out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(out + offsets, mask=mask)
    tl.store(out + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    # two passes over memory, where one will do
    out = torch.empty_like(x)
    n = x.numel()
    if n:
        grid = (triton.cdiv(n, 1024),)
        copy_kernel[grid](x, out, n, BLOCK=1024)
        relu_kernel[grid](out, n, BLOCK=1024)
    return out
