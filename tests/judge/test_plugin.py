"""What becomes of a test: points shared out exactly, and a pass only where every case of it was judged and passed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.conftest import Tiny
from tests.kernel_facts import facts
from warpgrade.course import Course
from warpgrade.judge import suite as suite_module
from warpgrade.judge.marks import correctness_mark
from warpgrade.judge.plugin import Job
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.judge.suite import run_suite, suite_digest
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, TestKind, Tier, Verdict
from warpgrade.wire import tensors as wire_tensors
from warpgrade.wire.compiled import CompiledKernel
from warpgrade.wire.messages import ArgumentTraffic, Call, Compile, KernelUse, Problem, Raised, Ready, Unsafe

Run = Callable[..., ExerciseVerdict]


@pytest.fixture
def judge(tiny: Any, workers: Any, notebook: Any) -> Run:
    """Judge `double` with this hidden suite; the Worker is honest unless another sandbox is given."""

    def run(
        suite: str | None = None, sandbox: Any = None, exercise: Any = None, public_only: bool = False
    ) -> ExerciseVerdict:
        if suite is not None:
            tiny.write("course_tests/tiny/test_double.py", suite)
        submission = notebook("def double(x): return x + x")
        job = Job(tiny.course, exercise or tiny.exercise(), submission, sandbox or workers.honest(), Tier.MODEL)
        job.public_only = public_only
        # A judge is a process of its own and imports its suite once; here the next run must import it anew.
        known = set(sys.modules)
        try:
            return run_suite(job)
        finally:
            for name in set(sys.modules) - known:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tiny.root)) or name.startswith(
                    "course_tests"
                ):
                    del sys.modules[name]

    return run


def of(judged: ExerciseVerdict, name: str) -> Verdict:
    (found,) = [verdict for verdict in judged.verdicts if verdict.test == name]
    return found


def wrap(body: str) -> str:
    """A suite of one test with this body, beside one that is right."""
    right = """
        import pytest

        def test_right(submission, inputs, assert_close):
            x = inputs.normal(3)
            assert_close(submission.double(x), 2 * x)

        def test_it(submission, inputs, assert_close, assert_identical):
            x = inputs.normal(3)
    """
    return textwrap.dedent(right) + textwrap.indent(textwrap.dedent(body), "    ")


# --- points ---------------------------------------------------------------------------------------------------------


def test_a_right_submission_gets_everything(judge: Run, tiny: Any) -> None:
    judged = judge()
    assert judged.fault == ""
    assert {verdict.outcome for verdict in judged.verdicts} == {Outcome.PASSED}
    mark = correctness_mark(tiny.exercise(), judged)
    assert mark.earned == mark.possible == 10


@pytest.mark.parametrize("tests", [1, 2, 3, 7])
def test_groups_share_their_points_exactly(tests: int, judge: Run) -> None:
    suite = "".join(
        f"def test_{i}(submission, inputs):\n    submission.double(inputs.normal(2))\n" for i in range(tests)
    )
    judged = judge(suite)
    shares = {kind: [Fraction(v.points) for v in judged.verdicts if v.kind is kind] for kind in TestKind}
    assert shares[TestKind.PUBLIC] == [Fraction(3)]
    assert shares[TestKind.HIDDEN] == [Fraction(7, tests)] * tests
    assert shares[TestKind.SPEED] == []


def test_the_cases_of_a_parametrised_function_are_one_test(judge: Run) -> None:
    judged = judge("""
        import pytest
        @pytest.mark.parametrize("n", range(1, 6))
        def test_many(submission, inputs, assert_close, n):
            x = inputs.normal(n)
            assert_close(submission.double(x), (2 if n < 4 else 3) * x)
        def test_lengths(submission, inputs, length, assert_close):
            x = inputs.normal(length)
            assert_close(submission.double(x), 2 * x)
    """)
    assert of(judged, "many").outcome is Outcome.WRONG
    assert of(judged, "lengths").outcome is Outcome.PASSED
    assert of(judged, "many").points == of(judged, "lengths").points == "7/2"


def test_public_tests_of_other_exercises_do_not_run(judge: Run) -> None:
    assert [v.test for v in judge().verdicts if v.kind is TestKind.PUBLIC] == ["two"]


def test_speed_without_a_gpu_is_pending_and_leaves_the_rest_decided(judge: Run, tiny: Any) -> None:
    with (tiny.root / "source/tiny/exercises.toml").open("a") as file:
        file.write('\n    [exercises.double.speed]\n    baseline = "copy"\n    thresholds = {}\n')
    judged = judge("""
        def test_right(submission, inputs, assert_close):
            x = inputs.normal(3)
            assert_close(submission.double(x), 2 * x)
        def test_speed(benchmark):
            benchmark(lambda result, x: None, moved_bytes=lambda n: 8 * n)
    """)
    assert of(judged, "speed").outcome is Outcome.PENDING
    assert judged.decided
    assert correctness_mark(tiny.exercise(), judged).earned == 8


def test_a_test_of_speed_that_measures_nothing_is_the_courses_fault(judge: Run, tiny: Any) -> None:
    with (tiny.root / "source/tiny/exercises.toml").open("a") as file:
        file.write('\n    [exercises.double.speed]\n    baseline = "copy"\n    thresholds = {}\n')
    judged = judge("""
        def test_right(submission, inputs, assert_close):
            x = inputs.normal(3)
            assert_close(submission.double(x), 2 * x)
        def test_speed(benchmark):
            pass
    """)
    assert of(judged, "speed").outcome is Outcome.FAULT
    assert "measured" in judged.fault
    assert not judged.decided


# --- whose fault ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "outcome"),
    [("assert_close(submission.double(x), 3 * x)", Outcome.WRONG), ("assert submission.double(x).sum() == 1e9", Outcome.WRONG),
     ("assert (submission.double(x) == 0).all(), 'why'", Outcome.WRONG), ("1 / 0", Outcome.FAULT), ("submission.double(object())", Outcome.FAULT),
     ("submission.double(x, x, x)", Outcome.FAULT), ("assert_close(submission.double(x), x[:2])", Outcome.FAULT),
     ("raise TypeError", Outcome.FAULT), ("pytest.skip('why')", Outcome.FAULT), ("pytest.xfail('why')", Outcome.FAULT),
     ("pytest.fail('why')", Outcome.FAULT), ("raise SystemExit(0)", Outcome.FAULT), ("import unittest; raise unittest.SkipTest", Outcome.FAULT),
     ("import no_such_module_here", Outcome.FAULT), ("import torch.testing as t; t.assert_close(submission.double(x), x * 3)", Outcome.FAULT),
     ("raise GeneratorExit", Outcome.FAULT), ("raise BaseException", Outcome.FAULT)],
)  # fmt: skip
def test_a_plain_assert_is_the_students_and_all_else_is_ours(
    body: str, outcome: Outcome, judge: Run, tiny: Any
) -> None:
    judged = judge(wrap(body))
    assert of(judged, "it").outcome is outcome
    assert of(judged, "right").outcome is Outcome.PASSED
    earned = correctness_mark(tiny.exercise(), judged).earned
    assert earned == (None if outcome is Outcome.FAULT else Fraction(3) + Fraction(7, 2))


def test_an_assert_in_the_reference_is_ours(judge: Run, tiny: Any) -> None:
    tiny.write("course_tests/tiny/reference.py", "def double(x):\n    assert x is None\n")
    judged = judge("""
        def test_it(submission, inputs, reference):
            x = inputs.normal(3)
            submission.double(x)
            reference.double(x)
    """)
    assert of(judged, "it").outcome is Outcome.FAULT


def test_the_reference_is_the_one_beside_the_suite(judge: Run, tiny: Any) -> None:
    tiny.write("course_tests/tiny/reference.py", "def double(x):\n    return 2 * x\n")
    judged = judge("""
        def test_it(submission, inputs, reference, assert_close):
            x = inputs.normal(3)
            assert_close(submission.double(x), reference.double(x))
    """)
    assert of(judged, "it").outcome is Outcome.PASSED


def test_a_missing_reference_is_ours(judge: Run) -> None:
    assert of(judge("def test_it(reference): pass"), "it").outcome is Outcome.FAULT


@pytest.mark.parametrize(
    "mark",
    [
        "xfail",
        "xfail(strict=True)",
        "xfail(raises=Exception)",
        "xfail(run=False)",
        "skip",
        "skipif(True, reason='why')",
    ],
)
def test_no_mark_turns_a_failure_into_a_pass(mark: str, judge: Run, tiny: Any) -> None:
    judged = judge(f"""
        import pytest
        @pytest.mark.{mark}
        def test_it(submission, inputs, assert_close):
            x = inputs.normal(3)
            assert_close(submission.double(x), 3 * x)
    """)
    assert of(judged, "it").outcome in {Outcome.WRONG, Outcome.FAULT}
    assert correctness_mark(tiny.exercise(), judged).earned in (None, 3)


@pytest.mark.parametrize(
    "body", ["pytest.exit('enough', returncode=0)", "pytest.exit('enough')", "raise KeyboardInterrupt", "pytest.exit('enough', returncode=1)"]
)  # fmt: skip
def test_a_run_that_ends_early_passes_nothing_that_it_did_not_finish(body: str, judge: Run, tiny: Any) -> None:
    judged = judge(f"""
        import pytest
        @pytest.mark.parametrize("n", [1, 2, 3])
        def test_many(submission, inputs, assert_close, n):
            x = inputs.normal(n)
            assert_close(submission.double(x), 2 * x)
            if n == 2:
                {body}
        def test_later(submission, inputs, assert_close):
            x = inputs.normal(3)
            assert_close(submission.double(x), 2 * x)
    """)
    assert of(judged, "many").outcome is Outcome.FAULT
    assert of(judged, "later").outcome is Outcome.FAULT
    assert correctness_mark(tiny.exercise(), judged).earned is None


def test_a_failing_teardown_is_no_pass(judge: Run) -> None:
    judged = judge("""
        import pytest
        @pytest.fixture
        def broken():
            yield
            raise RuntimeError
        def test_it(submission, inputs, broken):
            submission.double(inputs.normal(3))
    """)
    assert of(judged, "it").outcome is Outcome.FAULT


def test_a_missing_fixture_is_ours(judge: Run) -> None:
    assert of(judge("def test_it(submission, no_such_fixture): pass"), "it").outcome is Outcome.FAULT


@pytest.mark.parametrize(
    "suite",
    ["def test_it(:", "import no_such_module_here\ndef test_it(submission): pass", "raise ValueError", "import pytest\npytest.skip(allow_module_level=True)",
     "", "x = 1", "import pytest\npytest.importorskip('no_such_module_here')\ndef test_it(submission): pass", "raise SystemExit(0)",
     "import pytest\npytest.exit('enough', returncode=0)", "def test_speed(submission, benchmark): benchmark()"],
)  # fmt: skip
def test_a_suite_that_cannot_be_collected_or_is_empty_is_a_fault(suite: str, judge: Run, tiny: Any) -> None:
    judged = judge(suite)
    assert not judged.decided
    assert correctness_mark(tiny.exercise(), judged).earned is None


@pytest.mark.parametrize("checks", ["", "def test_other__x(submission): pass", "def test_double__x(:"])
def test_missing_public_tests_are_a_fault(checks: str, judge: Run, tiny: Any) -> None:
    tiny.write("source/tiny/checks.py", checks)
    judged = judge()
    assert judged.fault
    assert correctness_mark(tiny.exercise(), judged).earned is None


def test_a_suite_that_is_changed_while_it_runs_is_a_fault(judge: Run, tiny: Any) -> None:
    judged = judge(f"""
        from pathlib import Path
        def test_it(submission, inputs):
            submission.double(inputs.normal(3))
            with Path({str(tiny.root / "course_tests/tiny/test_double.py")!r}).open("a") as file:
                file.write("# edited")
    """)
    assert "changed while they ran" in judged.fault


def test_a_run_names_its_suite_and_writes_nothing_into_the_course(judge: Run, tiny: Any) -> None:
    before = sorted(tiny.root.rglob("*"))
    judged = judge()
    assert judged.suite_digest == suite_digest(tiny.course, tiny.exercise())
    assert sorted(tiny.root.rglob("*")) == before


# --- Workers that fail ----------------------------------------------------------------------------------------------


def test_no_worker_no_pass(judge: Run, tiny: Any) -> None:
    """Also of a test that never calls the submission."""
    always = """
        def test_true():
            assert True
        def test_calls(submission, inputs):
            submission.double(inputs.normal(3))
    """

    class Broken:
        isolated = True

        def start(self, *arguments: Any) -> Any:
            raise SandboxUnavailable("bubblewrap is not installed")

    def unsafe(sock: socket.socket) -> None:
        message = msgspec.json.encode(Unsafe(["the network can be seen"]))
        sock.sendall(len(message).to_bytes(4, "little") + message)

    for sandbox in (Broken(), FakeSandbox(lambda sock: None), FakeSandbox(unsafe)):
        judged = judge(always, sandbox)
        assert {verdict.outcome for verdict in judged.verdicts} == {Outcome.FAULT}
        assert correctness_mark(tiny.exercise(), judged).earned is None


def test_a_suite_that_asks_the_submission_nothing_passes_nobody(judge: Run, tiny: Any) -> None:
    tiny.write("source/tiny/checks.py", "def test_double__x(): assert True\n")
    judged = judge("def test_true(): assert True\n")
    assert {verdict.outcome for verdict in judged.verdicts} == {Outcome.FAULT}


def test_each_outcome_of_a_call_becomes_the_tests(judge: Run, workers: Any) -> None:
    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        player.say(Raised(Problem("ValueError", "torch.Size([33])"), "call"))

    judged = judge(sandbox=workers.calling(on_call))
    assert {verdict.outcome for verdict in judged.verdicts} == {Outcome.CRASHED}
    for verdict in judged.verdicts:
        assert "33" not in verdict.sentence
        assert verdict.evidence["exception text"] == "torch.Size([33])"
        assert "seed" in verdict.evidence


def test_one_crash_is_not_charged_to_the_next_test(judge: Run, workers: Any) -> None:
    calls: list[Call] = []

    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        calls.append(call)
        if len(calls) == 1:
            player.socket.shutdown(socket.SHUT_RDWR)
            return
        from warpgrade.wire import tensors

        x = tensors.unpack(call.arguments[0], torch.frombuffer(payload, dtype=torch.uint8), [])
        player.answer(x + x, payload)

    judged = judge(sandbox=workers.calling(on_call))
    outcomes = [verdict.outcome for verdict in judged.verdicts]
    assert outcomes.count(Outcome.CRASHED) == 1
    assert outcomes.count(Outcome.PASSED) == len(outcomes) - 1


def test_unsandboxed_is_marked_and_earns_nothing(judge: Run, workers: Any, tiny: Any) -> None:
    judged = judge(sandbox=workers.honest(isolated=False))
    assert not judged.sandboxed
    assert {verdict.outcome for verdict in judged.verdicts} == {Outcome.PASSED}
    assert correctness_mark(tiny.exercise(), judged).earned is None


def test_public_tests_alone_are_no_judgement(judge: Run, tiny: Any) -> None:
    judged = judge(public_only=True)
    assert [verdict.kind for verdict in judged.verdicts] == [TestKind.PUBLIC]
    assert correctness_mark(tiny.exercise(), judged).earned is None


# --- from a terminal ------------------------------------------------------------------------------------------------


def test_without_submission_the_plugin_is_inert_and_two_suites_are_too_many(
    tiny: Any, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    suites = [str(tiny.root / f"course_tests/tiny/test_{name}.py") for name in ("double", "fill")]
    command = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--import-mode=importlib",
        *suites,
    ]
    done = subprocess.run(
        [*command, "--submission", "x.ipynb"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "one exercise at a time" in done.stderr
    assert shutil.which("pytest") is None or pytestconfig.pluginmanager.get_plugin("warpgrade-judge") is None


# --- what has no say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [("PYTEST_ADDOPTS", "-k right"), ("PYTEST_ADDOPTS", "-x"), ("PYTEST_PLUGINS", "no_such_plugin")]
)
def test_the_callers_environment_has_no_say_in_marks(
    name: str, value: str, judge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    judged = judge(wrap("assert_close(submission.double(x), 3 * x)"))
    assert judged.fault == ""
    assert {verdict.test for verdict in judged.verdicts} == {"two", "right", "it"}
    assert os.environ[name] == value


def test_tests_that_somebody_else_leaves_out_are_a_fault(judge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their points would be shared among the rest."""
    monkeypatch.setattr(suite_module, "_pytest_alone", contextlib.nullcontext)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k right")
    assert "left out" in judge(wrap("pass")).fault


