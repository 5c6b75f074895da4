# loses: test_relu__six_elements_worked_out_by_hand, test_relu__a_length_that_fills_every_block,
#   test_relu__a_length_that_leaves_the_last_block_ragged, test_relu__a_half_precision_matrix,
#   test_any_length, test_several_whole_blocks, test_other_precisions, test_several_dimensions,
#   test_more_than_three_dimensions, test_tensors_without_elements_keep_their_shape, test_nan_stays_nan,
#   test_infinity_and_both_zeros, test_nan_and_infinity_in_other_precisions, test_the_same_bits_each_time,
#   test_an_input_that_starts_at_an_odd_address
# tiers: model, gpu


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(y + offsets, tl.abs(value), mask=mask)


def relu(x):
    out = torch.empty_like(x)
    n = x.numel()
    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out
