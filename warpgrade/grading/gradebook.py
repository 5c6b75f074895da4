"""What we ask of nbgrader's gradebook, in a few functions. All writing about one notebook is one transaction."""

from __future__ import annotations

import fnmatch
import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import nbgrader.api
from nbgrader.api import Gradebook, InvalidEntry, MissingEntry
from nbgrader.converters import NbGraderException
from sqlalchemy import Column, MetaData, String, Table, create_engine, delete, event, insert, select
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError, SAWarning

#: How long one statement waits for another program's lock on a sqlite gradebook, and how often all is tried again.
BUSY_MS = 10_000
ATTEMPTS = 2

#: What was recorded last: for a Grade the digest of the answer, for a SubmittedNotebook that of the file. A table
#: of our own beside nbgrader's, so that it changes in the same transaction as the mark. nbgrader's migrations leave
#: unknown tables alone. Ids are uuids, so the two kinds of rows cannot meet.
ANSWERS = Table(
    "warpgrade_answer", MetaData(), Column("row_id", String(32), primary_key=True), Column("digest", String(64))
)

Result = TypeVar("Result")


class GradebookLockedError(NbGraderException):  # type: ignore[misc]  # nbgrader is untyped
    """Another program holds the gradebook. Nothing was recorded by the operation that raised this."""


@dataclass(frozen=True)
class ReleasedCell:
    """One cell as the release has it, from the gradebook: the truth that submitted metadata is measured against."""

    grade_id: str
    cell_type: str
    source: str
    checksum: str | None
    locked: bool
    grade: bool
    solution: bool
    task: bool
    points: float | None

    @property
    def judged(self) -> bool:
        """Whether this is a cell of tests: its content is the course's and its marks the Judge's."""
        return self.grade and not self.solution

    @property
    def by_hand(self) -> bool:
        """Whether a person marks it: an answer that carries points itself."""
        return self.grade and self.solution


def released_cells(gradebook: Any, notebook: str, assignment: str) -> list[ReleasedCell]:
    """The graded, solution, read-only and task cells of a notebook, in the order in which they were saved."""
    entry = gradebook.find_notebook(notebook, assignment)
    grades = {cell.name: cell.max_score for cell in entry.grade_cells}
    tasks = {cell.name: cell.max_score for cell in entry.task_cells}
    solutions = {cell.name for cell in entry.solution_cells}
    return [
        ReleasedCell(
            grade_id=cell.name,
            cell_type=cell.cell_type,
            source=cell.source or "",
            checksum=cell.checksum,
            locked=bool(cell.locked),
            grade=cell.name in grades,
            solution=cell.name in solutions,
            task=cell.name in tasks,
            points=grades.get(cell.name, tasks.get(cell.name)),
        )
        for cell in entry.source_cells
    ]


@contextmanager
def open_gradebook(db_url: str, course_id: str = "default_course") -> Iterator[Any]:
    """nbgrader's Gradebook, closed afterwards."""
    with Gradebook(db_url, course_id) as gradebook:
        yield gradebook


def write(db_url: str, course_id: str, change: Callable[[Any], Result]) -> Result:
    """Do `change(gradebook)` and commit it, all or nothing. Waits for a lock a bounded time.

    Raises GradebookLockedError when the gradebook stays locked; `change` may run more than once.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with Gradebook(db_url, course_id) as gradebook:
                try:
                    result = change(gradebook)
                    gradebook.db.commit()
                except BaseException:
                    gradebook.db.rollback()
                    raise
                return result
        except (OperationalError, InvalidEntry) as error:  # nbgrader turns the one into the other
            if not is_locked(error):
                raise
            if attempt == ATTEMPTS:
                raise GradebookLockedError(locked_message(db_url)) from error
    raise AssertionError("unreachable")


def is_locked(error: BaseException) -> bool:
    """Whether a database error says that another program holds the gradebook."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def locked_message(db_url: str) -> str:
    """What to tell the person whose grading met a locked gradebook."""
    return (
        f"the gradebook ({db_url.rsplit('/', 1)[-1]}) is locked by another program, and stayed so for "
        f"{BUSY_MS * ATTEMPTS / 1000:.0f} seconds. Nothing was recorded for this submission. Close what is writing to "
        "it (another autograde, formgrader saving, a database browser) and run the same command again."
    )


