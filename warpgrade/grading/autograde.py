"""nbgrader's Autograde converter for a course with a Judge, put in its place by `install`.

What nbgrader's own cannot be configured to do: go on when a notebook is no notebook, leave no old mark standing, take
a renamed notebook, keep links and web pages of students out of autograded/ (formgrader serves that folder to a TA's
session), and say what a locked gradebook means. Per submission, in this order, so that each step may fail:

    take back the automatic marks -> read the notebook as data -> clean it into autograded/ -> judge -> record
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import nbgrader.apps.api
import nbgrader.apps.autogradeapp
import nbgrader.converters
from nbformat.v4 import new_notebook
from nbgrader import utils
from nbgrader.converters import Autograde, NbGraderException
from sqlalchemy.exc import OperationalError

from warpgrade.grading import gradebook as db
from warpgrade.grading.judging import effective_submission, file_digest, read_text
from warpgrade.grading.normalise import normalise, rebuild
from warpgrade.grading.record import Need
from warpgrade.grading.sanitise import MAX_IMAGE_BYTES, is_picture
from warpgrade.submission import SubmissionError

IN_PROGRESS = "Judging was started and has not finished. The instructor runs the same command again."
NOT_SUBMITTED = "No notebook was submitted."
BAD_TIMESTAMP = "The file timestamp.txt of this submission is no time: a person decides whether it was late."
MAX_FILES, MAX_DEPTH = 1000, 8
#: nbgrader's own files beside a notebook: the time of submission, and the key to fetch feedback with.
_NBGRADER_FILES = frozenset({"timestamp.txt", "submission_secret.txt"})


@dataclass(frozen=True)
class Plan:
    """One expected notebook of a submission: the file to read, remarks for a TA. `broken`: why no file serves."""

    notebook: str
    path: Path | None
    remarks: tuple[str, ...] = ()
    broken: str = ""


@dataclass(frozen=True)
class Graded:
    """What became of one student's submission."""

    student: str
    needs: tuple[Need, ...] = ()
    #: Something of ours failed, so that grading must run again.
    trouble: str = ""


