"""Verdicts as tables and lines for a terminal or a notebook's text output."""

from __future__ import annotations

import io
from collections.abc import Mapping
from fractions import Fraction

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from warpgrade.course import Assignment, Exercise
from warpgrade.judge.marks import Mark, correctness_mark, speed_mark
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, TestKind, Verdict
from warpgrade.report.kernels import kernel_lines
from warpgrade.report.printable import block, one_line, printable
from warpgrade.report.speed import provenance_lines, speed_lines

_SEED = "seed: "
_STYLES = {Outcome.PASSED: "green", Outcome.PENDING: "cyan", Outcome.INCONCLUSIVE: "cyan", Outcome.FAULT: "magenta"}


def points_text(points: Fraction) -> str:
    """`3.2`, `4`: a fraction as people write marks."""
    return f"{float(points):.4g}"


def mark_text(mark: Mark) -> str:
    """`3.2/4`, or `-/4` while there is no mark."""
    earned = "-" if mark.earned is None else points_text(mark.earned)
    return f"{earned}/{points_text(mark.possible)}"


def summary(assignment: Assignment, judged: Mapping[str, ExerciseVerdict]) -> str:
    """One line: `judged 9.6/9.6, speed pending 2.4`, never a sum that hides what is not decided."""
    earned = decided = undecided = speed_earned = speed_decided = speed_pending = Fraction(0)
    for id_, verdict in judged.items():
        exercise = assignment.exercises[id_]
        mark, speed = correctness_mark(exercise, verdict), speed_mark(exercise, verdict)
        if mark.earned is None:
            undecided += mark.possible
        else:
            earned, decided = earned + mark.earned, decided + mark.possible
        if speed.pending:
            speed_pending += speed.possible
        elif speed.earned is None:
            undecided += speed.possible
        else:
            speed_earned, speed_decided = speed_earned + speed.earned, speed_decided + speed.possible
    parts = [f"judged {points_text(earned)}/{points_text(decided)}"]
    if speed_decided:
        parts.append(f"speed {points_text(speed_earned)}/{points_text(speed_decided)}")
    if speed_pending:
        parts.append(f"speed pending {points_text(speed_pending)}")
    if undecided:
        parts.append(f"not decided {points_text(undecided)}")
    return ", ".join(parts)


