# loses: all
# tiers: model, gpu


@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(x + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, n, BLOCK=1024)
    return x
