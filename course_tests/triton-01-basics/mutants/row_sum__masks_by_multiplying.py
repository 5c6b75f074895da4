# loses: test_nan_and_infinity_stay_in_their_row
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        # lanes beyond the end read the last element and count it zero times: but infinity times zero is NaN
        block = tl.load(x + row * N + tl.minimum(cols, N - 1)).to(tl.float32)
        acc += block * (cols < N).to(tl.float32)
    tl.store(out + row, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
