"""`warpgrade demo`: a course root of its own, a release, a class of eight, grading, feedback, and a comparison.

Nothing here enters the instructor's own gradebook. The expected marks follow from `examples/class/class.toml`, which
names the tests that each invented answer cannot pass, and not from what a run printed.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpgrade.course import SOLUTION_SUFFIX, SPEED_SUFFIX, Assignment, Course, CourseError, Exercise
from warpgrade.grading.pipeline import Summary, grade_class, nbgrader_config
from warpgrade.grading.progress import GradingProgress
from warpgrade.judge.judging import Options
from warpgrade.judge.verdict import ExerciseVerdict, TestKind
from warpgrade.report.text import points_text
from warpgrade.submission import read_submission

_MARKER = ".made-by-warpgrade-demo"
_ALL = "all"


class Student(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One invented student of class.toml."""

    story: str
    answers: dict[str, str] = {}
    loses: dict[str, list[str]] = {}
    forged: bool = False


class InventedClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """examples/class/class.toml."""

    assignment: str
    students: dict[str, Student]


@dataclass(frozen=True)
class Row:
    """One student and exercise in the table: points expected and found, None for "no mark"."""

    student: str
    exercise: str
    expected: Fraction | None
    found: Fraction | None

    @property
    def agrees(self) -> bool:
        """Equal to what a gradebook's floats can hold."""
        if self.expected is None or self.found is None:
            return self.expected is self.found
        return abs(self.expected - self.found) < Fraction(1, 10**9)


def run(course: Course, folder: Path) -> bool:
    """Run the demo in `folder`; whether every mark is the expected one. Raises CourseError where it cannot run."""
    console, err = Console(), Console(stderr=True)
    started = time.monotonic()
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    invented = read_class(course)
    course = make_course(course, folder)
    declared = course.assignment(invented.assignment)
    err.print(f"releasing {declared.name}")
    release(course, declared)
    for name, student in invented.students.items():
        hand_in(course, declared, name, student)
    with GradingProgress(err) as progress:
        verdicts: dict[tuple[str, str], ExerciseVerdict] = {}

        def judged(verdict: ExerciseVerdict) -> None:
            verdicts[verdict.submission_digest, verdict.exercise] = verdict
            progress.judged(verdict)

        summary = grade_class(course, declared.name, None, Options(), judged, progress.recorded, expect=progress.expect)
    err.print("writing feedback")
    write_feedback(course, declared, invented.students)
    rows = list(compare(course, declared, invented, verdicts))
    console.print(table(declared, invented, rows))
    console.print(summary.text(), markup=False, highlight=False, soft_wrap=True)
    console.print(where_to_look(course, declared), markup=False, highlight=False, soft_wrap=True)
    wrong = [row for row in rows if not row.agrees]
    seconds = time.monotonic() - started
    if wrong:
        named = ", ".join(f"{row.student}/{row.exercise}" for row in wrong)
        console.print(f"{len(wrong)} marks are NOT the expected ones: {named}", style="bold red", highlight=False)
        return False
    _expect_no_trouble(summary)
    console.print(
        f"All {len(rows)} marks are the expected ones ({seconds:.0f} s).", style="bold green", highlight=False
    )
    return True


def read_class(course: Course) -> InventedClass:
    """The invented class of a course. Raises CourseError where it has none or it is wrong."""
    path = course.root / "examples" / "class" / "class.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=InventedClass)
    except (OSError, msgspec.MsgspecError) as error:
        raise CourseError(f"the demo needs an invented class in {path}: {error}") from error


