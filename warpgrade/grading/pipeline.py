"""`warpgrade grade` and `warpgrade record`: judge a whole class first, then one writer puts it into the gradebook.

Recording goes through the converter that `nbgrader autograde` uses, so the marks are the same. Ctrl-C while judging
leaves the marks of unchanged submissions and none of changed ones, and what was decided is in the store; while
recording it leaves each submission either recorded or without marks.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import Config, PyFileConfigLoader

from warpgrade.course import Assignment, Course, CourseError
from warpgrade.grading import configure
from warpgrade.grading import gradebook as db
from warpgrade.grading.autograde import IN_PROGRESS, Graded, JudgedAutograde, plan_notebooks
from warpgrade.grading.judging import (
    Judged,
    Progress,
    checked,
    effective_submission,
    file_digest,
    read_text,
    verdicts_in_hand,
)
from warpgrade.grading.normalise import normalise, rebuild
from warpgrade.judge.judging import Options, judge_many
from warpgrade.judge.store import VerdictStore
from warpgrade.judge.verdict import FORMAT_VERSION, ExerciseVerdict, Tier, VerdictFile
from warpgrade.submission import Submission, SubmissionError

#: (course, assignment, submissions, options, progress) -> verdicts by digest, then by exercise.
JudgeMany = Callable[
    [Course, str, Iterable[Submission], Options | None, Progress | None], Mapping[str, Mapping[str, ExerciseVerdict]]
]


@dataclass
class Summary:
    """What became of a class: `done` submissions have all automatic marks, the others need somebody."""

    graded: list[Graded] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Submissions about which nobody needs to do anything, those that wait for a GPU included."""
        return len(self.graded) - sum(bool(_needing(graded)) for graded in self.graded)

    @property
    def pending(self) -> int:
        """Submissions that have marks open because something is not here, such as a GPU."""
        return sum(any(need.pending for need in graded.needs) for graded in self.graded)

    @property
    def reasons(self) -> list[tuple[int, str]]:
        """Why the others need somebody: number of submissions and reason, most frequent first."""
        counted = Counter(reason for graded in self.graded for reason in _needing(graded))
        return [(number, reason) for reason, number in counted.most_common()]

    @property
    def failed(self) -> bool:
        """Whether something of ours failed, so that the same command has to run again."""
        return any(graded.trouble for graded in self.graded)

    def json(self) -> str:
        """For programs: `done`, `pending`, and for each student its needs and what failed of ours."""
        content = {"done": self.done, "pending": self.pending, "students": self.graded}
        return msgspec.json.format(msgspec.json.encode(content), indent=1).decode()

    def text(self) -> str:
        """`N done, M need you, because ...`."""
        waiting = len(self.graded) - self.done
        lines = [f"{self.done} done" + (f", {waiting} need you, because" if waiting else "")]
        lines += [f"  {number:3d}  {reason}" for number, reason in self.reasons]
        if self.pending:
            lines.append(f"{self.pending} of {len(self.graded)} have marks pending, which a GPU run decides")
        return "\n".join(lines)


def _needing(graded: Graded) -> set[str]:
    """Why somebody has to look at a submission; empty if nobody has to."""
    if graded.trouble:
        return {graded.trouble}
    return {need.reason for need in graded.needs if not need.pending}


def nbgrader_config(course: Course) -> Config:
    """The course's own nbgrader_config.py (never one of the current folder), with the Judge in it."""
    config = Config()
    path = course.root / "nbgrader_config.py"
    if path.is_file():
        config.merge(PyFileConfigLoader(path.name, path=str(course.root)).load_config())
    config.CourseDirectory.root = str(course.root)
    configure(config)
    return config


