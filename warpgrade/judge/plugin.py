"""The Judge as a pytest plugin (entry point `warpgrade`): suites are plain pytest functions.

Inert until `--submission NOTEBOOK` is given, or `run_suite` passes a `Job`. Points: each group (public, hidden, speed)
shares its points evenly among its test *functions*; the cases of a parametrised function are one test.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from warpgrade.judge.verdict import KernelReport, Outcome, SpeedReading, TestKind, Tier, Verdict

if TYPE_CHECKING:
    import torch

    from warpgrade.course import Course, Exercise
    from warpgrade.judge.failure import Failure
    from warpgrade.judge.inputs import Inputs
    from warpgrade.judge.remote import RemoteSubmission
    from warpgrade.judge.sandbox import Sandbox
    from warpgrade.judge.speed.benchmark import Benchmark, Timing
    from warpgrade.submission import Submission

# torch, and all of ours that imports it, is imported inside functions: this file is loaded by every pytest run of the
# environment, and the Worker should start before the Judge spends seconds on its own imports.

SPEED_TEST = "test_speed"


@dataclass
class Job:
    """What one pytest run judges."""

    course: Course
    exercise: Exercise
    submission: Submission
    sandbox: Sandbox
    tier: Tier
    #: `check` in a notebook: public tests alone. Not a judgement, and never recorded as one.
    public_only: bool = False
    #: A GPU to judge speed on; without one it is pending.
    timing: Timing | None = None


@dataclass
class _Test:
    """One test function, all its cases together."""

    kind: TestKind
    points: Fraction = Fraction(0)
    failure: Failure | None = None
    seed: int = 0
    cases: int = 0
    passed_cases: int = 0
    duration_s: float = 0.0
    reading: SpeedReading | None = None


@dataclass
class JudgePlugin:
    """Provides the fixtures, and turns what happens to each test into a Verdict."""

    job: Job
    tests: dict[str, _Test] = field(default_factory=dict)
    fault: str = ""
    #: What a TA may read about it and a student may not: a suite's own text, paths.
    fault_evidence: str = ""
    remote: RemoteSubmission | None = None
    #: What students may read of their kernels, and why there is nothing where there is nothing.
    kernels: list[KernelReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    #: A timed call took too long, or its Worker was killed by nobody that we know: see `ExerciseVerdict.disturbed`.
    disturbed: bool = False
    _public_ended: bool = False
    _inputs: Inputs | None = None
    _benchmark: Benchmark | None = None
    _deselecting: bool = False

    # --- fixtures -----------------------------------------------------------------------------------------------

    @pytest.fixture
    def submission(self) -> RemoteSubmission:
        """The student's code: `submission.relu(x)` calls it, in the Worker."""
        assert self.remote is not None
        return self.remote

    @pytest.fixture
    def inputs(self) -> Inputs:
        """Makes inputs from a fresh secret seed."""
        from warpgrade.judge.inputs import Inputs

        self._inputs = Inputs()
        return self._inputs

    @pytest.fixture
    def assert_close(self) -> Callable[..., None]:
        """`compare.assert_close`, knowing the call's inputs so that it can recognise a copy of one."""
        from warpgrade.judge import compare

        return self._with_inputs(compare.assert_close)

    @pytest.fixture
    def assert_identical(self) -> Callable[..., None]:
        """`compare.assert_identical`, likewise."""
        from warpgrade.judge import compare

        return self._with_inputs(compare.assert_identical)

    @pytest.fixture
    def reference(self) -> ModuleType:
        """The course's `reference.py` for the hidden suite. Public tests travel to students and have none."""
        return _reference(self.job.course.reference(self.job.exercise.assignment, self.job.exercise.id))

    @pytest.fixture
    def benchmark(self) -> Benchmark:
        """`benchmark(check, moved_bytes=...)`: judged speed. Pending without a GPU."""
        from warpgrade.judge.speed.benchmark import Benchmark

        # No student code may run beside the baseline. Later tests start a Worker anew.
        self._end_public()
        if self.remote is not None:
            self.remote.close()
        self._benchmark = Benchmark(self.job.exercise, self.job.timing)
        return self._benchmark

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """`length` is one of the battery's sizes."""
        from warpgrade.judge import battery

        if "length" in metafunc.fixturenames:
            metafunc.parametrize("length", battery.LENGTHS)

    def _with_inputs(self, function: Callable[..., None]) -> Callable[..., None]:
        def compare(actual: torch.Tensor, expected: torch.Tensor, **keywords: Any) -> None:
            known = {} if self.remote is None else self.remote.last_inputs
            function(actual, expected, inputs=known, **keywords)

        return compare

    # --- the run ------------------------------------------------------------------------------------------------

    def pytest_sessionstart(self) -> None:
        """Start the Worker first: its imports run while the Judge imports torch for itself."""
        from warpgrade.judge.remote import RemoteSubmission
        from warpgrade.judge.sandbox import SandboxUnavailable

        secrets = self.job.course.secrets()
        self.remote = RemoteSubmission(self.job.exercise, self.job.submission, self.job.sandbox, self.job.tier, secrets)
        try:
            self.remote.start()
        except SandboxUnavailable as error:
            self._note_fault("The sandbox cannot be had.", str(error))

    def pytest_sessionfinish(self) -> None:
        """End the Worker."""
        if self.remote is not None:
            self._end_public()
            self.notices = self.remote.notices() + self.notices
            self.remote.close()

    def _end_public(self) -> None:
        """Ask about the kernels, once, and before any hidden test: afterwards an answer could hold hidden inputs."""
        from warpgrade.judge.failure import Failure

        if self._public_ended or self.remote is None:
            return
        self._public_ended = True
        try:
            self.kernels = [] if self.fault else self.remote.kernel_reports()
        except Failure as failure:  # costs nothing: the tests decide
            self.notices.append(f"There are no facts about your kernels: {failure.sentence}")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep this exercise's tests, and share out its points."""
        public_file = self.job.course.public_tests(self.job.exercise.assignment)
        prefix = f"test_{self.job.exercise.id}__"
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            foreign = item.path == public_file and not item.name.startswith(prefix)
            (dropped if foreign else kept).append(item)
        items[:] = kept
        if dropped:
            self._deselecting = True
            config.hook.pytest_deselected(items=dropped)
            self._deselecting = False
        for item in items:
            name = _function_name(item)
            kind = TestKind.PUBLIC if item.path == public_file else TestKind.HIDDEN
            kind = TestKind.SPEED if name == SPEED_TEST else kind
            self.tests.setdefault(name, _Test(kind)).cases += 1
        exercise = self.job.exercise
        shares = {
            TestKind.PUBLIC: exercise.public_points,
            TestKind.HIDDEN: exercise.hidden_points,
            TestKind.SPEED: exercise.speed_points,
        }
        if self.job.public_only:
            shares = {TestKind.PUBLIC: exercise.public_points}
        for kind, points in shares.items():
            group = [test for test in self.tests.values() if test.kind is kind]
            if bool(group) != bool(points):
                self._note_fault(
                    f"{exercise.assignment}/{exercise.id} has {len(group)} {kind} tests for {points} points."
                )
            for test in group:
                test.points = points / len(group)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A suite that cannot be read is a fault of the course."""
        if report.failed:
            self._note_fault("The tests of this exercise cannot be read.", f"{report.nodeid}: {report.longrepr}")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Whoever else leaves tests out would share their points among the rest."""
        if not self._deselecting:
            self._note_fault("Some tests were left out of the run.", ", ".join(item.name for item in items))

    def _note_fault(self, sentence: str, evidence: str = "") -> None:
        """The first one counts. `sentence` is for students too: no paths, nothing of a suite's."""
        if not self.fault:
            self.fault, self.fault_evidence = sentence, evidence[-1500:]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """The first failed case of a function decides it; the others are not run. A fault stops everything."""
        self._inputs = self._benchmark = None
        if self.tests[_function_name(item)].kind is not TestKind.PUBLIC:
            self._end_public()
        if self.fault or self.tests[_function_name(item)].failure is not None:
            pytest.skip("decided already")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what became of this case."""
        test = self.tests[_function_name(item)]
        test.duration_s += call.duration
        if call.excinfo is not None:
            self._note_exception(test, item, call.excinfo.value)
        elif call.when == "call":
            self._note_pass(test)
        return (yield)

    def _note_pass(self, test: _Test) -> None:
        if test.kind is TestKind.SPEED:
            test.reading = self._benchmark.reading if self._benchmark else None
            if test.reading is None:
                self._note_fault("A test of speed has ended without having measured anything.")
                return
        test.passed_cases += 1

    def _note_exception(self, test: _Test, item: pytest.Item, error: BaseException) -> None:
        from warpgrade.judge.failure import failure_of

        if isinstance(error, pytest.skip.Exception) and (self.fault or test.failure is not None):
            return  # our own skip
        if test.failure is None:
            test.failure = failure_of(error, item.path)
            test.seed = self._inputs.seed if self._inputs else 0
            self.disturbed |= self._benchmark is not None and self._benchmark.disturbed
            # A fault of timing is that test's alone: what is known of correctness stays known.
            if test.failure.outcome is Outcome.FAULT and test.kind is not TestKind.SPEED:
                self._note_fault(test.failure.sentence, "\n".join(test.failure.evidence.values()))

    # --- the result ---------------------------------------------------------------------------------------------

    def verdicts(self) -> list[Verdict]:
        """One Verdict for each test function. A test that never came to an outcome is a fault."""
        return [self._verdict(name, test) for name, test in self.tests.items()]

    def _verdict(self, name: str, test: _Test) -> Verdict:
        points = str(test.points)
        name = name.removeprefix(f"test_{self.job.exercise.id}__").removeprefix("test_").replace("_", " ")
        judged = self.remote is not None and self.remote.was_ready
        # Every case: a run that ended between two cases has not passed the second.
        if judged and test.failure is None and test.passed_cases == test.cases:
            return Verdict(
                test=name,
                kind=test.kind,
                outcome=Outcome.PASSED,
                points=points,
                duration_s=test.duration_s,
                reading=test.reading,
            )
        failure = test.failure
        if failure is None:
            sentence = self.fault or "This test did not run. This is not the submission's fault."
            return Verdict(test=name, kind=test.kind, outcome=Outcome.FAULT, points=points, sentence=sentence)
        evidence = dict(failure.evidence)
        if test.seed:
            evidence["seed"] = str(test.seed)
        return Verdict(
            test=name,
            kind=test.kind,
            outcome=failure.outcome,
            points=points,
            sentence=failure.sentence,
            pattern=failure.pattern,
            exception=failure.exception,
            location=failure.location,
            evidence=evidence,
            duration_s=test.duration_s,
            reading=failure.reading,
        )


def _function_name(item: pytest.Item) -> str:
    return getattr(item, "originalname", None) or item.name


def _reference(file: Path) -> ModuleType:
    """Import a `reference.py` under a name of its own: every assignment has one. Raises ImportError."""
    unique = f"warpgrade_reference_{file.parent.name.replace('-', '_')}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[unique] = module
    return sys.modules[unique]


# --- from a terminal: pytest course_tests/<assignment>/test_<id>.py --submission notebook.ipynb ------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--submission` and `--no-sandbox`."""
    group = parser.getgroup("warpgrade", "judge a submission")
    group.addoption("--submission", type=Path, metavar="NOTEBOOK", help="the notebook whose code these suites judge")
    group.addoption("--no-sandbox", action="store_true", help="run it unprotected: for an author's own code only")