def notebooks_of(gradebook: Any, assignment: str, pattern: str = "*") -> list[str]:
    """Names of the notebooks that the gradebook expects of an assignment. Raises NbGraderException if it knows none."""
    try:
        names = [notebook.name for notebook in gradebook.find_assignment(assignment).notebooks]
    except MissingEntry:
        names = []
    if not names:
        raise NbGraderException(
            f"the gradebook knows no assignment {assignment!r} with notebooks. "
            f"Enter it once, which makes its release again: nbgrader generate_assignment {assignment} --force"
        )
    return [name for name in names if fnmatch.fnmatch(name, pattern)]


def withdraw(gradebook: Any, assignment: str, student: str, notebooks: list[str], reason: str) -> None:
    """Take back every automatic mark of these notebooks and say why. Marks given by hand stay, and their queue too.

    This comes before judging, so that whatever fails afterwards leaves no mark of an earlier submission.
    """
    for name in notebooks:
        try:
            entry = gradebook.find_submission_notebook(name, assignment, student)
        except MissingEntry:
            continue
        for grade in entry.grades:
            grade.auto_score = None
            if grade.manual_score is None:
                grade.needs_manual_grade = True
        comment_all(entry, reason)
        entry.late_submission_penalty = None  # it was computed from marks that are gone


def give_zero(gradebook: Any, assignment: str, student: str, notebook: str, reason: str) -> None:
    """Nothing was handed in: zero, as nbgrader does. Marks given by hand stay."""
    entry = gradebook.find_submission_notebook(notebook, assignment, student)
    changed(gradebook, entry, "")
    for grade in entry.grades:
        grade.auto_score = 0
        grade.needs_manual_grade = False
    comment_all(entry, reason)


def comment_all(entry: Any, reason: str) -> None:
    """The same automatic comment at every answer of a submitted notebook."""
    for comment in entry.comments:
        comment.auto_comment = reason


def changed(gradebook: Any, row: Any, digest: str) -> bool:
    """Whether this differs from what was recorded last for the row; remembers it. No history counts as a change."""
    if recorded_digest(gradebook, row) == digest:
        return False
    gradebook.db.execute(delete(ANSWERS).where(ANSWERS.c.row_id == row.id))
    gradebook.db.execute(insert(ANSWERS).values(row_id=row.id, digest=digest))
    return True


def recorded_digest(gradebook: Any, row: Any) -> str | None:
    """What `changed` remembers of a Grade or SubmittedNotebook."""
    ANSWERS.create(gradebook.db.connection(), checkfirst=True)
    found = gradebook.db.execute(select(ANSWERS.c.digest).where(ANSWERS.c.row_id == row.id)).scalar()
    return None if found is None else str(found)


def resubmitted(gradebook: Any, assignment: str, student: str, files: dict[str, str]) -> bool:
    """Whether these files, digests by notebook, are not the ones that were recorded last. False for a new student."""
    for notebook, digest in files.items():
        try:
            entry = gradebook.find_submission_notebook(notebook, assignment, student)
        except MissingEntry:
            continue
        if recorded_digest(gradebook, entry) != digest:
            return True
    return False


@functools.lru_cache(maxsize=8)
def one_engine(url: str, **options: Any) -> Engine:
    """A database engine for each gradebook, kept. nbgrader makes one for every look at the gradebook, eight times a
    submission, and each compiles all of its SQL anew: most of the time that recording takes. Closing a Gradebook still
    closes its connections."""
    return create_engine(url, **options)


def prepare() -> None:
    """For this process: one engine for each gradebook, and sqlite connections that wait BUSY_MS for a lock."""
    nbgrader.api.create_engine = one_engine
    warnings.filterwarnings("ignore", category=SAWarning, module=r"nbgrader\.api")  # of nbgrader's own making
    if not event.contains(Engine, "connect", _on_connect):
        event.listen(Engine, "connect", _on_connect)


def _on_connect(connection: Any, _record: Any) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_MS)}")
