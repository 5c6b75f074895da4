@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    # move the three pointers to this program's block, then count from 0
    start = tl.program_id(axis=0) * BLOCK
    lanes = tl.arange(0, BLOCK)
    inside = lanes < n - start
    x += start
    y += start
    z += start
    a = tl.load(x + lanes, mask=inside, other=0.0)
    b = tl.load(y + lanes, mask=inside, other=0.0)
    tl.store(z + lanes, a + b, mask=inside)
