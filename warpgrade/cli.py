"""The command line. Results on stdout, everything else on stderr.

Exit codes: 0 done; 1 done, and somebody is needed (a fault, a submission that could not be read); 2 nothing done,
because of how it was called or what is missing here; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, ParamSpec

import msgspec
import typer
from rich.console import Console

import warpgrade
from warpgrade.course import Assignment, Course, CourseError
from warpgrade.submission import Submission, SubmissionError, read_submission

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
out, err = Console(), Console(stderr=True)

CourseOption = Annotated[
    Path | None, typer.Option("--course", help="Folder of the course (default: the one around the current folder).")
]

JobsOption = Annotated[
    int | None, typer.Option(min=1, help="Exercises side by side (default: the number of cores, at most 8).")
]


Parameters = ParamSpec("Parameters")


def reported(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """What is wrong with the call, the course, the notebook or this machine is a message and an exit code."""

    @functools.wraps(command)
    def run(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> None:
        from warpgrade.judge.sandbox import SandboxUnavailable
        from warpgrade.judge.speed.status import GpuLockError

        expected = (CourseError, SubmissionError, SandboxUnavailable, GpuLockError)
        try:
            command(*arguments, **keywords)
        except Exception as error:
            if not isinstance(error, (*expected, *_nbgraders_own())):
                raise
            err.print(f"warpgrade: {error}", highlight=False, markup=False, soft_wrap=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            err.print("warpgrade: interrupted. What was decided is kept; the same command continues.", markup=False)
            raise typer.Exit(130) from None

    return run


def _nbgraders_own() -> tuple[type[Exception], ...]:
    """What nbgrader raises for a gradebook that is locked or does not know the assignment; nothing without nbgrader."""
    converters = sys.modules.get("nbgrader.converters")
    return (converters.NbGraderException,) if converters else ()


def _version(asked: bool) -> None:
    if asked:
        print(f"warpgrade {warpgrade.__version__}")
        raise typer.Exit


@app.callback(epilog="Exit codes: 0 done; 1 done, and somebody is needed; 2 nothing done; 130 interrupted.")
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
) -> None:
    """An auto-graded course in GPU programming, and the grader behind it."""


@app.command()
@reported
def judge(
    notebook: Annotated[Path, typer.Argument(help="The notebook to judge.", show_default=False)],
    assignment: Annotated[
        str | None, typer.Option(help="Which assignment it answers (default: what the notebook says).")
    ] = None,
    exercise: Annotated[list[str] | None, typer.Option(help="Judge only this exercise; may be repeated.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the verdicts to this file, for `record`.")
    ] = None,
    no_sandbox: Annotated[bool, typer.Option("--no-sandbox", help="For code of your own only: no protection.")] = False,
    evidence: Annotated[bool, typer.Option("--evidence", help="Show sizes, values and exception texts too.")] = False,
    every_test: Annotated[
        bool, typer.Option("--every-test", help="Show the tests that passed as well, and facts about the kernels.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON instead of a table.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge again what has been judged before.")] = False,
    jobs: JobsOption = None,
    course_folder: CourseOption = None,
) -> None:
    """Judge one notebook and print a table. Needs no nbgrader."""
    from warpgrade.judge.judging import Options, judge_submission
    from warpgrade.judge.verdict import FORMAT_VERSION, VerdictFile
    from warpgrade.report import text

    course = Course.find(course_folder)
    submission = read_submission(notebook)
    found = course.assignment(assignment or assignment_of(course, submission, notebook))
    unknown = sorted(set(exercise or ()) - set(found.exercises))
    if unknown:
        raise CourseError(f"no exercise {', '.join(unknown)} in {found.name}; it has {', '.join(found.exercises)}")
    if out_file is not None and not out_file.parent.is_dir():
        raise CourseError(f"--out {out_file}: there is no folder {out_file.parent}. Make it first.")
    options = Options(sandbox=not no_sandbox, look_up=not fresh, jobs=jobs or Options.jobs)
    wanted = exercise or list(found.exercises)
    with err.status(f"judging {counted(len(wanted), 'exercise')}") as status:
        done = 0

        def progress(_: object) -> None:
            nonlocal done
            done += 1
            status.update(f"judged {done} of {counted(len(wanted), 'exercise')}")

        judged = judge_submission(course, found.name, submission, options, progress, wanted)
    file = VerdictFile(
        format_version=FORMAT_VERSION,
        assignment=found.name,
        notebook=notebook.name,
        submission_digest=submission.digest,
        exercises=list(judged.values()),
    )
    encoded = msgspec.json.format(msgspec.json.encode(file), indent=1)
    if out_file is not None:
        out_file.write_bytes(encoded + b"\n")
        err.print(f"verdicts written to {out_file}", highlight=False)
    if as_json:
        print(encoded.decode())
    else:
        out.print(text.table(found, judged, every_test=every_test, evidence=evidence), highlight=False)
        if no_sandbox:
            err.print(
                "Judged WITHOUT a sandbox: for the author's own code; `record` refuses these verdicts.", style="red"
            )
    if any(verdict.faulty for verdict in judged.values()):
        raise typer.Exit(1)


def counted(number: int, noun: str) -> str:
    """`1 exercise`, `3 exercises`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def assignment_of(course: Course, submission: Submission, notebook: Path) -> str:
    """Which assignment a notebook answers: what its release wrote into it, else the one most of whose cells it has."""
    if submission.assignment in course.assignments:
        return submission.assignment
    scores: dict[str, int] = {}
    for name in course.assignments:
        declared: Assignment = course.assignment(name)
        scores[name] = len(submission.grade_ids & set(declared.exercises))
    best = [name for name, score in scores.items() if score and score == max(scores.values())]
    if len(best) != 1:
        raise SubmissionError(
            f"{notebook.name} does not say which assignment it answers. Name it: --assignment, one of "
            f"{', '.join(course.assignments)}."
        )
    return best[0]


