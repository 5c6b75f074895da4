"""Judge one exercise of one submission: a pytest run in this process, and its Verdicts."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import pytest

import warpgrade
from warpgrade.course import Course, Exercise
from warpgrade.judge.plugin import Job, JudgePlugin
from warpgrade.judge.verdict import Environment, ExerciseVerdict, Tier


def run_suite(job: Job) -> ExerciseVerdict:
    """Run the public and hidden tests of `job`. Never raises for what a submission does."""
    started = time.monotonic()
    course, exercise = job.course, job.exercise
    plugin = JudgePlugin(job)
    digest = "" if job.public_only else suite_digest(course, exercise)
    log = io.StringIO()
    suites = [] if job.public_only else [str(course.suite(exercise.assignment, exercise.id))]
    arguments = [
        str(course.public_tests(exercise.assignment)), *suites,
        "--import-mode=importlib", "--noconftest", "-c", os.devnull, f"--rootdir={course.root}",
        # pytest parses a file for each frame of its own tracebacks, which nobody here reads: 1 s of a wrong answer
        "--tb=native",
        "-p", "no:cacheprovider", "-p", "no:terminalreporter", "-p", "no:faulthandler", "--capture=no",
        "-p", "warpgrade.judge.plugin",
    ]  # fmt: skip
    sys.dont_write_bytecode = True  # the course may be read-only, and is none of our business to litter
    _forget(course, exercise, suites)
    with _pytest_alone(), contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        status = pytest.main(arguments, plugins=[_Named(plugin)])
    fault, evidence = plugin.fault, plugin.fault_evidence
    if not fault and status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        fault, evidence = f"The run of the tests ended early ({status!s}).", log.getvalue()[-1500:]
    if digest and digest != suite_digest(course, exercise):
        fault = fault or "The tests were changed while they ran."
    return ExerciseVerdict(
        assignment=exercise.assignment,
        exercise=exercise.id,
        tier=job.tier,
        submission_digest=job.submission.digest,
        suite_digest=digest,
        environment=environment(),
        verdicts=plugin.verdicts(),
        fault=fault,
        fault_evidence=evidence,
        disturbed=plugin.disturbed or (plugin.remote is not None and plugin.remote.disturbed),
        sandboxed=job.sandbox.isolated,
        duration_s=time.monotonic() - started,
        notices=plugin.notices,
        kernels=plugin.kernels,
    )


@contextlib.contextmanager
def _pytest_alone() -> Iterator[None]:
    """Neither what else is installed nor the caller's environment has a say in marks (`-k` in PYTEST_ADDOPTS leaves
    tests out); and a pytest that this process starts later is none of ours."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PYTEST_")}
    for name in before:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            del os.environ[name]
        os.environ.update(before)


def _forget(course: Course, exercise: Exercise, suites: list[str]) -> None:
    """Have suites and their reference imported anew: in a notebook's kernel an author mends them between two runs, or
    has two courses, whose files pytest would take for one another: it names a module after its place in the course."""
    files = {str(course.public_tests(exercise.assignment)), *suites}
    files |= {str(course.reference(exercise.assignment, exercise.id))} if suites else set()
    inside = [Path(file).relative_to(course.root) for file in files if Path(file).is_relative_to(course.root)]
    names = {".".join(file.with_suffix("").parts) for file in inside}
    for name, module in list(sys.modules.items()):
        if name in names or getattr(module, "__file__", None) in files:
            del sys.modules[name]


class _Named:
    """Registers the Judge under the name by which `pytest_configure` recognises it."""

    def __init__(self, plugin: JudgePlugin) -> None:
        self._plugin = plugin

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self._plugin, "warpgrade-judge")


def suite_digest(course: Course, exercise: Exercise) -> str:
    """SHA-256 of all of the course's that a verdict depends on: tests, references, baselines, the declaration."""
    suite = course.suite(exercise.assignment, exercise.id)
    source = course.source(exercise.assignment)
    hasher = hashlib.sha256(msgspec.json.encode(exercise))
    helpers = sorted(path for path in suite.parent.glob("*.py") if not path.name.startswith("test_"))
    reference = course.reference(exercise.assignment, exercise.id)
    helpers += [reference] if reference not in helpers else []
    for path in (suite, *helpers, course.public_tests(exercise.assignment), source / "baselines.py"):
        if path.is_file():
            hasher.update(f"\n{path.name}\n".encode() + path.read_bytes())
    return hasher.hexdigest()


@functools.cache
def environment() -> Environment:
    """The versions that a verdict depends on, without importing any of them."""

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return ""

    python = ".".join(map(str, sys.version_info[:3]))
    return Environment(
        warpgrade=f"{warpgrade.__version__}+{_own_digest()}",
        python=python,
        torch=of("torch"),
        triton=of("triton"),
        numpy=of("numpy"),
    )


def _own_digest() -> str:
    """A short digest of the judge's own code: a verdict of yesterday's comparison is not one of today's."""
    package = Path(warpgrade.__file__).parent
    hasher = hashlib.sha256()
    for folder in ("wire", "worker", "model", "judge"):
        for path in sorted((package / folder).rglob("*.py")):
            hasher.update(path.read_bytes())
    for path in (package / "course.py", package / "submission.py"):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:12]


def empty_verdict(exercise: Exercise, digest: str, tier: Tier, fault: str, evidence: str = "") -> ExerciseVerdict:
    """The Verdict of an exercise that could not be judged at all."""
    return ExerciseVerdict(
        assignment=exercise.assignment,
        exercise=exercise.id,
        tier=tier,
        submission_digest=digest,
        suite_digest="",
        environment=environment(),
        verdicts=[],
        fault=fault,
        fault_evidence=evidence,
    )