def grade_class(
    course: Course,
    assignment: str,
    students: Sequence[str] | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
    recorded: Callable[[str], None] | None = None,
    judge: JudgeMany = judge_many,
    expect: Callable[[int, int], None] | None = None,
) -> Summary:
    """Judge and record every submission of an assignment, or those of `students`.

    `expect` is called once with the numbers of exercises to judge and of students, `progress` with each verdict,
    `recorded` with each student. Raises CourseError (no such assignment, no
    submissions), NbGraderException (not released here) and GradebookLockedError; nothing is half recorded then.
    """
    config = nbgrader_config(course)
    if not course.source(assignment).is_dir():
        known = ", ".join(course.assignments) or "none"
        raise CourseError(f"no assignment {assignment!r} in {course.root / 'source'}. Assignments here: {known}")
    declared = _declared(course, assignment)
    folders = submissions_of(course, assignment, config, students)
    _withdraw_changed(config, assignment, folders)
    hand: dict[str, Judged] = {}
    if declared is not None:
        found = _submissions(declared, folders, config)
        unique = {submission.digest: submission for submission in found.values()}
        if expect:
            expect(len(unique) * len(declared.exercises), len(folders))
        hand.update(judge(course, assignment, unique.values(), options, progress))
    return _record(config, assignment, list(folders), hand, recorded)


def record_file(course: Course, verdict_file: Path, recorded: Callable[[str], None] | None = None) -> Summary:
    """Record verdicts that were made elsewhere for the submissions here that have the very same code.

    Raises CourseError if the file is not one of ours, was made without a sandbox or for other exercises, or if no
    submission here has its digest.
    """
    try:
        content = msgspec.json.decode(verdict_file.read_bytes(), type=VerdictFile)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise CourseError(f"{verdict_file} is no file of verdicts: {error}") from error
    if content.format_version != FORMAT_VERSION:
        raise CourseError(f"{verdict_file} has format {content.format_version}; this warpgrade reads {FORMAT_VERSION}.")
    if any(not verdict.sandboxed for verdict in content.exercises):
        raise CourseError(f"{verdict_file} was judged without a sandbox: such verdicts are never recorded.")
    declared = course.assignment(content.assignment)
    config = nbgrader_config(course)
    folders = submissions_of(course, content.assignment, config)
    matching = {
        student: submission
        for student, submission in _submissions(declared, folders, config).items()
        if submission.digest == content.submission_digest
    }
    if not matching:
        raise CourseError(
            f"no submission of {content.assignment} here has the code that {verdict_file.name} is about "
            f"({content.submission_digest[:12]}). Was it changed since, or not collected?"
        )
    _same_suites(course, declared, content, verdict_file)
    store = VerdictStore(course)
    by_exercise = {verdict.exercise: verdict for verdict in content.exercises}
    for id_, exercise in declared.exercises.items():  # of `judge --exercise`: the others keep their marks
        if id_ not in by_exercise:
            tiers = (store.get(exercise, content.submission_digest, tier) for tier in (Tier.GPU, Tier.MODEL))
            found = next((verdict for verdict in tiers if verdict), None)
            if found is None:
                raise CourseError(
                    f"{verdict_file.name} holds no verdict on {id_}, and none is stored here: recording it would take "
                    f"that mark away. Judge the whole notebook: warpgrade judge NOTEBOOK --out {verdict_file.name}"
                )
            by_exercise[id_] = found
    judged = checked(by_exercise, declared, next(iter(matching.values())))
    for id_, verdict in judged.items():
        store.put(declared.exercises[id_], verdict)
    return _record(config, content.assignment, list(matching), {content.submission_digest: judged}, recorded)


def _same_suites(course: Course, declared: Assignment, content: VerdictFile, path: Path) -> None:
    """Verdicts of other tests are not verdicts of these."""
    from warpgrade.judge.suite import suite_digest

    for verdict in content.exercises:
        exercise = declared.exercises.get(verdict.exercise)
        if exercise is not None and not verdict.fault and verdict.suite_digest != suite_digest(course, exercise):
            raise CourseError(
                f"{path} judged {verdict.exercise} with other tests than this course has now. Judge it again there "
                "after updating the course, or grade here."
            )


