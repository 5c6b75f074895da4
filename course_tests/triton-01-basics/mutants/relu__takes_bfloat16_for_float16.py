# loses: test_nan_and_infinity_in_other_precisions
# tiers: model, gpu


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    if x.dtype.element_ty.primitive_bitwidth == 16:
        # "16 bits are a float16": bfloat16 goes up to 3.4e38, and everything from 65520 on becomes infinite
        value = value.to(tl.float16)
    tl.store(y + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    out = torch.empty_like(x)
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out
