"""The release guard: `nbgrader generate_assignment` and formgrader's button refuse to write what must not get out.

`CheckDeclaration` stands first and looks at the instructor's notebook, before nbgrader writes to the gradebook;
`GuardRelease` stands last and looks at what would be written. Both fail closed: an exception takes the whole release
back. A missing marker once gave a class the answers (cocalc#4764); nothing here relies on one being present.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.converters import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor

from warpgrade.course import SOLUTION_SUFFIX, SPEED_SUFFIX, Assignment, Course, CourseError

_MARKERS = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)")
#: Lines that say too little to be an answer: they stand in any stub. `return x` does not.
_TRIVIAL = re.compile(r"^(pass|return|else:|try:|finally:|break|continue|\"\"\"|'''|[\W_]*)$")


class ReleaseRefused(NbGraderException):  # type: ignore[misc]  # nbgrader is untyped
    """The release would leak or would not match its declaration. The text names the cell and the next step."""


class CheckDeclaration(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """First in `GenerateAssignment.preprocessors`: source notebook and exercises.toml say the same."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Raise ReleaseRefused for the first disagreement. Remembers what may not be released."""
        names = resources["nbgrader"]
        where = f"source/{names['assignment']}/{names['notebook']}.ipynb"
        assignment = _declaration(self, names["assignment"])
        if assignment is not None and Path(assignment.notebook).stem == names["notebook"]:
            check_declaration(nb, assignment, where)
        check_regions(nb, where)
        resources["warpgrade_secrets"] = secrets_of(nb)
        return nb, resources