def test_what_a_broken_suite_says_is_not_for_students(judge: Run) -> None:
    judged = judge("EXPECTED = reference_of_hidden(1025)\ndef test_it(submission): pass\n")
    assert judged.fault
    assert "reference_of_hidden" not in judged.fault
    assert "reference_of_hidden" in judged.fault_evidence
    assert all("reference_of_hidden" not in verdict.sentence for verdict in judged.verdicts)


def test_a_fault_in_one_test_ends_the_others(judge: Run) -> None:
    judged = judge("""
        def test_a(submission):
            raise OSError("a full disk")
        def test_b(submission):
            raise AssertionError("this must not run")
    """)
    assert judged.fault
    assert of(judged, "b").outcome is Outcome.FAULT


def test_a_suite_that_was_mended_is_imported_anew(tiny: Any, notebook: Any, workers: Any) -> None:
    """As in a notebook's kernel, where `grade` runs again and again."""
    job = Job(tiny.course, tiny.exercise(), notebook("def double(x): return x + x"), workers.honest(), Tier.MODEL)
    for factor, outcome in ((3, Outcome.WRONG), (2, Outcome.PASSED)):
        tiny.write("course_tests/tiny/reference.py", f"FACTOR = {factor}\n")
        tiny.write("course_tests/tiny/test_double.py", f"""
            def test_it(submission, inputs, assert_close, reference):
                x = inputs.normal(3)
                assert_close(submission.double(x), reference.FACTOR * x + 0 * {factor})
        """)  # fmt: skip
        assert of(run_suite(job), "it").outcome is outcome


