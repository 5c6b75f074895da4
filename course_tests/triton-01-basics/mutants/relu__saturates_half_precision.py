# loses: test_nan_and_infinity_in_other_precisions
# tiers: model, gpu


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    value = tl.where(value < 0, 0.0, value)
    if y.dtype.element_ty == tl.float16:
        # "float16 ends at 65504": so does infinity now, and a NaN too
        value = tl.minimum(value, 65504.0)
    tl.store(y + offsets, value, mask=mask)


def relu(x):
    out = torch.empty_like(x)
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out
