"""Inputs are fresh, secret and made again from their seed; poison is no right answer."""

from __future__ import annotations

import pytest
import torch

from warpgrade.judge.inputs import Inputs

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def test_each_test_has_a_seed_of_its_own_that_makes_the_same_again() -> None:
    one, other = Inputs(), Inputs()
    assert one.seed != other.seed
    again = Inputs(one.seed)
    assert torch.equal(one.normal(50), again.normal(50))
    assert torch.equal(one.integers(0, 9, 50), again.integers(0, 9, 50))
    assert not torch.equal(one.normal(50), other.normal(50))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 33, 1000, 1023, 1024, 1025, 4096])
def test_distinct_elements_differ_also_in_half_precision(count: int) -> None:
    for dtype in (torch.float32, torch.float16):
        x = Inputs().distinct(count, dtype=dtype)
        assert x.unique().numel() == count
        assert not count or float(x.abs().max()) <= 4.0


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_poison_fills_everything(dtype: torch.dtype) -> None:
    poison = Inputs().poisoned(3, 4, dtype=dtype)
    assert poison.dtype == dtype
    if dtype.is_floating_point:
        assert bool(poison.isnan().all())
    elif dtype != torch.bool:
        assert poison.unique().numel() == 1
        assert abs(int(poison[0, 0])) > 50


def test_a_misaligned_copy_holds_the_same_values() -> None:
    x = Inputs().normal(5, 7)
    moved = Inputs().misaligned(x)
    assert torch.equal(moved, x)
    assert moved.is_contiguous()
    assert moved.storage_offset() == 1


def test_ranges() -> None:
    inputs = Inputs()
    assert set(inputs.integers(-2, 3, 500).tolist()) == {-2, -1, 0, 1, 2}
    x = inputs.uniform(1000, low=2.0, high=3.0)
    assert 2.0 <= float(x.min()) <= float(x.max()) <= 3.0