def make_course(course: Course, folder: Path) -> Course:
    """An empty course root with this course's sources in it. Raises CourseError for a folder not its own."""
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARKER).exists():
        raise CourseError(f"{folder} was not made by the demo, and is left alone. Name another one with --folder.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARKER).touch()
    for name in ("source", "course_tests", "examples"):
        shutil.copytree(course.root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(course.root / "nbgrader_config.py", folder)
    return Course(folder)


def release(course: Course, declared: Assignment) -> None:
    """Make the student version with nbgrader. Raises CourseError with nbgrader's words where it refuses."""
    outcome = _api(course).generate_assignment(declared.name, force=True)
    if not outcome["success"]:
        raise CourseError(f"nbgrader did not release {declared.name}: {outcome.get('error') or outcome.get('log')}")


def hand_in(course: Course, declared: Assignment, name: str, student: Student) -> None:
    """Put a student's notebook into submitted/."""
    released = course.root / "release" / declared.name / declared.notebook
    nb: Any = nbformat.read(released, as_version=4)
    for cell in nb.cells:
        exercise, _, kind = cell.metadata.get("nbgrader", {}).get("grade_id", "").partition("__")
        if "__" + kind == SOLUTION_SUFFIX and exercise in student.answers:
            cell.source = answer(course, declared, student.answers[exercise])
    if student.forged:
        forge(nb)
    target = course.root / "submitted" / name / declared.name
    target.mkdir(parents=True)
    nbformat.write(nb, target / declared.notebook)


def answer(course: Course, declared: Assignment, file: str) -> str:
    """The text of an answer: a file of the hidden tests' folder (accepted/, mutants/) or of the invented class's."""
    for folder in (course.root / "course_tests" / declared.name, course.root / "examples" / "class"):
        if (folder / file).is_file():
            lines = (folder / file).read_text(encoding="utf-8").splitlines()
            # Without the remarks on top, which are for authors: what it is, and which tests it loses.
            while lines and lines[0].startswith("#"):
                del lines[0]
            return "\n".join(lines).strip()
    raise CourseError(f"examples/class/class.toml names {file}, which does not exist")


def forge(nb: Any) -> None:
    """What a cheat would do to the notebook itself: each works on plain nbgrader."""
    for cell in nb.cells:
        mark = cell.metadata.get("nbgrader", {})
        if mark.get("grade") and cell.cell_type == "code":
            mark["points"] = 100
            cell.metadata["tags"] = ["skip-execution"]
            result = nbformat.v4.new_output("execute_result", {"text/plain": "100"}, execution_count=1)
            cell.outputs = [result]
            cell.execution_count = 1


def write_feedback(course: Course, declared: Assignment, students: Iterable[str]) -> None:
    """Let nbgrader write each student's feedback. Raises CourseError where it fails."""
    api = _api(course)
    for name in students:
        outcome = api.generate_feedback(declared.name, name, force=True)
        if not outcome["success"]:
            raise CourseError(f"no feedback for {name}: {outcome.get('error') or outcome.get('log')}")


def compare(
    course: Course,
    declared: Assignment,
    invented: InventedClass,
    verdicts: Mapping[tuple[str, str], ExerciseVerdict],
) -> Iterable[Row]:
    """Expected and found points of every judged cell, read back from the gradebook."""
    stem = Path(declared.notebook).stem
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        for name, student in invented.students.items():
            path = course.root / "submitted" / name / declared.name / declared.notebook
            digest = read_submission(path).digest
            for exercise in declared.exercises.values():
                expected = expected_points(exercise, student, verdicts.get((digest, exercise.id)))
                whole = expected == exercise.correctness_points
                cells: list[tuple[str, Fraction | None]] = [(exercise.id, expected)]
                if exercise.speed:
                    # pending without a GPU, and nothing at all for what is not wholly right
                    cells.append((exercise.id + SPEED_SUFFIX, None if whole else Fraction(0)))
                for cell, points in cells:
                    try:
                        grade = gradebook.find_grade(cell, stem, declared.name, name)
                    except MissingEntry:
                        yield Row(name, cell, points, None)
                        continue
                    found = None if grade.auto_score is None else Fraction(grade.auto_score)
                    yield Row(name, cell, points, found)


def expected_points(exercise: Exercise, student: Student, judged: ExerciseVerdict | None) -> Fraction:
    """What follows from the tests that class.toml says are lost. A test's share needs only the number of tests."""
    lost = student.loses.get(exercise.id, [])
    if lost == [_ALL]:
        return Fraction(0)
    if judged is None or judged.fault:
        raise CourseError(f"{exercise.id} was not judged: {judged.fault if judged else 'there is no verdict'}")
    names: dict[TestKind, list[str]] = {TestKind.PUBLIC: [], TestKind.HIDDEN: [], TestKind.SPEED: []}
    for verdict in judged.verdicts:
        names[verdict.kind].append(verdict.test)
    unknown = set(lost) - {*names[TestKind.PUBLIC], *names[TestKind.HIDDEN]}
    if unknown:
        raise CourseError(f"class.toml names tests of {exercise.id} that do not exist: {', '.join(sorted(unknown))}")
    shares = ((TestKind.PUBLIC, exercise.public_points), (TestKind.HIDDEN, exercise.hidden_points))
    return sum(
        (points * Fraction(len(set(names[kind]) - set(lost)), len(names[kind])) for kind, points in shares), Fraction(0)
    )


def table(declared: Assignment, invented: InventedClass, rows: list[Row]) -> Table:
    """Marks beside the expected ones."""
    grid = Table(title="The class of eight: marks, and what was expected", title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("student, and what was handed in", overflow="fold")
    possible = [exercise.correctness_points for exercise in declared.exercises.values()]
    for id_, points in zip(declared.exercises, possible, strict=True):
        grid.add_column(f"{id_}\nof {points_text(points)}", justify="right", no_wrap=True)
    grid.add_column(f"total\nof {points_text(sum(possible, Fraction(0)))}", justify="right", no_wrap=True)
    grid.add_column("expected", justify="right", no_wrap=True)
    for name, student in invented.students.items():
        mine = {row.exercise: row for row in rows if row.student == name}
        cells = [_cell(mine[id_], mine.get(id_ + SPEED_SUFFIX)) for id_ in declared.exercises]
        total = sum((row.found or Fraction(0) for row in mine.values()), Fraction(0))
        expected = sum((row.expected or Fraction(0) for row in mine.values()), Fraction(0))
        who = f"{escape(name)}\n[dim]  {escape(student.story)}[/dim]"
        grid.add_row(who, *cells, points_text(total), points_text(expected))
    grid.caption = "+s: the points for speed are pending, because they are judged on a GPU. !: not the expected mark."
    grid.caption_justify = "left"
    return grid


def _cell(row: Row, speed: Row | None) -> str:
    text = "-" if row.found is None else points_text(row.found)
    text += " +s" if speed is not None and speed.found is None else ""
    return f"[bold red]{text} ![/]" if not row.agrees or (speed is not None and not speed.agrees) else text


def where_to_look(course: Course, declared: Assignment) -> str:
    """The files that a reader may open now."""
    stem = Path(declared.notebook).stem
    return "\n".join(
        [
            "Where to look:",
            f"  {course.root}/feedback/wrong_tail/{declared.name}/{stem}.html    what a student reads",
            f"  {course.root}/autograded/torch_does_it/{declared.name}/          what a TA marks: `jupyter notebook`",
            f"                in {course.root}, then Nbgrader > Formgrader",
            f"  {course.root}/verdicts/{declared.name}/                          every verdict with its evidence",
            f"  {course.root}/gradebook.db                                       the marks",
        ]
    )


def _expect_no_trouble(summary: Summary) -> None:
    if summary.failed:
        raise CourseError("the marks are as expected, and yet something failed: " + json.dumps(summary.reasons))


def _api(course: Course) -> Any:
    config = nbgrader_config(course)
    return NbGraderAPI(CourseDirectory(config=config), config=config)
