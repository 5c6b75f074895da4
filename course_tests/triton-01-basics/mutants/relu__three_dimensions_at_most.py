# loses: test_more_than_three_dimensions
# tiers: model, gpu


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(y + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    a, b, c = (1,) * (3 - x.dim()) + tuple(x.shape)
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(a * b * c, 1024),)](x, out, a * b * c, BLOCK=1024)
    return out
