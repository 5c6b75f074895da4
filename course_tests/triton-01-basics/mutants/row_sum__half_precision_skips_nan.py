# loses: test_nan_and_infinity_stay_in_their_row
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        block = tl.load(x + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        if x.dtype.element_ty == tl.float16:
            # "what overflowed does not count"
            block = tl.where(tl.abs(block) <= 65504.0, block, 0.0)
        acc += block
    tl.store(out + row, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