def submissions_of(
    course: Course, assignment: str, config: Config, students: Sequence[str] | None = None
) -> dict[str, Path]:
    """The folders of submissions by student. Raises CourseError if there are none, or none of one who was named."""
    coursedir = CourseDirectory(config=config)
    marker = "warpgrade-student"
    pattern = Path(coursedir.format_path(coursedir.submitted_directory, marker, assignment))
    base = Path(*pattern.parts[: pattern.parts.index(marker)])
    inside = Path(*pattern.parts[pattern.parts.index(marker) + 1 :])
    found = {path.name: path / inside for path in sorted(base.glob("*")) if (path / inside).is_dir()}
    if students is not None:
        missing = [student for student in students if student not in found]
        if missing:
            raise CourseError(f"no submission of {assignment} by {', '.join(missing)} in {base}.")
        found = {student: found[student] for student in students}
    if not found:
        raise CourseError(
            f"no submissions of {assignment} in {base}. Collect them first: nbgrader collect {assignment}"
        )
    return found


def _declared(course: Course, assignment: str) -> Assignment | None:
    """The declaration, or None for an assignment that people mark."""
    return course.assignment(assignment) if (course.source(assignment) / "exercises.toml").is_file() else None


def _submissions(declared: Assignment, folders: Mapping[str, Path], config: Config) -> dict[str, Submission]:
    """What will be judged, by student: exactly what the converter will ask for. Broken ones are left to it."""
    coursedir = CourseDirectory(config=config)
    stem = Path(declared.notebook).stem
    with db.open_gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        expected = db.notebooks_of(gradebook, declared.name)
        released = db.released_cells(gradebook, stem, declared.name) if stem in expected else []
    found: dict[str, Submission] = {}
    for student, folder in folders.items():
        for plan in plan_notebooks(folder, expected):
            if plan.notebook == stem and plan.path is not None:
                submission = _readable(plan.path, stem, released)
                if submission is not None:
                    found[student] = submission
    return found


def _withdraw_changed(config: Config, assignment: str, folders: Mapping[str, Path]) -> None:
    """Before hours of judging: whoever handed in something new loses the mark of the old, whatever happens then."""
    coursedir = CourseDirectory(config=config)

    def change(gradebook: Any) -> None:
        expected = db.notebooks_of(gradebook, assignment)
        for student, folder in folders.items():
            files = {plan.notebook: file_digest(plan.path) for plan in plan_notebooks(folder, expected)}
            if db.resubmitted(gradebook, assignment, student, files):
                db.withdraw(gradebook, assignment, student, expected, IN_PROGRESS)

    db.write(coursedir.db_url, coursedir.course_id, change)


def _readable(path: Path, stem: str, released: list[db.ReleasedCell]) -> Submission | None:
    try:
        text, submission = read_text(path)
        put_right, _ = normalise(rebuild(json.loads(text)), released)
        return effective_submission(submission, put_right, f"{stem}.ipynb")
    except (SubmissionError, ValueError, RecursionError):
        return None  # the converter meets it again, and flags it


def _record(
    config: Config,
    assignment: str,
    students: Sequence[str],
    hand: Mapping[str, Judged],
    recorded: Callable[[str], None] | None,
) -> Summary:
    """The one writer."""
    summary = Summary()
    log = logging.getLogger("warpgrade.grading")
    for student in students:
        coursedir = CourseDirectory(config=config)
        coursedir.assignment_id, coursedir.student_id = assignment, _literal(student)
        app: Any = JudgedAutograde(coursedir=coursedir, config=config)
        app.log, app.force, app.create_student = log, True, True
        with verdicts_in_hand(hand):
            app.start_one()
        summary.graded += app.graded
        if recorded:
            recorded(student)
    return summary


def _literal(student: str) -> str:
    """nbgrader takes a glob: a name with brackets or a star means itself here."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in student)
