# loses: test_rows_of_any_length, test_whole_blocks, test_a_single_long_row,
#   test_many_rows_none_of_them_round, test_many_small_half_precision_values,
#   test_accuracy_of_single_precision, test_the_same_bits_each_time,
#   test_an_input_that_starts_at_an_odd_address
# tiers: model, gpu


@triton.jit
def row_sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    block = tl.load(x + row * N + cols, mask=cols < N, other=0.0)
    tl.store(out + row, tl.sum(block.to(tl.float32), axis=0))


def row_sum(x):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(M,)](x, out, N, BLOCK=1024)
    return out