@app.command()
@reported
def grade(
    assignment: Annotated[str, typer.Argument(help="The assignment to grade.", show_default=False)],
    student: Annotated[list[str] | None, typer.Option(help="Only this student; may be repeated.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge again what has been judged before.")] = False,
    jobs: JobsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print who needs what as JSON instead of text.")] = False,
    course_folder: CourseOption = None,
) -> None:
    """Judge a class and record the marks in gradebook.db. A run that was stopped continues where it was."""
    from warpgrade.grading import progress as shown
    from warpgrade.judge.judging import Options

    with needs_nbgrader():
        from warpgrade.grading.pipeline import grade_class
    course = Course.find(course_folder)
    options = Options(look_up=not fresh, jobs=jobs or Options.jobs)
    with shown.GradingProgress(err) as progress:
        summary = grade_class(
            course, assignment, student or None, options, progress.judged, progress.recorded, expect=progress.expect
        )
    if as_json:
        print(summary.json())
    else:
        out.print(summary.text(), markup=False, highlight=False, soft_wrap=True)
    err.print(
        f"Next: `nbgrader generate_feedback {assignment}` for what students read, `nbgrader export` for the marks, "
        "formgrader (`jupyter notebook`, Nbgrader > Formgrader) for what people mark.",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    if summary.done != len(summary.graded):
        raise typer.Exit(1)


@app.command()
@reported
def record(
    verdicts: Annotated[Path, typer.Argument(help="A file that `judge --out` wrote.", show_default=False)],
    course_folder: CourseOption = None,
) -> None:
    """Record verdicts that were made elsewhere (on a GPU machine) for the submission with the same code."""
    with needs_nbgrader():
        from warpgrade.grading.pipeline import record_file
    summary = record_file(Course.find(course_folder), verdicts)
    out.print(summary.text(), markup=False, highlight=False, soft_wrap=True)
    if summary.done != len(summary.graded):
        raise typer.Exit(1)


@app.command()
@reported
def demo(
    folder: Annotated[Path, typer.Option(help="A folder of its own for the demo's course.")] = Path("demo"),
    course_folder: CourseOption = None,
) -> None:
    """Release, hand in for eight invented students, grade, and compare their marks with the expected ones."""
    with needs_nbgrader():
        from warpgrade.demo import run
    raise typer.Exit(0 if run(Course.find(course_folder), folder) else 1)


@contextlib.contextmanager
def needs_nbgrader() -> Iterator[None]:
    """An import that fails for want of nbgrader becomes a message that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("nbgrader", "traitlets", "nbconvert", "bleach"):
            raise
        raise CourseError(
            f"this needs nbgrader, and {error.name} is not installed here. `make setup` installs it; on a machine "
            "without it, `warpgrade judge NOTEBOOK --out verdicts.json` judges, and another one records."
        ) from error


@app.command()
@reported
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say which protections and tiers are on or off on this machine, with the command that turns each on."""
    from warpgrade import doctor as examination

    findings = examination.examine()
    print(examination.as_json(findings) if as_json else examination.report(findings))
    raise typer.Exit(examination.exit_code(findings))


@app.command()
@reported
def gpu(as_json: Annotated[bool, typer.Option("--json", help="Print the queues as JSON.")] = False) -> None:
    """Say who holds which GPU of this machine for judging, for how long still, and how many wait."""
    from warpgrade.judge.speed import status

    found = status.status()
    print(status.as_json(found) if as_json else status.text(found))


def main() -> None:
    """The console script."""
    sys.exit(app())
