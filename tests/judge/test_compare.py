"""Comparison: the bound, NaN and infinity, and the clause that tells a student in which way it is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpgrade.judge.compare import UNIT_ROUNDOFF, assert_close, assert_identical
from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome

NAN, INF = float("nan"), float("inf")


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 3.0


def failure(function: Callable[[], None]) -> Failure:
    with pytest.raises(Failure) as caught:
        function()
    assert caught.value.outcome is Outcome.WRONG
    return caught.value


def pattern(actual: torch.Tensor, expected: torch.Tensor, **keywords: object) -> str:
    return failure(lambda: assert_close(actual.float(), expected, **keywords)).pattern  # type: ignore[arg-type]


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(numbers, min_size=1, max_size=8),
    st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]),
)
def test_the_exact_result_rounded_once_always_passes(values: list[float], dtype: torch.dtype) -> None:
    exact = torch.tensor(values, dtype=torch.float64)
    rounded = exact.to(dtype)
    if bool((rounded.isinf() != exact.isinf()).any()):
        return  # beyond the dtype's range: the suite's expected value has to say what belongs there
    assert_close(rounded, exact, precision=str(dtype).removeprefix("torch."))


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-30, 1e30), st.integers(1, 10_000), st.sampled_from([1.0, 2.0, 4.0]), st.booleans())
def test_beyond_the_bound_always_fails_and_within_always_passes(
    value: float, terms: int, factor: float, below: bool
) -> None:
    bound = factor * 2.0**-24 * math.sqrt(terms) * value
    expected = torch.tensor([value], dtype=torch.float64)
    sign = -1.0 if below else 1.0
    assert_close(expected + sign * bound * 0.99, expected, terms=terms, factor=factor)
    failure(lambda: assert_close(expected + sign * bound * 1.01, expected, terms=terms, factor=factor))


def test_the_units_of_roundoff_are_those_of_the_dtypes() -> None:
    for name in ("float64", "float32", "float16", "bfloat16"):
        assert UNIT_ROUNDOFF[name] == torch.finfo(getattr(torch, name)).eps / 2


def test_the_magnitude_bounds_where_terms_cancel() -> None:
    expected, actual = torch.tensor([0.0], dtype=torch.float64), torch.tensor([1e-6])
    failure(lambda: assert_close(actual, expected))
    assert_close(actual, expected, magnitude=torch.tensor([10.0]))


@pytest.mark.parametrize("got", [0.0, 1e30, -INF, NAN])
def test_only_infinity_of_the_same_sign_is_infinity(got: float) -> None:
    failure(lambda: assert_close(torch.tensor([1.0, got]), torch.tensor([1.0, INF])))
    failure(lambda: assert_close(torch.tensor([got]), torch.tensor([INF]), magnitude=torch.tensor([INF])))


@pytest.mark.parametrize("got", [0.0, INF, -INF])
def test_only_nan_is_nan(got: float) -> None:
    failure(lambda: assert_close(torch.tensor([got]), torch.tensor([NAN])))
    failure(lambda: assert_close(torch.tensor([got]), torch.tensor([NAN]), magnitude=torch.tensor([INF])))


@pytest.mark.parametrize("got", [NAN, INF, -INF])
def test_nan_and_infinity_are_no_numbers(got: float) -> None:
    failure(lambda: assert_close(torch.tensor([got]), torch.tensor([1.0])))


@pytest.mark.parametrize("magnitude", [INF, NAN])
def test_a_bound_that_lets_everything_pass_is_the_suites_mistake(magnitude: float) -> None:
    with pytest.raises(ValueError, match="magnitude"):
        assert_close(torch.tensor([5.0]), torch.tensor([1.0]), magnitude=torch.tensor([magnitude]))


def test_shapes_and_dtypes_that_differ_are_the_suites_mistake() -> None:
    with pytest.raises(ValueError, match="compares"):
        assert_close(torch.zeros(3), torch.zeros(4))
    with pytest.raises(ValueError, match="compares"):
        assert_close(torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(ValueError, match="compares"):
        assert_identical(torch.zeros(3), torch.zeros(3).double())


def test_nothing_is_compared_where_nothing_is() -> None:
    assert_close(torch.zeros(0), torch.zeros(0))
    assert_identical(torch.zeros(0, 3), torch.zeros(0, 3))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_identical_is_reflexive(values: list[float]) -> None:
    assert_identical(torch.tensor(values), torch.tensor(values))


def test_identical_means_the_bits_but_for_nan() -> None:
    failure(lambda: assert_identical(torch.tensor([0.0]), torch.tensor([-0.0])))
    failure(lambda: assert_identical(torch.tensor([1.0]), torch.tensor([1.0000001])))
    failure(lambda: assert_identical(torch.tensor([1]), torch.tensor([2])))
    failure(lambda: assert_identical(torch.tensor([True]), torch.tensor([False])))
    other_nan = torch.tensor([0x7FC00001, -1], dtype=torch.int32).view(torch.float32)
    assert_identical(other_nan, torch.tensor([NAN, NAN]))


# --- cheap answers fail ---------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(4, 2000))
def test_zeros_constants_and_copies_fail(seed: int, count: int) -> None:
    x = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = 2 * x
    assert pattern(torch.zeros(count), expected) == "every element is zero"
    assert pattern(torch.full((count,), float(expected.mean())), expected) == "every element is the same"
    assert pattern(x, expected, inputs={"x": x.float()}) == "it is a copy of x"


# --- in which way it is wrong ---------------------------------------------------------------------------------------


def test_the_classes_of_patterns() -> None:
    e = random(64)
    wrong_end, wrong_beginning, every_fourth = e.clone(), e.clone(), e.clone()
    wrong_end[50:] += 1.0
    wrong_beginning[:9] += 1.0
    every_fourth[::4] += 1.0
    never_written = e.clone()
    never_written[60:] = NAN
    assert pattern(wrong_end, e) == "only the end, where the last block is not full, is wrong"
    assert pattern(wrong_beginning, e) == "only the beginning is wrong"
    assert pattern(every_fourth, e) == "only every so many elements one is wrong"
    assert pattern(never_written, e).startswith("the end, where the last block is not full, is NaN: never written")
    assert pattern(torch.full((64,), NAN), e).startswith("where numbers belong there is NaN: never written")
    assert pattern(-e, e) == "the sign is wrong"
    assert pattern(e * (1 + 1e-6), e) == "it is about right, but less accurate than the contract asks"
    assert pattern(torch.cat([e[:1], e[:-1]]), e) == "the values are right, but each stands one place off"
    assert pattern(e.flip(0), e) == "the values are right, but in another order"
    assert pattern(e * 3, e) == "every element is off by the same factor"
    assert pattern(random(64, seed=1), e) == "every element is wrong"


def test_the_classes_of_patterns_of_a_matrix() -> None:
    e = random(8, 8)
    last_column, columns, rows = e.clone(), e.clone(), e.clone()
    last_column[:, -1] += 1.0
    columns[:, -3:] += 1.0
    rows[[1, 5]] += 1.0
    last_rows = e.clone()
    last_rows[6:] += 1.0
    assert pattern(e.t(), e) in ("it is transposed", "the values are right, but in another order")
    assert pattern(last_column, e) == "only the last column is wrong"
    assert pattern(columns, e) == "only the last columns are wrong"
    assert pattern(rows, e) == "only some rows are wrong"
    assert pattern(last_rows, e) == "only the last rows are wrong"


def test_special_values_alone() -> None:
    expected = torch.tensor([1.0, INF, NAN, 2.0])
    assert (
        pattern(torch.tensor([1.0, 0.5, 0.0, 2.0]), expected) == "only results that should be NaN or infinite are wrong"
    )


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2,), (3, 1), (1, 3), (2, 2, 2)])
def test_any_shape_and_any_wrongness_has_a_report(shape: tuple[int, ...]) -> None:
    for got in (0.0, 1.0, -3.0, NAN, INF):
        actual = torch.full(shape, got)
        caught = failure(lambda actual=actual: assert_close(actual, random(*shape)))
        assert caught.evidence["shape"] == str(shape)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=12), st.lists(st.floats(width=32), min_size=1, max_size=12))
def test_what_a_student_reads_holds_no_number(got: list[float], want: list[float]) -> None:
    count = min(len(got), len(want))
    try:
        assert_close(torch.tensor(got[:count]), torch.tensor(want[:count], dtype=torch.float64))
    except Failure as caught:
        assert not any(character.isdigit() for character in caught.sentence + caught.pattern)
