@triton.jit
def _relu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    # true for everything from zero up, and for NaN, which differs from itself
    keep = (v >= 0) | (v != v)
    tl.store(y + i, tl.where(keep, v, 0.0), mask=i < n)


class Relu:
    """The launcher as an object that remembers its block size."""

    def __init__(self, block):
        self.block = block

    def __call__(self, x):
        n = x.numel()
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if n:
            _relu[(-(-n // self.block),)](x, y, n, BLOCK=self.block)
        return y


relu = Relu(2048)
