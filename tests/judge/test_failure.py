"""What an exception that ended a test means: the student's, or ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpgrade.judge.failure import Failure, failure_of, pending
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.verdict import Outcome

HERE = Path(__file__)


def of(error: BaseException, file: Path = HERE) -> Failure:
    with pytest.raises(type(error)) as caught:
        raise error
    return failure_of(caught.value, file)


def test_a_failure_is_what_it_says() -> None:
    failure = Failure(Outcome.CRASHED, "It crashed.", evidence={"size": "1025"})
    assert of(failure) is failure
    assert "1025" in str(failure)
    assert pending("no GPU").outcome is Outcome.PENDING


def test_an_assert_counts_by_the_file_that_it_stands_in() -> None:
    assert of(AssertionError("x == 1025")).outcome is Outcome.WRONG
    assert "1025" not in of(AssertionError("x == 1025")).sentence
    assert of(AssertionError("x"), HERE.with_name("other.py")).outcome is Outcome.FAULT
    assert failure_of(AssertionError("never raised"), HERE).outcome is Outcome.FAULT


@pytest.mark.parametrize(
    "error",
    [TypeError("1025"), OSError(28, "full"), RecursionError(), SystemExit(0), KeyboardInterrupt(), MemoryError()],
)
def test_all_else_is_a_fault_whose_text_is_evidence(error: BaseException) -> None:
    failure = of(error)
    assert failure.outcome is Outcome.FAULT
    assert type(error).__name__ in failure.sentence
    assert "1025" not in failure.sentence
    assert "Traceback" in failure.evidence["traceback"]


def test_a_missing_sandbox_says_why() -> None:
    failure = of(SandboxUnavailable("bwrap is not installed"))
    assert failure.outcome is Outcome.FAULT
    assert "bwrap is not installed" in failure.evidence["reason"]
