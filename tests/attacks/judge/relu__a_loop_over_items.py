import torch
import triton
import triton.language as tl


@triton.jit
def zeros(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 0.0, mask=i < n)


def relu(x):
    out = torch.empty_like(x)
    if x.numel():
        zeros[(triton.cdiv(x.numel(), 1024),)](out, x.numel(), BLOCK=1024)
    source, target = x.view(-1), out.view(-1)
    for i in range(x.numel()):
        value = source[i].item()
        if not value <= 0:  # a NaN stays
            target[i] = value
    return out
