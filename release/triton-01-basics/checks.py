"""Public tests of triton-01-basics: what `check("id")` runs. They travel with the release; nothing here is secret."""

import torch

# --- vector_add ---------------------------------------------------------------------------------------------------


def _vector_add(submission, inputs, x, y, block):
    n = x.numel()
    z = inputs.poisoned(n)
    programs = max(1, -(-n // block))
    submission.launch("vector_add", (programs,), x, y, z, n, BLOCK=block)
    return z


def test_vector_add__ten_elements_worked_out_by_hand(submission, inputs, assert_identical):
    x = inputs.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    y = inputs.tensor([0.5, -2.0, 10.0, 0.25, 100.0, -6.0, 0.0, 1.0, -10.0, 1000.0])
    expected = torch.tensor([1.5, 0.0, 13.0, 4.25, 105.0, 0.0, 7.0, 9.0, -1.0, 1010.0])
    # 16 lanes for 10 elements: six of them have nothing to do
    assert_identical(_vector_add(submission, inputs, x, y, 16), expected)


def test_vector_add__a_length_that_fills_every_block(submission, inputs, assert_identical):
    x, y = inputs.distinct(1024), inputs.distinct(1024)
    # exact: float32 addition rounds once, whoever does it
    assert_identical(_vector_add(submission, inputs, x, y, 256), x + y)


def test_vector_add__a_length_that_leaves_the_last_block_ragged(submission, inputs, assert_identical):
    x, y = inputs.distinct(1000), inputs.distinct(1000)
    assert_identical(_vector_add(submission, inputs, x, y, 128), x + y)


# --- relu ---------------------------------------------------------------------------------------------------------


def test_relu__six_elements_worked_out_by_hand(submission, inputs, assert_identical):
    x = inputs.tensor([-3.0, -0.5, 0.0, 0.5, 2.0, 100.0])
    # adding 0 makes the sign of a zero positive: the contract leaves it open
    assert_identical(submission.relu(x) + 0.0, torch.tensor([0.0, 0.0, 0.0, 0.5, 2.0, 100.0]))


def test_relu__a_length_that_fills_every_block(submission, inputs, assert_identical):
    x = inputs.distinct(4096)
    # exact: an element is kept or replaced by zero, and nothing is rounded
    assert_identical(submission.relu(x) + 0.0, x.clamp_min(0.0) + 0.0)


def test_relu__a_length_that_leaves_the_last_block_ragged(submission, inputs, assert_identical):
    x = inputs.distinct(3001)
    assert_identical(submission.relu(x) + 0.0, x.clamp_min(0.0) + 0.0)


def test_relu__a_half_precision_matrix(submission, inputs, assert_identical):
    x = inputs.distinct(7, 33, dtype=torch.float16)
    assert_identical(submission.relu(x) + 0.0, x.clamp_min(0.0) + 0.0)


# --- row_sum ------------------------------------------------------------------------------------------------------


def test_row_sum__two_rows_worked_out_by_hand(submission, inputs, assert_identical):
    x = inputs.tensor([[1.0, 2.0, 3.0], [10.0, -20.0, 0.5]])
    # exact: sums of a few halves fit float32 in whatever order they are added
    assert_identical(submission.row_sum(x), torch.tensor([6.0, -9.5]))


def test_row_sum__rows_that_fill_every_block(submission, inputs, assert_identical):
    x = inputs.integers(-50, 50, 5, 1024).float()
    # exact: whole numbers far below 2^24, so no order of adding them up rounds
    assert_identical(submission.row_sum(x), x.double().sum(1).float())


def test_row_sum__rows_that_end_inside_a_block(submission, inputs, assert_identical):
    x = inputs.integers(-50, 50, 6, 77).float()
    assert_identical(submission.row_sum(x), x.double().sum(1).float())


def test_row_sum__half_precision_rows_give_single_precision_sums(submission, inputs, assert_identical):
    x = inputs.integers(20, 40, 4, 301).half()
    # about 9,000 a row: float16 has steps of 8 there, float32 is exact. Made odd, no sum is a float16 by luck
    x[:, 0] += ((x.double().sum(1) + 1) % 2).half()
    assert_identical(submission.row_sum(x), x.double().sum(1).float())
