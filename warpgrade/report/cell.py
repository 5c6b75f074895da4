"""What a cell of tests shows in formgrader and feedback, all of it escaped, and nothing but what students may read."""

from __future__ import annotations

import html
import textwrap

from warpgrade.course import Exercise
from warpgrade.judge.marks import Mark
from warpgrade.judge.verdict import ExerciseVerdict, TestKind
from warpgrade.report.kernels import kernel_lines
from warpgrade.report.printable import one_line
from warpgrade.report.speed import speed_lines
from warpgrade.report.text import hint_of, test_lines

NOT_DECLARED = "No exercise is declared for this cell: a person marks it."


def cell_text(exercise: Exercise | None, speed: bool, mark: Mark | None, judged: ExerciseVerdict | None) -> str:
    """The report of one cell as plain text, for a student."""
    if exercise is None or mark is None:
        return NOT_DECLARED
    lines = [f"{exercise.title}{' (speed)' if speed else ''}: {headline(mark)}"]
    if mark.reason:
        lines.append(mark.reason)
    if judged is not None:
        shown = [verdict for verdict in judged.verdicts if (verdict.kind is TestKind.SPEED) == speed]
        # Where correctness decided the speed mark, the speed tests have nothing to say.
        settled = speed and mark.earned is not None and bool(mark.reason)
        lines += test_lines(shown) if not settled else []
        lines += [f"  {line}" for verdict in shown if verdict.reading for line in speed_lines(verdict.reading)]
        if not speed:
            lines += [f"  hint: {hint}" for hint in [hint_of(exercise, judged)] if hint]
            lines += kernel_lines(judged.kernels)
            lines += [f"  note: {one_line(notice)}" for notice in judged.notices]
    return "\n".join(_wrapped(line) for text in lines for line in text.splitlines())


def cell_html(exercise: Exercise | None, speed: bool, mark: Mark | None, judged: ExerciseVerdict | None) -> str:
    """The same as HTML that is safe to trust: one escaped block."""
    return f"<pre>{html.escape(cell_text(exercise, speed, mark, judged))}</pre>"


def headline(mark: Mark) -> str:
    """`3.5 of 5 points`, or that there is no mark yet."""
    if mark.earned is None:
        return f"no mark yet (of {_points(mark)})"
    return f"{float(mark.earned):g} of {_points(mark)}"


def _points(mark: Mark) -> str:
    return f"{float(mark.possible):g} point" + ("" if mark.possible == 1 else "s")


def _wrapped(line: str) -> str:
    """A long line as several that keep its indent: `<pre>` does not wrap, and nobody reads sideways."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
