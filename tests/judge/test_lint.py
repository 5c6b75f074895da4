"""Who did the work, as far as the Worker's own account goes: a lint that must not hit the honest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from warpgrade.course import Exercise, Form
from warpgrade.judge.failure import Failure
from warpgrade.judge.lint import HARMLESS, MAX_ELEMENTS_READ, check_own_work
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.messages import NoneValue, Returned

EXERCISE = Exercise(title="F", points=1.0, form=Form.FUNCTION, signature="f(x)", summary="", arguments=[])


def account(operations: list[str], launches: int = 1, **more: Any) -> Returned:
    return Returned(NoneValue(), 0, operations, launches, **more)


def refused(operations: list[str], launches: int = 1, *, empty: bool = False, exercise: Exercise = EXERCISE) -> Failure:
    with pytest.raises(Failure) as caught:
        check_own_work(exercise, account(operations, launches), empty=empty)
    assert caught.value.outcome is Outcome.REFUSED
    return caught.value


@pytest.mark.parametrize(
    "name", ["add", "relu", "mm", "sum", "exp_", "where", "Tensor.numpy", "Tensor.tolist", "copy_ to another dtype", "_to_copy to other strides"]
)  # fmt: skip
def test_torch_at_work_is_refused_and_named(name: str) -> None:
    assert name in refused(["empty", name, "view"]).sentence


def test_allocations_and_views_are_allowed() -> None:
    check_own_work(EXERCISE, account(sorted(HARMLESS), 1), empty=False)


def test_what_is_harmless_exists_in_torch() -> None:
    assert [name for name in HARMLESS if not hasattr(torch.ops.aten, name)] == []


def test_no_launch_is_refused_unless_there_was_nothing_to_do() -> None:
    assert "No Triton kernel" in refused(["empty"], 0).sentence
    check_own_work(EXERCISE, account(["empty"], 0), empty=True)


def test_torch_at_work_on_nothing_is_refused_too() -> None:
    refused(["add"], 0, empty=True)


def test_an_exercise_may_forbid_more() -> None:
    copying = msgspec.structs.replace(EXERCISE, forbidden_operations=["clone"])
    check_own_work(EXERCISE, account(["clone"], 1), empty=False)
    refused(["clone"], exercise=copying)


def test_exercises_without_a_kernel_are_left_alone() -> None:
    for changes in ({"own_kernel": False}, {"form": Form.PLAIN}):
        check_own_work(msgspec.structs.replace(EXERCISE, **changes), account(["add"], 0), empty=False)


@pytest.mark.parametrize("name", ["size_1025", "x = 1025", "1025", "Tensor.size_1025 to another dtype", "\x1b[31m"])
def test_a_name_made_up_by_the_worker_is_not_repeated(name: str) -> None:
    assert name not in refused([name]).sentence
    assert "1025" not in refused([name]).sentence


def test_a_few_elements_may_be_read_and_data_may_not() -> None:
    check_own_work(EXERCISE, account([], elements_read=MAX_ELEMENTS_READ), empty=False)
    with pytest.raises(Failure, match="read more than 8 elements") as caught:
        check_own_work(EXERCISE, account([], elements_read=MAX_ELEMENTS_READ + 1), empty=False)
    assert caught.value.outcome is Outcome.REFUSED


def test_a_result_that_no_kernel_stored_to_is_refused_where_one_is_due() -> None:
    nothing_stored = account([], result_stored=False)
    check_own_work(EXERCISE, nothing_stored, empty=False)
    with pytest.raises(Failure, match="No Triton kernel stored to the tensor") as caught:
        check_own_work(EXERCISE, nothing_stored, empty=False, new_tensor=True)
    assert caught.value.outcome is Outcome.REFUSED
