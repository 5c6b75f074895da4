# loses: test_vector_add__ten_elements_worked_out_by_hand,
#   test_vector_add__a_length_that_leaves_the_last_block_ragged, test_any_length,
#   test_any_block_size_with_a_ragged_end, test_a_single_program_that_is_mostly_empty
# tiers: model, gpu


@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)
    b = tl.load(y + offsets, mask=mask)
    tl.store(z + offsets, a + b)
