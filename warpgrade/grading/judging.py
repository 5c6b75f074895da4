"""Between the seam and the Judge: what of a notebook is judged, by whom, and verdicts that are already in hand."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from warpgrade.course import Assignment, Course
from warpgrade.judge.verdict import ExerciseVerdict
from warpgrade.submission import MAX_NOTEBOOK_BYTES, Submission, SubmissionError, parse_submission, read_submission

Judged = Mapping[str, ExerciseVerdict]
Progress = Callable[[ExerciseVerdict], None]

#: Verdicts of this process by submission digest: `pipeline` judges a whole class first and records afterwards. The
#: store would do for decided ones; undecided ones are never stored, and must not be judged twice for one recording.
_IN_HAND: ContextVar[Mapping[str, Judged] | None] = ContextVar("verdicts_in_hand", default=None)


@contextmanager
def verdicts_in_hand(verdicts: Mapping[str, Judged]) -> Iterator[None]:
    """Within this block, submissions with these digests are recorded from these verdicts."""
    token = _IN_HAND.set(verdicts)
    try:
        yield
    finally:
        _IN_HAND.reset(token)


def in_hand(digest: str) -> Judged | None:
    """The verdicts handed over for this submission, or None."""
    return (_IN_HAND.get() or {}).get(digest)


def judge(
    course: Course, assignment: Assignment, submission: Submission, progress: Progress | None = None
) -> dict[str, ExerciseVerdict]:
    """The Judge with its default options: what plain `nbgrader autograde` and formgrader's button use."""
    from warpgrade.judge.judging import judge_submission

    return judge_submission(course, assignment.name, submission, None, progress)


def read_text(path: Path) -> tuple[str, Submission]:
    """A submitted notebook's text and code. Raises SubmissionError for whatever cannot be graded."""
    if path.is_symlink():  # nbgrader would follow it: to source/, to a classmate's work (threat 42)
        raise SubmissionError(f"{path.name} is a link to another file. Submit the notebook itself.")
    submission = read_submission(path)
    return path.read_text(encoding="utf-8-sig"), submission


def file_digest(path: Path | None) -> str:
    """What was handed in, essays and outputs included; "" where nothing was."""
    if path is None:
        return ""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_NOTEBOOK_BYTES:
        return f"not read, {status.st_size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def effective_submission(raw: Submission, normalised: Any, name: str) -> Submission:
    """What is judged: the notebook as submitted, unless putting it right changes which code counts.

    It does where an answer was turned into markdown or re-flagged as a test (both happen by a slip of the keyboard), or
    a copied test cell was used for a helper. Cells that we put back ourselves are never part of it: a starter after
    the student's own cell would define the function again.
    """
    put_right = parse_submission(json.dumps({**normalised, "cells": students_cells(normalised)}), name)
    same = [(c.source, c.grade_id) for c in raw.cells] == [(c.source, c.grade_id) for c in put_right.cells]
    return raw if same else put_right


def added(cell: Any) -> bool:
    """Whether this cell was put in by us and is not the student's."""
    return cell.metadata.get("warpgrade", {}).get("added") is True


def students_cells(nb: Any) -> list[Any]:
    """The cells of a normalised notebook that came from the student."""
    return [cell for cell in nb.cells if not added(cell)]


def checked(judged: Mapping[str, Any], assignment: Assignment, submission: Submission) -> dict[str, ExerciseVerdict]:
    """Only those verdicts that are about this submission and this exercise: a mix-up must never become marks."""
    return {
        id_: verdict
        for id_ in assignment.exercises
        if isinstance(verdict := judged.get(id_), ExerciseVerdict)
        and (verdict.assignment, verdict.exercise) == (assignment.name, id_)
        and verdict.submission_digest == submission.digest
    }
