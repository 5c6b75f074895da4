"""From Verdicts to marks. The only place where points are added up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from warpgrade.course import Exercise
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, TestKind, Verdict

#: Attempts after which an undecided exercise is a person's to decide (design/architecture, "Verdicts").
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Mark:
    """`earned` out of `possible` points, or None while undecided; `reason` is a sentence for the comment."""

    earned: Fraction | None
    possible: Fraction
    reason: str
    #: Undecided only because something is not here, such as a GPU. No person is needed, just a later run.
    pending: bool = False


def correctness_mark(exercise: Exercise, judged: ExerciseVerdict) -> Mark:
    """The mark of the cell `<id>`: the points of the passed public and hidden tests."""
    possible = exercise.correctness_points
    if not judged.sandboxed:
        return Mark(None, possible, "Judged without a sandbox, which is for an author's own code: not recorded.")
    if judged.fault:
        return Mark(None, possible, f"Not judged yet, and not your fault: {judged.fault}")
    verdicts = [v for v in judged.verdicts if v.kind is not TestKind.SPEED]
    announced = sum((Fraction(v.points) for v in verdicts), Fraction(0))
    if announced != possible:
        return Mark(None, possible, f"The tests are worth {announced} points, the exercise {possible}: not recorded.")
    undecided = [v for v in verdicts if not v.outcome.decided]
    if undecided:
        reason = f"Not decided yet: {undecided[0].test}: {undecided[0].sentence}"
        return Mark(None, possible, reason, _all_pending(undecided))
    earned = sum((Fraction(v.points) for v in verdicts if v.outcome is Outcome.PASSED), Fraction(0))
    return Mark(earned, possible, "")


def speed_mark(exercise: Exercise, judged: ExerciseVerdict) -> Mark:
    """The mark of the cell `<id>__speed`. Zero as soon as the exercise is decided and not wholly correct."""
    possible = exercise.speed_points
    correctness = correctness_mark(exercise, judged)
    if correctness.earned is None:
        return Mark(None, possible, correctness.reason, correctness.pending)
    if correctness.earned != correctness.possible:
        return Mark(Fraction(0), possible, "Speed counts when all correctness tests pass.")
    verdicts = [v for v in judged.verdicts if v.kind is TestKind.SPEED]
    if not verdicts:
        return Mark(None, possible, "No speed test has run: not recorded.")
    announced = sum((Fraction(v.points) for v in verdicts), Fraction(0))
    if announced != possible:
        return Mark(None, possible, f"The speed tests are worth {announced} points, not {possible}: not recorded.")
    undecided = [v for v in verdicts if not v.outcome.decided]
    if undecided:
        return Mark(None, possible, undecided[0].sentence, _all_pending(undecided))
    return Mark(sum(map(_speed_points, verdicts), Fraction(0)), possible, "")


def speed_share(share: float, threshold: float) -> Fraction:
    """What part of its points a speed of `share` times the baseline's earns: all at the threshold, none at half of it.

    A straight line between (design/exercises, "Conventions"), down to the hundredth: readings repeat within about 1%.
    """
    line = 2 * share / threshold - 1
    # What is exactly a hundredth on paper may lie a rounding of float64 below it.
    return Fraction(math.floor(100 * min(max(line, 0.0), 1.0) + 1e-9), 100)


def _speed_points(verdict: Verdict) -> Fraction:
    reading = verdict.reading
    if reading is None:  # decided, and not by a measurement: wrong, crashed
        return Fraction(0)
    return Fraction(verdict.points) * speed_share(reading.share, reading.threshold)


def _all_pending(undecided: list[Verdict]) -> bool:
    return all(verdict.outcome is Outcome.PENDING for verdict in undecided)
