# loses: test_tensors_without_elements_keep_their_shape
# tiers: model, gpu


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(y + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    n = x.numel()
    if n == 0:
        return torch.empty(0, dtype=x.dtype, device=x.device)
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out
