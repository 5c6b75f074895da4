"""A call that raised, as a Failure: what students may read of it, and what only a TA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warpgrade.course import Exercise, Form
from warpgrade.judge.failure import Failure
from warpgrade.judge.kernels import only_on_a_gpu
from warpgrade.judge.repeated import own_exception, own_line
from warpgrade.judge.verdict import Outcome
from warpgrade.model.findings import NotInterpreted
from warpgrade.submission import Submission
from warpgrade.wire.messages import Problem, Raised


def failure_of_raised(
    name: str, answer: Raised, exercise: Exercise, submission: Submission, problems: Sequence[Problem]
) -> Failure:
    """What a call of `name` that raised means. `problems`: statements of the notebook that were skipped."""
    problem = answer.problem
    shown = own_exception(problem.exception)
    evidence = {"exception": problem.exception} | ({"exception text": problem.text} if problem.text else {})
    if answer.during == "lookup":
        return _undefined(name, exercise, submission, problems)
    if answer.during == "signature" and exercise.form is Form.KERNEL and "subscriptable" in problem.text:
        return Failure(
            Outcome.WRONG, f"{name} is an ordinary function, no kernel. Is @triton.jit missing above it?",
            exception=shown, evidence=evidence,
        )  # fmt: skip
    if answer.during == "signature":
        return Failure(
            Outcome.WRONG, f"{name} cannot be called as the contract says: {exercise.signature}.",
            exception=shown, evidence=evidence,
        )  # fmt: skip
    if problem.exception == "NotImplementedError":
        return Failure(Outcome.NOT_IMPLEMENTED, f"{name} is not written yet.")
    if problem.exception == NotInterpreted.__name__:
        return only_on_a_gpu(name, own_line(submission, problem.location), problem.text)
    if problem.exception == "MemoryError":
        outcome, what = Outcome.OUT_OF_MEMORY, "ran out of memory"
    elif problem.exception in (
        "SyntaxError",
        "IndentationError",
        "CompilationError",
        "UnsupportedLanguageConstruct",
    ):
        outcome, what = Outcome.DOES_NOT_COMPILE, "does not compile"
    else:
        outcome, what = Outcome.CRASHED, f"raised {shown}"
    location = own_line(submission, problem.location)
    where = f" in cell {location.cell}, line {location.line}" if location else ""
    return Failure(outcome, f"{name} {what}{where}.", "", shown, location, evidence)


def _undefined(name: str, exercise: Exercise, submission: Submission, problems: Sequence[Problem]) -> Failure:
    """The function is not there. Say why: the cell that should define it did not parse, or raised, or is gone."""
    # Blanks, not \s: that crosses lines, and a million empty ones would keep the Judge for hours.
    defines = re.compile(rf"^[ \t]*(def[ \t]+{re.escape(name)}\b|{re.escape(name)}[ \t]*=)", re.MULTILINE)
    cells = {cell.number for cell in submission.cells if defines.search(cell.source)}
    syntax = ("SyntaxError", "IndentationError", "TabError")
    suspects = [p for p in problems if p.location and p.location.cell in cells]
    suspects = suspects or [p for p in problems if p.location and p.exception in syntax]
    if suspects:
        problem = suspects[0]
        assert problem.location is not None
        outcome = Outcome.DOES_NOT_COMPILE if problem.exception in syntax else Outcome.CRASHED
        return Failure(
            outcome,
            f"{name} is not defined, because cell {problem.location.cell} stopped at line {problem.location.line} "
            f"with {own_exception(problem.exception)}.",
            exception=own_exception(problem.exception),
            location=problem.location,
            evidence={"exception text": problem.text},
        )
    kind = "kernel" if exercise.form is Form.KERNEL else "function"
    return Failure(
        Outcome.NOT_IMPLEMENTED,
        f"The notebook defines no {kind} called {name}. Was its cell deleted, or the name changed?",
    )
