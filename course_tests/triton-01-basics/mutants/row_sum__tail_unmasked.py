# loses: test_row_sum__two_rows_worked_out_by_hand, test_row_sum__rows_that_end_inside_a_block,
#   test_row_sum__half_precision_rows_give_single_precision_sums, test_rows_of_any_length,
#   test_a_single_column, test_a_single_long_row, test_many_rows_none_of_them_round,
#   test_nan_and_infinity_stay_in_their_row
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        block = tl.load(x + row * N + cols)
        acc += block.to(tl.float32)
    tl.store(out + row, tl.sum(acc, axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