def pytest_configure(config: pytest.Config) -> None:
    """Register the Judge when a submission is named."""
    path = config.getoption("--submission")
    if path is None or config.pluginmanager.has_plugin("warpgrade-judge"):
        return
    from warpgrade.course import Course
    from warpgrade.judge.sandbox.choice import choose_sandbox
    from warpgrade.submission import read_submission

    suites = [Path(argument.split("::")[0]).resolve() for argument in config.args]
    suites = [suite for suite in suites if suite.name.startswith("test_") and suite.suffix == ".py"]
    if len(suites) != 1:
        raise pytest.UsageError(
            "--submission judges one exercise at a time: name one course_tests/<assignment>/test_<id>.py. "
            "For a whole notebook: warpgrade judge NOTEBOOK"
        )
    course = Course.find(suites[0].parent)
    exercise = course.exercise(suites[0].parent.name, suites[0].stem.removeprefix("test_"))
    config.args.insert(0, str(course.public_tests(exercise.assignment)))
    sandbox = choose_sandbox(isolate=not config.getoption("--no-sandbox"))
    job = Job(course, exercise, read_submission(path.resolve()), sandbox, Tier.MODEL)
    config.pluginmanager.register(JudgePlugin(job), "warpgrade-judge")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The verdicts and the mark, after pytest's own account."""
    plugin = config.pluginmanager.get_plugin("warpgrade-judge")
    if not isinstance(plugin, JudgePlugin):
        return
    terminalreporter.section(f"verdicts: {plugin.job.exercise.assignment}/{plugin.job.exercise.id}")
    for verdict in plugin.verdicts():
        terminalreporter.line(f"{verdict.outcome:16} {verdict.points:>6}  {verdict.test}  {verdict.sentence}")