def test_two_courses_in_one_process_are_not_taken_for_one_another(
    tiny: Any, notebook: Any, workers: Any, tmp_path: Path
) -> None:
    """As an instructor has them, who compares last year's course with this one's in a notebook."""
    other = Tiny(tmp_path / "other")
    other.write("course_tests/tiny/test_double.py", "def test_other(submission, inputs): assert submission\n")
    for course, test in ((tiny, "sizes"), (other, "other"), (tiny, "sizes")):
        job = Job(
            course.course, course.exercise(), notebook("def double(x): return x + x"), workers.honest(), Tier.MODEL
        )
        assert of(run_suite(job), test).outcome is Outcome.PASSED


def test_a_suite_of_the_overlay_may_use_the_courses_reference(
    tiny: Any, notebook: Any, workers: Any, tmp_path: Path
) -> None:
    tiny.write("course_tests/tiny/reference.py", "FACTOR = 2\n")
    private = tmp_path / "private/tiny/test_double.py"
    private.parent.mkdir(parents=True)
    private.write_text(
        "def test_mine(submission, inputs, assert_close, reference):\n"
        "    x = inputs.normal(3)\n    assert_close(submission.double(x), reference.FACTOR * x)\n"
    )
    course = Course(tiny.root, tmp_path / "private")
    job = Job(course, tiny.exercise(), notebook("def double(x): return x + x"), workers.honest(), Tier.MODEL)
    judged = run_suite(job)
    assert of(judged, "mine").outcome is Outcome.PASSED
    before = suite_digest(course, tiny.exercise())
    tiny.write("course_tests/tiny/reference.py", "FACTOR = 3\n")
    assert suite_digest(course, tiny.exercise()) != before


