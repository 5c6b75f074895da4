# loses: test_row_sum__half_precision_rows_give_single_precision_sums,
#   test_a_half_precision_sum_beyond_its_largest_number, test_many_small_half_precision_values
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=x.dtype.element_ty)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        block = tl.load(x + row * N + cols, mask=cols < N, other=0.0)
        acc += block
    tl.store(out + row, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
