"""Decided verdicts on disk: judging an unchanged submission again costs nothing, and a killed run continues.

The key is everything that a verdict depends on. Undecided ones are never stored (without a GPU a pending speed apart,
which a GPU run decides), nor is anything judged without a sandbox.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from warpgrade.course import Course, Exercise
from warpgrade.judge.suite import environment, suite_digest
from warpgrade.judge.verdict import UNDECIDED, Environment, ExerciseVerdict, Outcome, TestKind, Tier


class VerdictStore:
    """The folder `verdicts/` of a course. Files hold no names of students: a digest of their code is the key."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._folder = course.root / "verdicts"

    def get(self, exercise: Exercise, submission_digest: str, tier: Tier) -> ExerciseVerdict | None:
        """The stored verdict of this code under today's tests and versions; None where it has to be judged.

        A file that does not parse, or does not say what its name says, counts as absent.
        """
        path = self._path(exercise, submission_digest, tier, environment())
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=ExerciseVerdict)
        except (FileNotFoundError, msgspec.MsgspecError, ValueError):
            return None
        key = (exercise.assignment, exercise.id, submission_digest, tier, suite_digest(self._course, exercise))
        if (stored.assignment, stored.exercise, stored.submission_digest, stored.tier, stored.suite_digest) != key:
            return None
        return stored if _final(stored) else None

    def put(self, exercise: Exercise, judged: ExerciseVerdict) -> bool:
        """Store a decided verdict of today's suite; whether it was. Atomic: a reader sees all of it or nothing."""
        if not _final(judged) or judged.suite_digest != suite_digest(self._course, exercise):
            return False
        # Under the versions that it was made with, which are not today's if warpgrade was updated meanwhile.
        path = self._path(exercise, judged.submission_digest, judged.tier, judged.environment)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(judged), indent=1))
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        return True

    def _path(self, exercise: Exercise, submission_digest: str, tier: Tier, where: Environment) -> Path:
        parts = [
            submission_digest, suite_digest(self._course, exercise), where.warpgrade, where.python, where.torch,
            where.triton, where.numpy, tier,
        ]  # fmt: skip
        key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]
        return self._folder / exercise.assignment / exercise.id / f"{key}.json"


def _final(judged: ExerciseVerdict) -> bool:
    """Whether judging again could not say more here."""
    speed = {verdict.outcome for verdict in judged.verdicts if verdict.kind is TestKind.SPEED}
    may_stay = {Outcome.PENDING} if judged.tier is Tier.MODEL else set()
    return judged.decided and judged.sandboxed and not (speed & UNDECIDED) - may_stay