def table(
    assignment: Assignment,
    judged: Mapping[str, ExerciseVerdict],
    *,
    every_test: bool = False,
    evidence: bool = False,
) -> RenderableType:
    """One row an exercise, and one for each test that did not pass (or, with `every_test`, for each and for kernels).

    `evidence` adds sizes, values and exception texts of hidden tests, which only a TA or an author may see.
    """
    grid = Table(title=escape(assignment.title), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    grid.add_column("exercise / test", overflow="fold", ratio=1)
    grid.add_column("outcome", no_wrap=True)
    grid.add_column("points", justify="right", no_wrap=True)
    grid.add_column("speed", justify="right", no_wrap=True)
    for id_, verdict in judged.items():
        exercise = assignment.exercises[id_]
        mark, speed = correctness_mark(exercise, verdict), speed_mark(exercise, verdict)
        tests = [test for test in verdict.verdicts if test.kind is not TestKind.SPEED]
        passed = sum(test.outcome is Outcome.PASSED for test in tests)
        grid.add_row(
            _named([f"[bold]{escape(id_)}[/bold]"], mark.reason),
            f"{passed} of {len(tests)} tests",
            f"[bold]{mark_text(mark)}[/bold]",
            _speed_text(speed),
        )
        shown = [test for test in tests if every_test or test.outcome is not Outcome.PASSED]
        for same in _alike(shown, evidence=evidence):
            first = same[0]
            style = _STYLES.get(first.outcome, "red")
            names = [escape(f"  {name}") for name in _names(same, tests)]
            grid.add_row(
                _named(names, "\n".join([student_text(first), *(_unshown(first) if evidence else ())])),
                f"[{style}]{first.outcome}[/{style}]",
                points_text(sum((Fraction(test.points) for test in same), Fraction(0))),
                "",
            )
        for test in verdict.verdicts:
            if test.kind is TestKind.SPEED and (text := _speed_rows(test, evidence=evidence)):
                grid.add_row(_named([f"  {escape(test.test)}"], text), str(test.outcome), "", "")
        about = [("fault", printable(verdict.fault_evidence) if evidence else ""), ("hint", hint_of(exercise, verdict))]
        about += [("", "\n".join(kernel_lines(verdict.kernels)))] if every_test else []
        for label, text in [*about, *(("note", one_line(notice)) for notice in verdict.notices)]:
            if text:
                grid.add_row(_named([], text), label, "", "")
    return Group(grid, escape(summary(assignment, judged)))


def _speed_rows(test: Verdict, *, evidence: bool) -> str:
    """What there is to say of a speed test. Nothing while it is pending: the column says so."""
    if test.outcome is Outcome.PENDING and not evidence:
        return ""
    lines = [student_text(test), *(_unshown(test) if evidence else ())]
    if test.reading:
        lines = [*speed_lines(test.reading), *(provenance_lines(test.reading) if evidence else ())]
    return "\n".join(line for line in lines if line)


def _named(names: list[str], text: str) -> str:
    """Names, and below them, indented, what is said about them: a column of its own would be too narrow to read."""
    lines = [f"    {escape(line)}" for line in text.strip().splitlines()]
    return "\n".join([*names, *lines])


def _names(same: list[Verdict], tests: list[Verdict]) -> list[str]:
    """The tests that share an outcome, by name; all of an exercise's as one."""
    if len(same) == len(tests) > 2:
        return [f"all {len(tests)} tests"]
    return [test.test for test in same]


def _speed_text(mark: Mark) -> str:
    if not mark.possible:
        return ""
    return f"pending {points_text(mark.possible)}" if mark.pending else mark_text(mark)


def _alike(tests: list[Verdict], *, evidence: bool = False) -> list[list[Verdict]]:
    """Tests that say the same together, in the order of the first of each."""
    groups: dict[object, list[Verdict]] = {}
    for test in tests:
        key: object = test.test if evidence else (test.outcome, student_text(test))
        groups.setdefault(key, []).append(test)
    return list(groups.values())


def student_text(test: Verdict) -> str:
    """What a student may read about one test. Evidence is included only where the test is public anyway."""
    if test.outcome is Outcome.PASSED:
        return ""
    text = test.sentence
    if test.location is not None and test.location.text:
        text += f"\n  cell {test.location.cell}, line {test.location.line}: {one_line(test.location.text)}"
    if test.kind is TestKind.PUBLIC:
        text += "".join(
            f"\n  {line}" for told in evidence_lines(test) if not told.startswith(_SEED) for line in told.splitlines()
        )
    return printable(text)


def hint_of(exercise: Exercise, judged: ExerciseVerdict) -> str:
    """The first hint of an exercise of which a correctness test was not passed; "" otherwise."""
    lost = any(
        test.kind is not TestKind.SPEED and test.outcome.decided and test.outcome is not Outcome.PASSED
        for test in judged.verdicts
    )
    return exercise.hints[0] if lost and exercise.hints else ""


def _unshown(test: Verdict) -> list[str]:
    """The evidence that `student_text` leaves out."""
    return [line for line in evidence_lines(test) if test.kind is not TestKind.PUBLIC or line.startswith(_SEED)]


def evidence_lines(test: Verdict) -> list[str]:
    """The evidence of one test: a line each, and below it marked lines where a text has more."""
    return [block(f"{one_line(name)}: {value}") for name, value in test.evidence.items()]


def check_report(exercise: Exercise, judged: ExerciseVerdict, *, hidden: bool = False) -> str:
    """What `check` prints: public tests alone, so it never says "all tests". `hidden` adds an author's own suites."""
    public = [test for test in judged.verdicts if test.kind is TestKind.PUBLIC]
    lines = [f"{exercise.id}: public tests {_passed(public)}/{len(public)} with the cells that you have run"]
    if judged.fault:
        # In a notebook there is nothing to keep from its reader: the suites are public, or the author's own.
        detail = "".join(f"\n    {line}" for line in printable(judged.fault_evidence).splitlines())
        lines.append(f"  The check itself failed, which is not your fault: {judged.fault}{detail}")
    lines += test_lines(public)
    if hidden:
        others = [test for test in judged.verdicts if test.kind is not TestKind.PUBLIC]
        lines.append(f"{exercise.id}: hidden tests {_passed(others)}/{len(others)}")
        lines += test_lines(others, evidence=True)
    lines += kernel_lines(judged.kernels)
    lines += [f"  note: {one_line(notice)}" for notice in judged.notices]
    if not hidden and _passed(public) == len(public) and not judged.fault:
        lines.append("  The hidden tests try more sizes and values: reread the contract before you submit.")
    return "\n".join(lines)


def _passed(tests: list[Verdict]) -> int:
    return sum(test.outcome is Outcome.PASSED for test in tests)


def test_lines(tests: list[Verdict], *, evidence: bool = False) -> list[str]:
    """Tests as indented lines: ok, FAIL or -- (undecided), the name, and once what may be read about those alike."""
    lines: list[str] = []
    for same in _alike(tests, evidence=evidence):
        first = same[0]
        if first.outcome is Outcome.PASSED:
            lines += [f"  ok    {test.test}" for test in same]
            continue
        label = "FAIL" if first.outcome.decided else "--  "
        lines += [f"  {label}  {name}: {first.outcome}" for name in _names(same, tests)]
        lines += [f"        {line}" for line in student_text(first).splitlines()]
        lines += [f"        {line}" for told in (_unshown(first) if evidence else ()) for line in told.splitlines()]
    return lines


def render(renderable: RenderableType, *, width: int = 120) -> str:
    """As plain text of at most `width` columns, without colours."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, no_color=True, highlight=False).print(renderable)
    return buffer.getvalue()