class GuardRelease(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """Last in `GenerateAssignment.preprocessors`: nothing of a solution or hidden test is left."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Raise ReleaseRefused if anything is."""
        names = resources["nbgrader"]
        if "warpgrade_secrets" not in resources:
            raise ReleaseRefused(
                "the release guard did not see the source notebook: warpgrade.grading.release.CheckDeclaration must "
                "stand first in c.GenerateAssignment.preprocessors. Call warpgrade.grading.configure(c)."
            )
        guard(nb, resources["warpgrade_secrets"], f"release/{names['assignment']}/{names['notebook']}.ipynb")
        return nb, resources


def _declaration(preprocessor: Any, name: str) -> Assignment | None:
    converter = getattr(preprocessor.parent, "parent", None)
    root = getattr(getattr(converter, "coursedir", None), "root", None)
    course = Course.at(Path(root) if root else Path.cwd())
    if not (course.source(name) / "exercises.toml").is_file():
        if (course.root / "course_tests" / name).is_dir():
            raise ReleaseRefused(f"course_tests/{name} holds suites, but source/{name}/exercises.toml does not exist.")
        return None
    try:
        assignment = course.assignment(name)
        for id_ in assignment.exercises:
            course.suite(name, id_)
    except CourseError as error:
        raise ReleaseRefused(str(error)) from error
    hidden = {path.name for folder in (course.root / "course_tests", course.overlay) if folder
              for path in (folder / name).glob("*")}  # fmt: skip
    stray = [p for p in course.source(name).rglob("*") if p.name in hidden or p.match("test_*.py")]
    if stray:
        names = ", ".join(sorted(str(path.relative_to(course.root)) for path in stray))
        raise ReleaseRefused(f"{names}: all of source/{name} goes to students, and this looks like a hidden test or "
                             f"its reference. Move it to course_tests/{name}.")  # fmt: skip
    if not (course.source(name) / assignment.notebook).is_file():
        raise ReleaseRefused(
            f"source/{name}/exercises.toml names the notebook {assignment.notebook}, which is not there."
        )
    return assignment


def check_declaration(nb: Any, assignment: Assignment, where: str) -> None:
    """Cells of tests, answers and points against the declaration. Raises ReleaseRefused."""
    toml = f"source/{assignment.name}/exercises.toml"
    found: dict[str, Any] = {}
    for cell in nb.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        grade_id = nbgrader.get("grade_id")
        if grade_id is None:
            continue
        if grade_id in found:
            raise ReleaseRefused(f"{where}: two cells have the id {grade_id!r}. Give one of them another.")
        found[grade_id] = cell
    wanted: dict[str, Any] = {}
    for exercise in assignment.exercises.values():
        wanted[exercise.id] = exercise.correctness_points
        if exercise.speed:
            wanted[exercise.id + SPEED_SUFFIX] = exercise.speed_points
        answer = found.get(exercise.id + SOLUTION_SUFFIX)
        if answer is None or not answer.metadata["nbgrader"].get("solution"):
            raise ReleaseRefused(
                f"{where}: exercise {exercise.id} of {toml} has no solution cell {exercise.id}{SOLUTION_SUFFIX}."
            )
        if answer.metadata["nbgrader"].get("grade"):
            raise ReleaseRefused(
                f"{where}: cell {exercise.id}{SOLUTION_SUFFIX} carries points itself: make it 'Autograded answer'."
            )
    for grade_id, points in wanted.items():
        cell = found.get(grade_id)
        nbgrader = cell.metadata["nbgrader"] if cell is not None else {}
        if cell is None or cell.cell_type != "code" or not nbgrader.get("grade") or nbgrader.get("solution"):
            raise ReleaseRefused(f"{where}: {toml} declares {grade_id}, but there is no cell of tests with this id.")
        if abs(float(nbgrader.get("points", -1)) - float(points)) > 1e-9:
            raise ReleaseRefused(
                f"{where}: cell {grade_id} has {nbgrader.get('points')} points, {toml} makes it {float(points):g}. "
                "Change one of them."
            )
    for grade_id, cell in found.items():
        nbgrader = cell.metadata["nbgrader"]
        if nbgrader.get("grade") and not nbgrader.get("solution") and grade_id not in wanted:
            raise ReleaseRefused(f"{where}: cell {grade_id} gives points, but {toml} declares no such exercise.")


def check_regions(nb: Any, where: str) -> None:
    """Markers are balanced, and every code answer has a solution region. Raises ReleaseRefused."""
    for cell in nb.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        name = nbgrader.get("grade_id") or cell.source[:40]
        for what in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME"):
            begins, ends = cell.source.count(f"BEGIN {what}"), cell.source.count(f"END {what}")
            if begins != ends:
                raise ReleaseRefused(f"{where}: cell {name} has {begins} BEGIN and {ends} END {what}.")
        if nbgrader.get("solution") and cell.cell_type == "code" and "BEGIN SOLUTION" not in cell.source:
            raise ReleaseRefused(
                f"{where}: solution cell {name} has no solution region: is the answer outside it? Put it between "
                "### BEGIN SOLUTION and ### END SOLUTION."
            )


@dataclass(frozen=True)
class Secret:
    """One solution or hidden-test region: its lines, and those of them that the notebook shows nowhere else."""

    cell: str
    lines: tuple[str, ...]
    exclusive: frozenset[str]


def secrets_of(nb: Any) -> list[Secret]:
    """What the source notebook keeps in its regions. A written answer without a region is one as a whole."""
    public: set[str] = set()
    regions: list[tuple[str, list[str]]] = []
    for number, cell in enumerate(nb.cells, start=1):
        name = _name(cell, number)
        written = cell.metadata.get("nbgrader", {}).get("solution") and "BEGIN SOLUTION" not in cell.source
        if written:
            regions.append((name, []))
        inside = False
        for line in cell.source.split("\n"):
            if _MARKERS.search(line):
                inside = "BEGIN" in line
                if inside:
                    regions.append((name, []))
            elif inside or written:
                regions[-1][1].append(line.strip())
            else:
                public.add(line.strip())
    secrets = []
    for name, lines in regions:
        telling = tuple(dict.fromkeys(line for line in lines if not _TRIVIAL.match(line)))
        if telling:
            secrets.append(Secret(name, telling, frozenset(telling) - public))
    return secrets


def guard(nb: Any, secrets: list[Secret], where: str) -> None:
    """Raise ReleaseRefused if the stripped notebook still holds a marker, outputs or a secret.

    A cell tells a secret with any line that stands only in regions, or with all lines of one region. Single lines that
    the source shows on purpose elsewhere (`mask = offsets < n` of a worked example) are no secret.
    """
    for number, cell in enumerate(nb.cells, start=1):
        name = _name(cell, number)
        marker = _MARKERS.search(cell.source)
        if marker:
            raise ReleaseRefused(f"{where}: cell {name} still holds {marker.group()!r}. Balance its markers.")
        if cell.get("outputs"):
            raise ReleaseRefused(f"{where}: cell {name} still has outputs, which may show the solution. Clear them.")
        lines = {line.strip() for line in cell.source.split("\n")}
        rest = json.dumps({key: cell[key] for key in cell if key not in ("source", "outputs")})
        for secret in secrets:
            told = {
                line for line in secret.lines if line in lines or (len(line) > 12 and json.dumps(line)[1:-1] in rest)
            }
            if told & secret.exclusive or told == set(secret.lines):
                raise ReleaseRefused(
                    f"{where}: cell {name} shows of the solution or hidden test of cell {secret.cell}: "
                    f"{sorted(told)[0][:60]!r}. Take it out of {name}, or out of the region."
                )


def _name(cell: Any, number: int) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id") or f"number {number}"
