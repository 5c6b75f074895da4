# loses: test_vector_add__a_length_that_fills_every_block,
#   test_vector_add__a_length_that_leaves_the_last_block_ragged, test_any_length,
#   test_any_block_size, test_any_block_size_with_a_ragged_end, test_nan_and_infinity_as_in_pytorch,
#   test_subnormal_numbers, test_values_of_very_different_size, test_the_same_bits_each_time,
#   test_buffers_that_start_at_an_odd_address
# tiers: model, gpu


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * n + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)
    b = tl.load(y + offsets, mask=mask)
    tl.store(z + offsets, a + b, mask=mask)
