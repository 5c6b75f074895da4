"""What a cell of tests shows in formgrader and feedback, all of it escaped, and nothing but what students may read."""

from __future__ import annotations

import html

from warpgrade.course import Exercise
from warpgrade.judge.marks import Mark
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, TestKind
from warpgrade.report.text import student_text

NOT_DECLARED = "No exercise is declared for this cell: a person marks it."


def cell_text(exercise: Exercise | None, speed: bool, mark: Mark | None, judged: ExerciseVerdict | None) -> str:
    """The report of one cell as plain text, for a student."""
    if exercise is None or mark is None:
        return NOT_DECLARED
    lines = [f"{exercise.title}{' (speed)' if speed else ''}: {headline(mark)}"]
    if mark.reason:
        lines.append(mark.reason)
    if judged is not None:
        lines += [f"  {line}" for line in _test_lines(judged, speed)]
        lines += [f"  note: {notice}" for notice in judged.notices] if not speed else []
    return "\n".join(lines)


def cell_html(exercise: Exercise | None, speed: bool, mark: Mark | None, judged: ExerciseVerdict | None) -> str:
    """The same as HTML that is safe to trust: one escaped block."""
    return f"<pre>{html.escape(cell_text(exercise, speed, mark, judged))}</pre>"


def headline(mark: Mark) -> str:
    """`3.5 of 5 points`, or that there is no mark yet."""
    if mark.earned is None:
        return f"no mark yet (of {float(mark.possible):g} points)"
    return f"{float(mark.earned):g} of {float(mark.possible):g} points"


def _test_lines(judged: ExerciseVerdict, speed: bool) -> list[str]:
    lines = []
    for verdict in judged.verdicts:
        if (verdict.kind is TestKind.SPEED) != speed:
            continue
        passed = verdict.outcome is Outcome.PASSED
        line = f"{'ok  ' if passed else 'FAIL' if verdict.outcome.decided else '--  '}  {verdict.test}"
        if not passed:
            line += f": {verdict.outcome}" + "".join(f"\n        {text}" for text in student_text(verdict).splitlines())
        lines.append(line)
    return lines
