@triton.jit
def block_of(n, BLOCK: tl.constexpr):
    where = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return where, where < n


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    where, mask = block_of(n, BLOCK)
    total = tl.load(x + where, mask)
    total += tl.load(y + where, mask)
    tl.store(z + where, total, mask)
