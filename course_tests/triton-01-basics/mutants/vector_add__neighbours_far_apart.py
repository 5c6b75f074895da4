# loses: test_speed
# tiers: gpu


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    # program p does the elements p, p + programs, p + 2 programs ...: of the 32 bytes of a sector each load uses 4
    offsets = tl.program_id(0) + tl.arange(0, BLOCK) * tl.num_programs(0)
    mask = offsets < n
    tl.store(z + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)
