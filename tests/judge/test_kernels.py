"""What the sanitizer found, as a student reads it: never a number, a name or a text that the Worker made up."""

from __future__ import annotations

import time
from typing import get_args

import pytest

from warpgrade.judge.failure import Failure
from warpgrade.judge.kernels import failure_of_finding
from warpgrade.judge.verdict import Outcome
from warpgrade.submission import CodeCell, Submission
from warpgrade.wire.messages import FindingKind, Location, SanitizerFinding

SOURCE = """\
@triton.jit
def first(a, b):
    pass

@triton.jit
def kernel(x, sizes,
           n: tl.constexpr, BLOCK=64):
    i = tl.arange(0, BLOCK)
    tl.load(x + i)
"""
SUBMISSION = Submission((CodeCell(7, SOURCE),), "", "", frozenset())
LINE = Location(7, 9, "tl.load(x + i)")


def failure(kind: FindingKind, argument: str | None = "x", place: Location | None = LINE) -> Failure:
    finding = SanitizerFinding(kind, "load", argument, 4711, (4712, 0, 0), "4713 lanes", Location(9, 9, ""))
    return failure_of_finding(finding, SUBMISSION, place, 4714)


@pytest.mark.parametrize("kind", get_args(FindingKind))
def test_a_finding_of_any_kind_fails_the_test_and_tells_no_number(kind: FindingKind) -> None:
    found = failure(kind)
    assert found.outcome.decided
    assert found.outcome is not Outcome.PASSED
    assert "(cell 7, line 9)" in found.sentence
    shown = found.sentence.replace("(cell 7, line 9)", "") + found.pattern
    assert not any(character.isdigit() for character in shown)
    assert {"4711", "4712", "4713", "4714"} <= set(
        " ".join(found.evidence.values()).replace("(", " ").replace(",", " ").split()
    ), "a TA reads them"


def test_what_touches_memory_is_a_memory_error() -> None:
    assert failure("out_of_bounds").outcome is Outcome.MEMORY_ERROR
    assert failure("race").outcome is Outcome.MEMORY_ERROR
    assert failure("overflow").outcome is Outcome.WRONG
    assert failure("small_dot").outcome is Outcome.DOES_NOT_COMPILE


@pytest.mark.parametrize(
    ("argument", "shown"),
    [("x", " x "), ("sizes[3]", " sizes "), ("a", "an argument"), ("hidden_value_is_41", "an argument"), ("i", "an argument")],
)  # fmt: skip
def test_only_a_parameter_of_the_kernel_above_the_line_is_named(argument: str, shown: str) -> None:
    assert shown in failure("out_of_bounds", argument).sentence


def test_without_a_line_of_the_notebook_nothing_is_named() -> None:
    sentence = failure("out_of_bounds", "x", None).sentence
    assert "an argument" in sentence
    assert "cell" not in sentence


def test_a_cell_of_definitions_without_an_end_does_not_keep_the_judge() -> None:
    submission = Submission((CodeCell(7, "def f(\n" * 300_000),), "", "", frozenset())
    finding = SanitizerFinding("race", "store and store", "x", None, None, "", None)
    start_s = time.process_time()
    failure_of_finding(finding, submission, Location(7, 300_000, ""), 0)
    assert time.process_time() - start_s < 5, "a search that starts anew at each line takes hours"


def test_memory_of_no_argument() -> None:
    assert "memory that belongs to no argument" in failure("out_of_bounds", None).sentence
