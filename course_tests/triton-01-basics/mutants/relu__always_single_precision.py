# loses: test_relu__a_half_precision_matrix, test_other_precisions,
#   test_nan_and_infinity_in_other_precisions
# tiers: model, gpu


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(y + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    out = torch.empty(x.shape, device=x.device)
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out
