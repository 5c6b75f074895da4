"""nbgrader preprocessors around the Judge: `JudgeSubmission` for Execute, `RecordVerdicts` for SaveAutoGrades.

No kernel is started and nothing in a notebook's outputs carries marks. What `JudgeSubmission` finds travels in
`resources["warpgrade"]["outcome"]`, an object of this process, to `RecordVerdicts`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import from_dict
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode
from traitlets.utils.importstring import import_item

from warpgrade.course import SPEED_SUFFIX, Assignment, Course, CourseError, Exercise
from warpgrade.grading import gradebook as db
from warpgrade.grading.judging import checked, in_hand, students_cells
from warpgrade.grading.record import record_notebook
from warpgrade.judge.marks import Mark, correctness_mark, speed_mark
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.verdict import ExerciseVerdict
from warpgrade.report.cell import cell_html, cell_text
from warpgrade.submission import Submission, SubmissionError, parse_submission


@dataclass
class Outcome:
    """What became of one submitted notebook. `trouble` is ours: no exercise was judged, and nobody gets a mark."""

    assignment: Assignment | None = None
    submission: Submission | None = None
    judged: dict[str, ExerciseVerdict] = field(default_factory=dict)
    #: `file_digest` of what was handed in, to know a resubmission by.
    file: str = ""
    #: The notebook could not be read: a sentence for the student.
    broken: str = ""
    trouble: str = ""

    def exercise(self, grade_id: str) -> tuple[Exercise, bool] | None:
        """The exercise that this cell of tests belongs to, and whether it is its speed cell."""
        exercises = self.assignment.exercises if self.assignment else {}
        if grade_id in exercises:
            return exercises[grade_id], False
        base = grade_id.removesuffix(SPEED_SUFFIX)
        if base != grade_id and base in exercises and exercises[base].speed:
            return exercises[base], True
        return None

    def mark(self, grade_id: str) -> Mark | None:
        """The mark of a cell of tests, or None if no exercise is declared for it."""
        found = self.exercise(grade_id)
        if found is None:
            return None
        exercise, speed = found
        possible = exercise.speed_points if speed else exercise.correctness_points
        if self.broken:
            return Mark(None, possible, self.broken)
        if self.trouble:  # which names paths: it is for the log and the instructor
            return Mark(None, possible, "Not judged yet, and not your fault: the grading machine failed.")
        judged = self.judged.get(exercise.id)
        if judged is None:
            return Mark(None, possible, "Not judged yet, and not your fault: there is no verdict on this exercise.")
        return speed_mark(exercise, judged) if speed else correctness_mark(exercise, judged)


class JudgeSubmission(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """Hands the submission to the Judge and shows its reports in the cells of tests."""

    judge = Unicode(
        "warpgrade.grading.judging.judge",
        help="Dotted name of what judges: (course, assignment, submission, progress) -> verdicts by exercise.",
    ).tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Judge. Whatever fails here becomes an Outcome without marks, never an exception and never a mark."""
        mine = resources.setdefault("warpgrade", {})
        outcome = Outcome(broken=mine.get("broken", ""), file=mine.get("file", ""))
        mine["outcome"] = outcome
        try:
            self._judge(nb, resources, outcome)
        except SubmissionError as error:
            outcome.broken = str(error)
        except (CourseError, SandboxUnavailable, ImportError, OSError) as error:
            self._trouble(outcome, resources, f"{error}")
        except Exception as error:  # noqa: BLE001  # the Judge's bug must cost no student a mark, and give none
            self._trouble(outcome, resources, f"the judge failed with {type(error).__name__}")
        _show(nb, outcome, mine)
        return nb, resources

    def _judge(self, nb: Any, resources: Any, outcome: Outcome) -> None:
        names, mine = resources["nbgrader"], resources["warpgrade"]
        course = Course.find(Path(mine["root"]) if "root" in mine else None)
        if not (course.source(names["assignment"]) / "exercises.toml").is_file():
            return  # an assignment that people mark: no cell is declared, so none is judged
        assignment = course.assignment(names["assignment"])
        if Path(assignment.notebook).stem != names["notebook"]:
            return
        outcome.assignment = assignment
        if outcome.broken:
            return
        submission = mine.get("submission")
        if submission is None:  # without our converter: the notebook in hand, less what Normalise put in
            text = json.dumps({**nb, "cells": students_cells(nb)})
            submission = parse_submission(text, f"{names['notebook']}.ipynb")
        outcome.submission = submission
        found = in_hand(submission.digest)
        if found is None:
            found = import_item(self.judge)(course, assignment, submission, None)
        outcome.judged = checked(found, assignment, submission)

    def _trouble(self, outcome: Outcome, resources: Any, reason: str) -> None:
        outcome.trouble = reason
        self.log.exception("%(student)s/%(assignment)s/%(notebook)s was not judged", resources["nbgrader"])


