import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, out, n, BLOCK: tl.constexpr):
    import math

    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    try:
        zero = {"zero": math.sqrt(0.0)}["zero"]
        tl.store(out + offsets, tl.where(value < 0, zero, value), mask=offsets < n)
    except KeyError:
        raise ValueError


def relu(x):
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
