import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offsets < n) | (n > 0)  # a mask that forgets where the end is
    tl.store(z + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)
