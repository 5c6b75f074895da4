# loses: test_row_sum__two_rows_worked_out_by_hand, test_row_sum__rows_that_end_inside_a_block,
#   test_row_sum__half_precision_rows_give_single_precision_sums, test_rows_of_any_length,
#   test_a_single_long_row, test_many_rows_none_of_them_round, test_matrices_without_elements,
#   test_nan_and_infinity_stay_in_their_row
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N: tl.constexpr):
    # a block as wide as the row: only powers of two compile
    row = tl.program_id(0)
    block = tl.load(x + row * N + tl.arange(0, N))
    tl.store(out + row, tl.sum(block.to(tl.float32), axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N)
    return out
