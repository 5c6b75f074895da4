# loses: test_subnormal_numbers
# tiers: model, gpu


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    # what "fast math" does: below 2^-126, the smallest normal float32, there is only zero
    tl.store(z + offsets, tl.where(tl.abs(total) < 1.1754943508222875e-38, total * 0.0, total), mask=mask)
