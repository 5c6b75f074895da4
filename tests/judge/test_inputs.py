"""Inputs are fresh, secret and made again from their seed; poison is no right answer."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpgrade.judge.inputs import Inputs

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def test_each_test_has_a_seed_of_its_own_that_makes_the_same_again() -> None:
    one, other = Inputs(), Inputs()
    assert one.seed != other.seed
    again = Inputs(one.seed)
    assert torch.equal(one.normal(50), again.normal(50))
    assert torch.equal(one.integers(0, 9, 50), again.integers(0, 9, 50))
    assert not torch.equal(one.normal(50), other.normal(50))


#: How many elements of each dtype `distinct` promises to keep apart.
MOST_DISTINCT = {torch.float64: 20_000, torch.float32: 20_000, torch.float16: 4096, torch.bfloat16: 512}


@given(st.data(), st.sampled_from(FLOATS))
def test_distinct_elements_differ_are_exact_and_none_is_zero(data: st.DataObject, dtype: torch.dtype) -> None:
    count = data.draw(st.integers(1, MOST_DISTINCT[dtype]))
    seed = data.draw(st.integers(0, 2**63 - 1))
    x = Inputs(seed).distinct(count, dtype=dtype)
    assert x.dtype == dtype
    assert x.unique().numel() == count
    assert torch.equal(x.double(), Inputs(seed).distinct(count, dtype=torch.float64))  # nothing was rounded
    assert bool((x != 0).all())
    assert 2.0 < float(x.abs().max()) <= 4.0
    assert int((x > 0).sum()) - int((x < 0).sum()) == count % 2  # both signs from two elements on


@pytest.mark.parametrize(("count", "dtype"), [(n, dtype) for dtype, n in MOST_DISTINCT.items()])
def test_distinct_keeps_its_promise_at_the_limit(count: int, dtype: torch.dtype) -> None:
    assert Inputs().distinct(count, dtype=dtype).unique().numel() == count


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_sums_of_distinct_elements_are_exact_in_single_precision(count: int, seed: int) -> None:
    inputs = Inputs(seed)
    x, y = inputs.distinct(count), inputs.distinct(count)
    assert torch.equal((x + y).double(), x.double() + y.double())


def test_distinct_has_any_shape_and_a_random_order() -> None:
    assert Inputs().distinct(3, 4, 5).shape == (3, 4, 5)
    assert Inputs().distinct(3, 0).shape == (3, 0)
    one, other = Inputs(1).distinct(100), Inputs(2).distinct(100)
    assert not torch.equal(one, other)
    assert torch.equal(one.sort().values, other.sort().values)


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
