# loses: test_any_length
# tiers: model, gpu


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    # the guard for an empty launch asks for more than one element instead of more than none
    there = mask & (n > 1)
    a = tl.load(x + offsets, mask=there, other=0.0)
    b = tl.load(y + offsets, mask=there, other=0.0)
    tl.store(z + offsets, a + b, mask=mask)