def _show(nb: Any, outcome: Outcome, mine: Any) -> None:
    """Reports into the cells of tests, and a banner on top if anything was wrong with the notebook itself."""
    for cell in nb.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if cell.cell_type != "code" or not nbgrader.get("grade") or nbgrader.get("solution"):
            continue
        found = outcome.exercise(nbgrader["grade_id"])
        mark = outcome.mark(nbgrader["grade_id"])
        judged = outcome.judged.get(found[0].id) if found else None
        data = {
            "text/plain": cell_text(found[0] if found else None, found[1] if found else False, mark, judged),
            "text/html": cell_html(found[0] if found else None, found[1] if found else False, mark, judged),
        }
        cell.outputs = [from_dict({"output_type": "display_data", "data": data, "metadata": {}})]
    notes = mine.get("notes")
    lines = [outcome.broken] if outcome.broken else list(notes.sentences) if notes else []
    lines = [*mine.get("remarks", []), *lines]
    if lines:
        text = "\n".join(f"- {_escape_markdown(line)}" for line in lines)
        banner = new_markdown_cell(f"**warpgrade** about this notebook:\n\n{text}")
        banner.metadata["warpgrade"] = {"added": True}
        banner["id"] = "warpgrade-banner"
        nb.cells.insert(0, banner)


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>()#+-!|$" else c for c in text.replace("\n", " "))


class RecordVerdicts(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """Writes Grade and Comment rows from what `JudgeSubmission` found, in one transaction."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Record. Fails closed: without an Outcome there is nothing to record, and the student's grading fails."""
        mine, names = resources["warpgrade"], resources["nbgrader"]
        outcome: Outcome = mine["outcome"]
        notes = mine.get("notes")
        missing = frozenset(notes.added) if notes else frozenset()
        result = db.write(
            names["db_url"],
            mine.get("course_id", "default_course"),
            lambda gradebook: record_notebook(
                gradebook, names["assignment"], names["notebook"], names["student"], nb, outcome, missing
            ),
        )
        mine["recorded"] = result
        return nb, resources


class HideHiddenTests(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """For feedback: takes hidden-test regions out of cells whose text is the course's (nbgrader shows them, nb#917).

    A student's own cell may hold the markers; it is left alone. A region without an end hides all that follows.
    """

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """Strip one cell."""
        nbgrader = cell.metadata.get("nbgrader", {})
        theirs = not nbgrader or (nbgrader.get("solution") and not nbgrader.get("locked"))
        if not theirs:
            cell.source = without_hidden_tests(cell.source)
        return cell, resources


def without_hidden_tests(source: str) -> str:
    """The source without `BEGIN HIDDEN TESTS` ... `END HIDDEN TESTS`, marker lines included."""
    kept, hidden = [], False
    for line in source.split("\n"):
        if "BEGIN HIDDEN TESTS" in line:
            hidden = True
        elif "END HIDDEN TESTS" in line:
            hidden = False
        elif not hidden:
            kept.append(line)
    return "\n".join(kept)
