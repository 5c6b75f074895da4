"""`check`, `hint` and `grade`: see the package's docstring."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from warpgrade.course import Course, CourseError, Exercise, ReleasedFolder
from warpgrade.notebook import session

_hints_shown: dict[str, int] = {}

session.watch()


class Plain(Exception):  # noqa: N818 - its subclasses name what happened
    """Shown without a traceback: one through our own code would help nobody."""

    def _render_traceback_(self) -> list[str]:  # IPython's name
        return [f"{type(self).__name__}: {self}"]


class CheckFailed(Plain, AssertionError):  # noqa: N818 - an assertion about the student's code
    """A public test did not pass. The report is printed above; this only makes the cell fail."""


def check(exercise_id: str) -> None:
    """Run the public tests of one exercise and print a report. Raises CheckFailed unless all of them pass."""
    with _readable():
        folder = ReleasedFolder(_folder())
        _run(folder, _exercise(folder, exercise_id), public_only=True)


def grade(exercise_id: str) -> None:
    """For authors, in a source notebook: the hidden tests too, without a sandbox. Raises CheckFailed as `check` does.

    In a release this line is gone, and at grading time the Judge runs the suites itself.
    """
    with _readable():
        folder = _folder()
        course = Course.find(folder)
        _run(course, course.exercise(folder.name, exercise_id), public_only=False)


def hint(exercise_id: str) -> None:
    """Print the next hint of an exercise: a question, the idea, then a code plan."""
    with _readable():
        exercise = _exercise(ReleasedFolder(_folder()), exercise_id)
    shown = _hints_shown.get(exercise_id, 0)
    if not exercise.hints:
        print(f"There is no hint for {exercise_id}.")
        return
    for number, text in enumerate(exercise.hints[: shown + 1], start=1):
        print(f"Hint {number} of {len(exercise.hints)}: {text}")
    _hints_shown[exercise_id] = min(shown + 1, len(exercise.hints) - 1)


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """What is missing, without a traceback through our own code."""
    try:
        yield
    except CourseError as error:
        raise CheckFailed(str(error)) from error


def _run(course: Course, exercise: Exercise, *, public_only: bool) -> None:
    # Imported here: importing the course's package must not import torch and pytest before they are needed.
    from warpgrade.judge.plugin import Job
    from warpgrade.judge.sandbox.unsandboxed import NoSandbox
    from warpgrade.judge.suite import run_suite
    from warpgrade.judge.verdict import Outcome, Tier
    from warpgrade.report.text import check_report

    job = Job(course, exercise, session.submission(), NoSandbox(), Tier.MODEL, public_only=public_only)
    judged = run_suite(job)
    print(check_report(exercise, judged, hidden=not public_only))
    bad = [v for v in judged.verdicts if v.outcome not in (Outcome.PASSED, Outcome.PENDING)]
    if judged.faulty:
        raise CheckFailed(f"{exercise.id} could not be checked, which is not your fault: see above")
    if bad:
        raise CheckFailed(f"{exercise.id} is not there yet: {', '.join(v.test for v in bad)}")


def _folder() -> Path:
    folder = Path.cwd()
    if not (folder / "exercises.toml").is_file():
        raise CourseError(
            f"there is no exercises.toml in {folder}. Open the notebook in the folder that it was released in, with "
            "exercises.toml and checks.py beside it."
        )
    return folder


def _exercise(course: Course, exercise_id: str) -> Exercise:
    return course.exercise(course.root.name, exercise_id)