# --- facts about kernels ----------------------------------------------------------------------------------------------


def with_kernels(workers: Any, heard: list[Any], answer: Callable[[Compile], Any]) -> Any:
    """A Worker whose every call runs one kernel, and that notes what it is asked, in order."""

    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        heard.append(call)
        x = wire_tensors.unpack(call.arguments[0], torch.frombuffer(payload, dtype=torch.uint8), [])
        moved = ArgumentTraffic(x.numel() * 4, 0, 1, 0)
        player.answer(x + x, payload, kernels=(KernelUse(0, "k", 1, {"x": moved}, False),))

    def on_compile(player: Any, message: Compile) -> None:
        heard.append(message)
        player.say(answer(message))

    return workers.calling(on_call, on_compile)


def compiled(message: Compile) -> CompiledKernel:
    return facts(message.arch)


def test_students_facts_are_asked_for_after_the_public_tests_and_never_after_a_hidden_one(
    judge: Run, workers: Any
) -> None:
    heard: list[Any] = []
    judged = judge(sandbox=with_kernels(workers, heard, compiled))
    explained = [i for i, message in enumerate(heard) if isinstance(message, Compile) and message.explain]
    assert explained == [2, 3], "after the one public call and the guard's question"
    assert sum(isinstance(message, Call) for message in heard[4:]) == 4
    (kernel,) = judged.kernels
    assert kernel.traffic["x"].bytes_loaded == 5 * 4, "of the public test, with five elements"
    assert [result.arch for result in kernel.compiled] == [80, 90]
    assert judged.verdicts == [v for v in judged.verdicts if v.outcome is Outcome.PASSED]


def test_check_has_facts_too(judge: Run, workers: Any) -> None:
    judged = judge(sandbox=with_kernels(workers, [], compiled), public_only=True)
    assert [kernel.name for kernel in judged.kernels] == ["k"]


def test_no_facts_are_only_a_note(judge: Run, workers: Any) -> None:
    def answer(message: Compile) -> Any:
        return Ready() if message.explain else compiled(message)

    judged = judge(sandbox=with_kernels(workers, [], answer))
    assert judged.kernels == []
    (notice,) = judged.notices
    assert notice.startswith("There are no facts about your kernels: ")
    assert {verdict.outcome for verdict in judged.verdicts} == {Outcome.PASSED}


def test_a_verdict_with_facts_survives_the_disk(judge: Run, workers: Any) -> None:
    judged = judge(sandbox=with_kernels(workers, [], compiled))
    assert msgspec.json.decode(msgspec.json.encode(judged), type=ExerciseVerdict) == judged
