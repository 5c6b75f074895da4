# loses: test_vector_add__a_length_that_fills_every_block, test_any_block_size,
#   test_any_block_size_with_a_ragged_end, test_nan_and_infinity_as_in_pytorch,
#   test_the_same_bits_each_time, test_buffers_that_start_at_an_odd_address
# tiers: model, gpu


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    # the stride between programs is a literal: right for BLOCK = 128, that of the ragged public test, and where one
    # program covers everything, as in the public test worked out by hand
    offsets = tl.program_id(0) * 128 + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)
    b = tl.load(y + offsets, mask=mask)
    tl.store(z + offsets, a + b, mask=mask)
