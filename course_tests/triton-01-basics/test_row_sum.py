"""Hidden tests of row_sum, a function that loops over columns and adds up in float32.

Most inputs are whole numbers whose absolute values add up to less than 2^24 in a row: float32 adds those without
rounding in any order, so the comparison is exact and a single lost or doubled element shows. Only where the task is
about rounding is there a tolerance.
"""

import pytest
import torch


def test_rows_of_any_length(submission, inputs, length, reference, assert_identical):
    x = inputs.integers(-1000, 1000, 3, length).float()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_whole_blocks(submission, inputs, reference, assert_identical):
    x = inputs.integers(-100, 100, 5, 4096).float()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_a_single_column(submission, inputs, reference, assert_identical):
    x = inputs.distinct(37, 1)
    # exact: the sum of one element is that element
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_a_single_long_row(submission, inputs, reference, assert_identical):
    x = inputs.integers(-100, 100, 1, 100_003).float()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_many_rows_none_of_them_round(submission, inputs, reference, assert_identical):
    x = inputs.integers(-1000, 1000, 37, 1031).float()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_matrices_without_elements(submission, inputs, reference, assert_identical):
    # beside one with elements: whoever answers zeros to everything is right about the empty ones only
    x = inputs.integers(1, 100, 5, 1024).float()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())
    assert_identical(submission.row_sum(inputs.normal(5, 0)), torch.zeros(5))
    assert_identical(submission.row_sum(inputs.normal(0, 5)), torch.zeros(0))


def test_a_half_precision_sum_beyond_its_largest_number(submission, inputs, reference, assert_identical):
    x = inputs.integers(90, 110, 3, 1024).half()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_many_small_half_precision_values(submission, inputs, reference, assert_identical):
    # odd sums of about 8,000: float16 has no odd numbers above 2048
    x = inputs.integers(1, 4, 4, 4096).half()
    x[:, 0] += ((x.double().sum(1) + 1) % 2).half()
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_accuracy_of_single_precision(submission, inputs, reference, assert_close):
    x = inputs.normal(6, 8192, mean=1.0)
    # factor 2, as the contract says. The bound grows as sqrt(N), which one running sum needs; sums that run
    # in lanes err by 0.01 of it, and a result that was rounded to float16 on the way by some 20 times it
    expected, magnitude = reference.row_sum(x), reference.row_magnitude(x)
    assert_close(submission.row_sum(x), expected, terms=8192, magnitude=magnitude, factor=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_nan_and_infinity_stay_in_their_row(submission, inputs, dtype, reference, assert_identical):
    nan, inf = float("nan"), float("inf")
    # 1000 columns: the last block of nearly every kernel has masked lanes, which must keep out what stands at the end
    # of a row and at the beginning of the next. Small values: sums of them are exact in float16 too
    x = inputs.integers(-3, 4, 9, 1000).to(dtype)
    x[1, 0], x[1, 700], x[3, 3], x[3, 999], x[5, 0], x[7, 0] = nan, nan, inf, inf, -inf, inf
    x[5, 999], x[7, 999] = -inf, -inf
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_the_same_bits_each_time(submission, inputs, reference, assert_close, assert_identical):
    x = inputs.normal(8, 4096)
    first = submission.row_sum(x)
    # zeros are the same each time as well
    expected, magnitude = reference.row_sum(x), reference.row_magnitude(x)
    assert_close(first, expected, terms=4096, magnitude=magnitude, factor=2)
    for _ in range(2):
        assert_identical(submission.row_sum(x), first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_an_input_that_starts_at_an_odd_address(submission, inputs, dtype, reference, assert_identical):
    # small values, whose sums are exact in float16 too: this is about the address alone. The last column alternates, so
    # that rows read one element off have other sums
    x = inputs.integers(-3, 4, 4, 4096).to(dtype)
    x[:, -1] = inputs.tensor([7.0, -7.0, 7.0, -7.0], dtype=dtype)
    x = inputs.misaligned(x)
    assert_identical(submission.row_sum(x), reference.row_sum(x).float())


def test_speed(benchmark, reference, assert_close):
    def check(sums, x):
        # as in test_accuracy_of_single_precision; a mean of 1 makes sums that float16 would lose
        expected, magnitude = reference.row_sum(x), reference.row_magnitude(x)
        assert_close(sums, expected, terms=8192, magnitude=magnitude, factor=2)

    # each element is read once, and each sum written once, of 4 bytes each
    benchmark(check, moved_bytes=lambda m: 4 * m * (8192 + 1), inputs={"x": (1.0, 1.0)}, N=8192)
