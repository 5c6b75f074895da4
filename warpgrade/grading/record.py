"""Grade and Comment rows of one submitted notebook, from an Outcome. The caller makes it one transaction."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbgrader.utils import compute_checksum

from warpgrade.course import SOLUTION_SUFFIX, Form
from warpgrade.grading.gradebook import ReleasedCell, changed, released_cells
from warpgrade.judge.marks import MAX_ATTEMPTS, Mark
from warpgrade.judge.verdict import ExerciseVerdict, Tier
from warpgrade.judge.verdict import Outcome as TestOutcome
from warpgrade.report.cell import NOT_DECLARED

if TYPE_CHECKING:
    from warpgrade.grading.preprocessors import Outcome

NO_RESPONSE = "No response."
PROVISIONAL = "Provisional: judged on the CPU; a run on a GPU may change it."


@dataclass(frozen=True)
class Need:
    """A cell that has no mark yet or waits for a person, and why."""

    cell: str
    reason: str
    #: Nobody has to act: it is judged where what is missing here (a GPU) is there.
    pending: bool = False


def record_notebook(
    gradebook: Any, assignment: str, notebook: str, student: str, nb: Any, outcome: Outcome, missing: frozenset[str]
) -> list[Need]:
    """Write every mark of the notebook and return what is left to do. `missing` are cells that were put back.

    It goes through the *gradebook's* cells, not the notebook's, so that no row can keep a mark of before.
    """
    entry = gradebook.find_submission_notebook(notebook, assignment, student)
    released = {cell.grade_id: cell for cell in released_cells(gradebook, notebook, assignment)}
    cells = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in nb.cells if "nbgrader" in cell.metadata}
    comments: dict[str, list[str]] = {}
    needs: list[Need] = []
    for grade in entry.grades:
        cell = released.get(grade.name)
        if cell is not None and cell.task:
            continue  # a task is marked by hand alone; nbgrader leaves its row as it is, and so do we
        auto_score, reason, about = _score(grade, cell, cells, outcome, missing)
        grade.auto_score = auto_score
        new_answer = changed(gradebook, grade, _answer_digest(grade.name, about, cells, nb, outcome))
        if grade.manual_score is None:
            grade.needs_manual_grade = auto_score is None
        elif new_answer:
            grade.needs_manual_grade = True
        if reason:
            comments.setdefault(about, []).append(reason)
        if grade.needs_manual_grade:
            mark = outcome.mark(grade.name)
            pending = grade.manual_score is None and mark is not None and mark.pending
            if grade.manual_score is not None:
                reason = f"the mark by hand ({grade.manual_score:g}) stands, and the answer changed since: look again"
            needs.append(Need(grade.name, reason or "an answer to mark by hand", pending))
    changed(gradebook, entry, outcome.file)
    for comment in entry.comments:
        lines = list(dict.fromkeys(comments.get(comment.name, [])))
        answer = cells.get(comment.name)
        if answer is not None and not outcome.broken and comment.name not in missing and _unchanged(answer):
            lines.insert(0, NO_RESPONSE)
        comment.auto_comment = "\n\n".join(lines) or None
    return needs


def _score(
    grade: Any, cell: ReleasedCell | None, cells: dict[str, Any], outcome: Outcome, missing: frozenset[str]
) -> tuple[float | None, str, str]:
    """The automatic mark or None, the reason for the comment, and the answer that the comment belongs to."""
    if cell is None or cell.by_hand:
        if outcome.broken:
            return None, outcome.broken, grade.name
        answer = cells.get(grade.name)
        if answer is None or grade.name in missing:
            # The text may stand elsewhere in the notebook (an editor dropped the metadata): not ours to call empty.
            return None, "This cell was missing from the notebook: a person looks for the answer.", grade.name
        return (0.0, "", grade.name) if _unchanged(answer) else (None, "", grade.name)
    mark = outcome.mark(grade.name)
    found = outcome.exercise(grade.name)
    if mark is None or found is None:
        return None, outcome.broken or outcome.trouble or NOT_DECLARED, grade.name
    exercise, speed = found
    about = exercise.id + SOLUTION_SUFFIX
    mark = _agreeing(mark, float(grade.cell.max_score))
    judged = outcome.judged.get(exercise.id)
    reason = mark.reason
    if judged is not None:
        reason = " ".join(filter(None, (reason, _remark(mark, judged, exercise.form, speed))))
    return (None if mark.earned is None else float(mark.earned)), reason, about


def _agreeing(mark: Mark, max_score: float) -> Mark:
    """No mark where gradebook and declaration differ: seven points out of five would be somebody's grade."""
    if abs(float(mark.possible) - max_score) < 1e-9:
        return mark
    return Mark(
        None,
        mark.possible,
        f"Not recorded, and not your fault: the gradebook has {max_score:g} points for this cell, exercises.toml "
        f"{float(mark.possible):g}. The instructor generates the assignment again, then grades again.",
    )


def _remark(mark: Mark, judged: ExerciseVerdict, form: Form, speed: bool) -> str:
    if mark.earned is None and not mark.pending and judged.attempts >= MAX_ATTEMPTS:
        return f"Judged {judged.attempts} times without a decision: a person decides."
    tried = any(verdict.outcome is not TestOutcome.NOT_IMPLEMENTED for verdict in judged.verdicts)
    if mark.earned is not None and not speed and tried and judged.tier is Tier.MODEL and form is not Form.PLAIN:
        return PROVISIONAL
    return ""


def _unchanged(cell: Any) -> bool:
    """nbgrader's own measure of an untouched answer."""
    return bool(cell.metadata["nbgrader"].get("checksum") == compute_checksum(cell))


def _answer_digest(name: str, about: str, cells: dict[str, Any], nb: Any, outcome: Outcome) -> str:
    """What a mark by hand was about: the answer, and for code the helpers (cells without an id) as well."""
    if outcome.broken:
        parts = ["broken", outcome.broken]
    elif name == about and name in cells and cells[name].metadata["nbgrader"].get("solution"):
        parts = ["text", cells[name].source]
    else:
        helpers = [c.source for c in nb.cells if c.cell_type == "code" and "nbgrader" not in c.metadata]
        parts = ["code", cells[about].source if about in cells else "", *helpers]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
