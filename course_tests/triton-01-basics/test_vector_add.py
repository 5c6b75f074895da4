"""Hidden tests of vector_add, a bare kernel that the judge launches.

Every comparison is exact: float32 addition rounds once, so there is one right answer, and the contract says so.
"""

import pytest
import torch


def add(submission, inputs, x, y, block, z=None):
    """Launch as the contract says: enough programs to cover n, and one when n is 0."""
    n = x.numel()
    z = inputs.poisoned(n) if z is None else z
    submission.launch("vector_add", (max(1, -(-n // block)),), x, y, z, n, BLOCK=block)
    return z


def test_any_length(submission, inputs, length, reference, assert_identical):
    x, y = inputs.distinct(length), inputs.distinct(length)
    assert_identical(add(submission, inputs, x, y, 128), reference.vector_add(x, y).float())


@pytest.mark.parametrize("block", [16, 32, 64, 512, 1024])
def test_any_block_size(submission, inputs, block, reference, assert_identical):
    # four whole blocks: whoever forgot the mask loses the other tests, not this one
    x, y = inputs.distinct(4 * block), inputs.distinct(4 * block)
    assert_identical(add(submission, inputs, x, y, block), reference.vector_add(x, y).float())


@pytest.mark.parametrize("block", [16, 64, 1024])
def test_any_block_size_with_a_ragged_end(submission, inputs, block, reference, assert_identical):
    n = 3 * block - 5
    x, y = inputs.distinct(n), inputs.distinct(n)
    assert_identical(add(submission, inputs, x, y, block), reference.vector_add(x, y).float())


def test_a_single_program_that_is_mostly_empty(submission, inputs, reference, assert_identical):
    x, y = inputs.normal(3), inputs.normal(3)
    assert_identical(add(submission, inputs, x, y, 1024), reference.vector_add(x, y).float())


def test_nan_and_infinity_as_in_pytorch(submission, inputs, reference, assert_identical):
    nan, inf = float("nan"), float("inf")
    x = inputs.tensor([nan, 1.0, inf, -inf, inf, 3.0e38, -3.0e38, -0.0] * 8)
    y = inputs.tensor([1.0, nan, 1.0, 1.0, -inf, 3.0e38, -3.0e38, -0.0] * 8)
    assert_identical(add(submission, inputs, x, y, 32), reference.vector_add(x, y).float())


def test_subnormal_numbers(submission, inputs, reference, assert_identical):
    # multiples of 2^-149, the smallest float32: half of them far below 2^-126, the smallest normal one, half around it
    steps = [(2**10, 256), (2**24, 256)]
    x, y = (torch.cat([inputs.integers(-most, most, n) for most, n in steps]).double() * 2.0**-149 for _ in range(2))
    x, y = x.float(), y.float()
    assert_identical(add(submission, inputs, x, y, 128), reference.vector_add(x, y).float())


def test_values_of_very_different_size(submission, inputs, reference, assert_identical):
    # a detour through another precision, or a second rounding, shows here
    x, y = inputs.normal(512, std=1.0e6), inputs.normal(512, std=1.0e-2)
    assert_identical(add(submission, inputs, x, y, 128), reference.vector_add(x, y).float())


def test_the_same_bits_each_time(submission, inputs, reference, assert_identical):
    x, y = inputs.normal(512), inputs.normal(512)
    first = add(submission, inputs, x, y, 64)
    # an output that nobody wrote is the same each time as well
    assert_identical(first, reference.vector_add(x, y).float())
    for _ in range(2):
        assert_identical(add(submission, inputs, x, y, 64), first)


def test_buffers_that_start_at_an_odd_address(submission, inputs, reference, assert_identical):
    x, y = inputs.misaligned(inputs.distinct(768)), inputs.misaligned(inputs.distinct(768))
    z = inputs.misaligned(inputs.poisoned(768))
    assert_identical(add(submission, inputs, x, y, 256, z), reference.vector_add(x, y).float())


def test_speed(benchmark, reference, assert_identical):
    def check(z, x, y):
        assert_identical(z, reference.vector_add(x, y).float())

    # two elements read and one written, of 4 bytes each
    benchmark(check, moved_bytes=lambda n: 12 * n, grid=lambda n: (-(-n // 1024),), BLOCK=1024)
