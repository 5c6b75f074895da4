"""What a test of the Judge raises when the submission fails it, and how an exception becomes an Outcome."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path

from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.verdict import Outcome, SpeedReading
from warpgrade.wire.messages import Location


@dataclass(eq=False)  # an exception must be hashable
class Failure(Exception):  # noqa: N818 - a failed test, not an error of ours
    """A test was not passed. `sentence` and `pattern` are for the student and hold no sizes, values or exception texts.

    `evidence` is for the TA (and for the student where the test is public).
    """

    outcome: Outcome
    sentence: str
    pattern: str = ""
    exception: str = ""
    location: Location | None = None
    evidence: dict[str, str] = field(default_factory=dict)
    #: What was measured, of one that is too slow.
    reading: SpeedReading | None = None

    def __str__(self) -> str:
        details = "\n".join(f"  {name}: {value}" for name, value in self.evidence.items())
        return f"{self.outcome}: {self.sentence}" + (f"\n{details}" if details else "")


def pending(reason: str) -> Failure:
    """This test needs something that is not here, such as a GPU: no marks either way yet."""
    return Failure(Outcome.PENDING, reason)


def failure_of(error: BaseException, test_file: Path) -> Failure:
    """What an exception that ended a test means.

    A plain `assert` in the suite itself is the student's failure. Everything else that is not a `Failure` (an assert
    inside a reference, a TypeError in the suite, a full disk) is ours: a fault, which earns and costs nothing.
    """
    if isinstance(error, Failure):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, AssertionError) and frames and Path(frames[-1].filename) == test_file:
        return Failure(Outcome.WRONG, "The result is not what it should be.", evidence={"assertion": str(error)[:2000]})
    if isinstance(error, SandboxUnavailable):
        return Failure(Outcome.FAULT, "The sandbox cannot be had.", evidence={"reason": str(error)})
    text = "".join(traceback.format_exception(error))[-6000:]
    return Failure(
        Outcome.FAULT,
        f"The judge or its tests failed ({type(error).__name__}). This is not the submission's fault.",
        evidence={"traceback": text},
    )