class JudgedAutograde(Autograde):  # type: ignore[misc]  # nbgrader is untyped
    """nbgrader's Autograde, with our steps where this course's configuration asks for the Judge."""

    notebooks: Any
    #: Of the last run, for `pipeline`.
    graded: list[Graded]
    _quiet = False

    @property
    def _judged(self) -> bool:
        wanted = "warpgrade.grading.preprocessors.JudgeSubmission"
        return any(
            (item if isinstance(item, str) else f"{item.__module__}.{item.__qualname__}") == wanted
            for item in self.autograde_preprocessors
        )

    def init_notebooks(self) -> None:
        """As nbgrader's, but a folder without any notebook stays in: its old marks must go."""
        if not self._judged or self.coursedir.notebook_id != "*":
            super().init_notebooks()
            return
        pattern = Path(self._format_source(self.coursedir.assignment_id, self.coursedir.student_id))
        folders = [path for path in _glob(pattern) if path.is_dir()]
        if not folders:
            super().init_notebooks()  # for its error message, which suggests a name
            return
        self.assignments = {str(folder): sorted(map(str, folder.glob("*.ipynb"))) for folder in folders}
        self.notebooks = []

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """As nbgrader's, but without --force a notebook that changed is graded again whatever its timestamp says."""
        if super().init_destination(assignment_id, student_id):
            return True
        excluded = student_id in self.coursedir.student_id_exclude.split(",")
        if not self._judged or excluded or self.coursedir.notebook_id != "*":
            return False
        folder = Path(self._format_source(assignment_id, student_id))
        with db.open_gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            plans = plan_notebooks(folder, db.notebooks_of(gradebook, assignment_id))
            files = {plan.notebook: file_digest(plan.path) for plan in plans}
            if not db.resubmitted(gradebook, assignment_id, student_id, files):
                return False
        self.log.warning("%s changed since it was graded: grading it again", folder)
        self._discard(assignment_id, student_id)
        return True

    def convert_notebooks(self) -> None:
        """Grade every submission; one that fails is withdrawn and named at the end, the others go on."""
        self.graded = []
        if not self._judged:
            super().convert_notebooks()
            return
        try:
            with db.open_gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
                expected = {a: db.notebooks_of(gradebook, a, self.coursedir.notebook_id) for a in self._assignments()}
        except NbGraderException as error:
            if not self._quiet:
                self.log.error("%s", error)  # nbgrader's command ends without a word otherwise
            raise
        for folder in sorted(self.assignments):
            assignment, student = self._names(folder)
            self.notebooks = sorted(self.assignments[folder])
            try:
                if self.init_destination(assignment, student):
                    self.run_pre_convert_hook()
                    self.graded.append(self._grade(Path(folder), assignment, student, expected[assignment]))
                    self.set_permissions(assignment, student)
                    self.run_post_convert_hook()
            except KeyboardInterrupt:
                self._fail(assignment, student, expected[assignment], IN_PROGRESS)
                self.log.error("Canceled at %s; what was recorded before stays. Run the same command again.", student)
                raise
            except db.GradebookLockedError as error:
                self._discard(assignment, student)
                self.log.error("%s: %s", student, error)
                raise
            except OperationalError as error:
                self._discard(assignment, student)
                reason = db.locked_message(self.coursedir.db_url) if db.is_locked(error) else f"the gradebook: {error}"
                self.log.error("%s: %s", student, reason)
                raise db.GradebookLockedError(reason) from error
            except Exception as error:  # one student's submission must not stop a class
                self.log.exception("There was an error processing %s of %s", assignment, student)
                self._fail(assignment, student, expected[assignment], f"grading failed with {type(error).__name__}")
                self.graded.append(Graded(student, trouble=f"grading failed: {type(error).__name__}: {error}"))
        self._report()

    def start_one(self) -> None:
        """As `start`, for `pipeline`: what failed is read from `graded` and ends nothing."""
        self._quiet = True
        self.start()

    def _report(self) -> None:
        for graded in self.graded:
            alike: dict[tuple[str, bool], list[str]] = {}
            for need in graded.needs:
                alike.setdefault((need.reason, need.pending), []).append(need.cell)
            for (reason, pending), cells in alike.items():
                level = logging.INFO if pending else logging.WARNING
                self.log.log(level, "%s: %s: %s", graded.student, ", ".join(cells), reason)
        troubled = [graded for graded in self.graded if graded.trouble]
        for graded in troubled:
            self.log.error("%s: not judged, and not the student's fault: %s", graded.student, graded.trouble)
        if troubled and not self._quiet:
            names = ", ".join(graded.student for graded in troubled)
            raise NbGraderException(
                f"{len(troubled)} of {len(self.graded)} submissions were not judged wholly ({names}); the others were. "
                "The log above says why. Put it right and run the same command again."
            )

    def _assignments(self) -> set[str]:
        return {self._names(folder)[0] for folder in self.assignments}

    def _names(self, folder: str) -> tuple[str, str]:
        pattern = self._format_source("(?P<assignment_id>.*)", "(?P<student_id>.*)", escape=True)
        match = re.match(pattern, folder)
        if match is None:
            raise NbGraderException(f"{folder} does not look like {pattern}")
        return match["assignment_id"], match["student_id"]

    def _grade(self, folder: Path, assignment: str, student: str, expected: list[str]) -> Graded:
        self._enter(folder, assignment, student, expected)
        self._copy_files(folder, assignment, student)
        needs: list[Need] = []
        trouble = ""
        _, bad_timestamp = self._timestamp(folder)
        if bad_timestamp:
            needs.append(Need("timestamp.txt", bad_timestamp))  # or a late one would lose its penalty unseen
        for plan in plan_notebooks(folder, expected):
            if plan.path is None and not plan.broken:
                self.log.warning("%s handed in no %s.ipynb", student, plan.notebook)
                self._write(lambda gb, n=plan.notebook: db.give_zero(gb, assignment, student, n, NOT_SUBMITTED))
                continue
            mine = self._convert(plan, assignment, student)
            self._discard_feedback(assignment, student, plan.notebook)
            needs += mine["recorded"]
            outcome = mine["outcome"]
            faults = [
                " ".join(filter(None, (f"{id_}: {judged.fault}", judged.fault_evidence)))
                for id_, judged in outcome.judged.items()
                if judged.faulty
            ]
            trouble = trouble or outcome.trouble or "; ".join(faults)
        return Graded(student, tuple(needs), trouble)

    def _enter(self, folder: Path, assignment: str, student: str, expected: list[str]) -> None:
        """Student and submission into the gradebook, and the automatic marks of before out of it."""
        timestamp, _ = self._timestamp(folder)

        def enter(gradebook: Any) -> None:
            if self.create_student:
                gradebook.update_or_create_student(student)
            else:
                gradebook.find_student(student)
            extra = {"timestamp": timestamp} if timestamp else {}
            gradebook.update_or_create_submission(assignment, student, **extra)
            db.withdraw(gradebook, assignment, student, expected, IN_PROGRESS)

        self._write(enter)

    def _timestamp(self, folder: Path) -> tuple[Any, str]:
        """When it was submitted, or None; and what is wrong with the file that should say so. It came with the rest."""
        path = folder / "timestamp.txt"
        if not path.is_symlink() and not path.exists():
            return None, ""
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 1000:
            return None, BAD_TIMESTAMP  # a pipe would be read for ever
        try:
            found = self.coursedir.get_existing_timestamp(str(folder))
        except (ValueError, OverflowError, AttributeError):  # nbgrader calls a method that it does not have
            return None, BAD_TIMESTAMP
        return found, "" if found else BAD_TIMESTAMP

    def _copy_files(self, folder: Path, assignment: str, student: str) -> None:
        """Pictures of the student's, then all files of the course's. Nothing else of a student's is copied.

        The Judge reads only the notebook. formgrader serves autograded/ from its own origin, so an .html or .svg there,
        linked from a markdown cell, would run in the TA's session; a link would show what it points to.
        """
        dest = Path(self._format_dest(assignment, student))
        dest.mkdir(parents=True, exist_ok=True)
        source = Path(self.coursedir.format_path(self.coursedir.source_directory, ".", assignment))
        courses = list(utils.find_all_files(str(source), [*self.coursedir.ignore, "*.ipynb"]))
        taken = {Path(name).relative_to(source).parts[0] for name in courses}
        for path in _files(folder):
            relative = path.relative_to(folder)
            if relative.parts[0] in taken or (relative.parts[0] in _NBGRADER_FILES and len(relative.parts) > 1):
                continue  # a folder by the name of a file of the course's, or of nbgrader's
            if str(relative) in _NBGRADER_FILES or _shown(path):
                target = dest / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        for name in courses:
            target = dest / os.path.relpath(name, source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(name, target)

    def _convert(self, plan: Plan, assignment: str, student: str) -> dict[str, Any]:
        """One notebook through both lists of preprocessors; returns our part of the resources."""
        mine: dict[str, Any] = {"root": str(self.coursedir.root), "remarks": list(plan.remarks)}
        mine["course_id"] = self.coursedir.course_id
        mine["file"] = file_digest(plan.path)
        with db.open_gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            mine["released"] = db.released_cells(gradebook, plan.notebook, assignment)
        nb = new_notebook()
        if plan.path is None:
            mine["broken"] = plan.broken
        else:
            try:
                nb = self._read(plan, plan.path, mine)
            except SubmissionError as error:
                mine["broken"] = str(error)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                # Whatever a notebook holds that no check of ours has met: the student's, and a person looks at it.
                self.log.exception("%s could not be read", plan.path)
                mine["broken"] = (
                    f"{printable_name(plan.path)} could not be read ({type(error).__name__}). Save it again."
                )
        if "broken" in mine:
            self.log.error("%s: %s", student, mine["broken"])
        names = {"student": student, "assignment": assignment, "notebook": plan.notebook}
        for self._sanitizing in (True, False):
            self._init_preprocessors()
            resources: dict[str, Any] = {
                "unique_key": plan.notebook,
                "output_files_dir": f"{plan.notebook}_files",
                "metadata": {"name": plan.notebook, "path": self._format_dest(assignment, student)},
                "nbgrader": {**names, "db_url": self.coursedir.db_url},
                "warpgrade": mine,
            }
            output, resources = self.exporter.from_notebook_node(nb, resources=resources)
            self.write_single_notebook(output, resources)
            mine = resources["warpgrade"]
            if self._sanitizing:
                nb = nbformat.reads(output, as_version=4)  # what is on disk now
        self._sanitizing = True
        return mine

    def _read(self, plan: Plan, path: Path, mine: dict[str, Any]) -> Any:
        text, submission = read_text(path)
        nb = rebuild(json.loads(text))
        put_right, _ = normalise(nb, mine["released"])
        mine["submission"] = effective_submission(submission, put_right, f"{plan.notebook}.ipynb")
        return nb

    def _write(self, change: Any) -> None:
        db.write(self.coursedir.db_url, self.coursedir.course_id, change)

    def _discard(self, assignment: str, student: str) -> None:
        dest = Path(self._format_dest(assignment, student))
        if self.coursedir.notebook_id == "*" and dest.exists():
            shutil.rmtree(dest)

    def _discard_feedback(self, assignment: str, student: str, notebook: str) -> None:
        """Feedback on what was graded before: `nbgrader generate_feedback` skips a student who has some."""
        folder = Path(self.coursedir.format_path(self.coursedir.feedback_directory, student, assignment))
        (folder / f"{notebook}.html").unlink(missing_ok=True)
        if folder.is_dir() and not list(folder.glob("*.html")):
            shutil.rmtree(folder)

    def _fail(self, assignment: str, student: str, expected: list[str], reason: str) -> None:
        """Nothing half done stays: no autograded notebook, no automatic mark, and a reason where the mark would be."""
        self._discard(assignment, student)
        comment = reason if reason == IN_PROGRESS else f"Not judged yet, and not your fault: {reason}"
        self._write(lambda gradebook: db.withdraw(gradebook, assignment, student, expected, comment))


def plan_notebooks(folder: Path, expected: list[str]) -> list[Plan]:
    """Which file serves as which expected notebook.

    One expected notebook missing and one unknown .ipynb there: it was renamed, and is taken. More unknown ones: a
    person says which. None: not handed in.
    """
    there = {path.stem: path for path in sorted(folder.glob("*.ipynb"))}
    missing = [name for name in expected if name not in there]
    unknown = [path for name, path in there.items() if name not in expected]
    plans = []
    for name in expected:
        if name in there:
            plans.append(Plan(name, there[name]))
        elif len(missing) == 1 and len(unknown) == 1:
            plans.append(
                Plan(
                    name, unknown[0], (f"It was handed in as {printable_name(unknown[0])} and taken for {name}.ipynb.",)
                )
            )
        elif unknown:
            names = ", ".join(printable_name(path) for path in unknown[:5])
            plans.append(
                Plan(
                    name,
                    None,
                    (),
                    f"There is no {name}.ipynb, and it is not clear whether one of {names} is meant. "
                    f"Rename the right one to {name}.ipynb and submit again.",
                )
            )
        else:
            plans.append(Plan(name, None))
    return plans


def printable_name(path: Path) -> str:
    """A file's name as text that can be stored; bytes of another encoding (old zip files) become question marks."""
    return path.name.encode("utf-8", "replace").decode("utf-8")


def _files(folder: Path) -> list[Path]:
    """The regular files of a submission, at most MAX_FILES and MAX_DEPTH deep. Links are neither taken nor followed."""
    found: list[Path] = []
    waiting = [folder]
    while waiting and len(found) < MAX_FILES:
        here = waiting.pop()
        for path in sorted(here.iterdir())[:MAX_FILES]:
            if path.is_symlink():
                continue
            if path.is_file():
                found.append(path)
            elif path.is_dir() and len(path.relative_to(folder).parts) < MAX_DEPTH:
                waiting.append(path)
    return sorted(found)[:MAX_FILES]


def _shown(path: Path) -> bool:
    kinds = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg"}
    kind = kinds.get(path.suffix.lower())
    return kind is not None and path.stat().st_size <= MAX_IMAGE_BYTES and is_picture(path.read_bytes(), kind)


def _glob(pattern: Path) -> list[Path]:
    return [Path(found) for found in sorted(glob.glob(str(pattern)))]  # noqa: PTH207  # an absolute pattern


def install() -> None:
    """Exchange nbgrader's Autograde for ours, in the command line app and in the API that formgrader uses."""
    db.prepare()
    # nbgrader starts `alembic` by name when it makes a gradebook; without an activated environment it is not found.
    programs = str(Path(sys.executable).parent)
    if shutil.which("alembic") is None and Path(programs, "alembic").exists():
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{programs}"
    for module in (nbgrader.converters, nbgrader.apps.api, nbgrader.apps.autogradeapp):
        module.Autograde = JudgedAutograde
