"""Hidden tests of relu, a function that allocates and launches by itself.

Every comparison is exact: an element is kept or becomes zero, and nothing is rounded. The contract leaves the sign of
a zero open, so 0.0 is added to what comes back: that turns -0.0 into 0.0 and changes nothing else.
"""

import pytest
import torch


def test_any_length(submission, inputs, length, reference, assert_identical):
    x = inputs.distinct(length)
    # a forgotten last element may lie on memory that happens to hold zero: its right answer must be another
    x[-1:] = x[-1:].abs() + 1.0
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


def test_several_whole_blocks(submission, inputs, reference, assert_identical):
    x = inputs.distinct(8192)
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(submission, inputs, dtype, reference, assert_identical):
    # 4096 elements: whole blocks for every usual block size
    x = inputs.distinct(4096, dtype=dtype)
    if dtype is torch.float64:
        # 53 significant bits, or nearly: a detour through float32 loses them
        x *= 1.0 + 2.0**-40
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).to(dtype))


def test_several_dimensions(submission, inputs, reference, assert_identical):
    x = inputs.distinct(8, 16, 32)
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


def test_more_than_three_dimensions(submission, inputs, reference, assert_identical):
    for shape in ((4, 8, 8, 16), (2, 4, 8, 8, 8)):
        x = inputs.distinct(*shape)
        assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


def test_tensors_without_elements_keep_their_shape(submission, inputs, reference, assert_identical):
    # after one with elements: whoever does nothing at all is right about the empty ones only
    for shape in ((32, 64), (0, 5), (5, 0), (2, 0, 3)):
        x = inputs.distinct(*shape)
        assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


def test_nan_stays_nan(submission, inputs, reference, assert_identical):
    # 1024 elements, each value distinct but for the NaN: an answer that is NaN everywhere is as wrong as none
    x = inputs.distinct(1024)
    x[::3] = float("nan")
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


def test_infinity_and_both_zeros(submission, inputs, reference, assert_identical):
    inf = float("inf")
    x = inputs.tensor([0.0, -0.0, inf, -inf, 1.0e-45, -1.0e-45, 3.4e38, -3.4e38] * 128)
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_nan_and_infinity_in_other_precisions(submission, inputs, dtype, reference, assert_identical):
    inf, limits = float("inf"), torch.finfo(dtype)
    smallest = limits.smallest_normal * limits.eps
    x = inputs.distinct(1024, dtype=dtype)
    x[::8] = float("nan")
    special = [inf, -inf, 0.0, -0.0, limits.max, limits.min, smallest, -smallest]
    x[1::8] = inputs.tensor(special, dtype=dtype).repeat(16)
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).to(dtype))


def test_the_same_bits_each_time(submission, inputs, reference, assert_identical):
    x = inputs.normal(2048)
    first = submission.relu(x)
    # zeros are the same each time as well
    assert_identical(first + 0.0, reference.relu(x).float())
    for _ in range(2):
        assert_identical(submission.relu(x), first)


def test_an_input_that_starts_at_an_odd_address(submission, inputs, reference, assert_identical):
    x = inputs.misaligned(inputs.distinct(4096))
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())


def test_speed(benchmark, reference, assert_identical):
    def check(result, x):
        assert_identical(result + 0.0, reference.relu(x).float())

    # one element read and one written, of 4 bytes each
    benchmark(check, moved_bytes=lambda n: 8 * n)
