"""Many exercises on a few processes: what is stored costs nothing, and whoever is killed is a fault and nobody else's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from warpgrade.judge import judging
from warpgrade.judge.judging import JudgePool, Options, judge_many, judge_submission
from warpgrade.judge.marks import MAX_ATTEMPTS, correctness_mark
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.process import wait_until
from warpgrade.judge.store import VerdictStore
from warpgrade.judge.suite import environment, suite_digest
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, TestKind, Tier, Verdict

RIGHT = "import torch\ndef double(x):\n    return x + x\ndef fill(x, out):\n    out.copy_(x)\n"


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    try:
        judging.choose_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def outcomes(judged: ExerciseVerdict) -> set[Outcome]:
    return {verdict.outcome for verdict in judged.verdicts}


class Played:
    """Stands in for JudgePool: counts the tasks, and passes them all."""

    tasks: list[Any] = []  # noqa: RUF012 - of the class, and cleared by the fixture
    sentence = ""

    def __init__(self, course: Any, options: Options) -> None:
        self._course = course

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *unused: object) -> None:
        pass

    def run(self, tasks: Iterable[Any]) -> Iterable[ExerciseVerdict]:
        for task in tasks:
            type(self).tasks.append(task)
            points = str(task.exercise.correctness_points)
            yield ExerciseVerdict(
                assignment="tiny", exercise=task.exercise.id, tier=Tier.MODEL, submission_digest=task.submission.digest,
                suite_digest=suite_digest(self._course, task.exercise), environment=environment(),
                verdicts=[
                    Verdict(
                        test="t", kind=TestKind.HIDDEN, outcome=Outcome.PASSED, points=points, sentence=self.sentence
                    )
                ],
            )  # fmt: skip


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    Played.tasks.clear()
    monkeypatch.setattr(judging, "JudgePool", Played)
    return Played.tasks


# --- what is judged, and what is not --------------------------------------------------------------------------------


def test_equal_code_is_judged_once_and_an_unchanged_submission_never_again(
    tiny: Any, notebook: Any, played: list[Any]
) -> None:
    one, same, other = notebook(RIGHT), notebook(RIGHT), notebook(RIGHT + "# mine\n")
    seen: list[ExerciseVerdict] = []
    judged = judge_many(tiny.course, "tiny", [one, same, other], progress=seen.append)
    assert set(judged) == {one.digest, other.digest}
    assert len(played) == len(seen) == 4
    assert list(judged[one.digest]) == ["double", "fill"], "in the declaration's order"
    played.clear()
    again = judge_many(tiny.course, "tiny", [one, other])
    assert played == []
    assert again == judged
    tiny.write("course_tests/tiny/test_fill.py", "# changed")
    judge_many(tiny.course, "tiny", [one, other])
    assert [task.exercise.id for task in played] == ["fill", "fill"]


def test_a_killed_run_continues(tiny: Any, notebook: Any, played: list[Any]) -> None:
    def stop(judged: ExerciseVerdict) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge_submission(tiny.course, "tiny", notebook(RIGHT), progress=stop)
    assert len(played) == 1
    judge_submission(tiny.course, "tiny", notebook(RIGHT))
    assert [task.exercise.id for task in played] == ["double", "fill"]


def test_what_is_judged_afresh_takes_the_place_of_what_was_stored(
    tiny: Any, notebook: Any, played: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next run would bring back the verdict that somebody had judged again because it was wrong."""
    submission = notebook(RIGHT)
    judge_submission(tiny.course, "tiny", submission)
    monkeypatch.setattr(Played, "sentence", "afresh")
    for _ in range(2):
        judge_submission(tiny.course, "tiny", submission, Options(look_up=False))
    assert len(played) == 6
    stored = judge_submission(tiny.course, "tiny", submission)
    assert len(played) == 6
    assert [verdict.sentence for verdict in stored["double"].verdicts] == ["afresh"]


def test_a_verdict_that_cannot_be_stored_is_given_all_the_same(
    tiny: Any, notebook: Any, played: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*arguments: Any) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(VerdictStore, "put", full)
    assert outcomes(judge_submission(tiny.course, "tiny", notebook(RIGHT))["double"]) == {Outcome.PASSED}
    assert "No space left" in caplog.text


def test_stored_verdicts_are_not_used_without_a_sandbox(tiny: Any, notebook: Any, played: list[Any]) -> None:
    judge_submission(tiny.course, "tiny", notebook(RIGHT))
    judge_submission(tiny.course, "tiny", notebook(RIGHT), Options(sandbox=False))
    assert len(played) == 4


def test_some_exercises_of_an_assignment(tiny: Any, notebook: Any, played: list[Any]) -> None:
    assert list(judge_submission(tiny.course, "tiny", notebook(RIGHT), exercises=["fill"])) == ["fill"]


def test_an_exercise_without_a_suite_is_a_fault_and_the_others_are_judged(
    tiny: Any, notebook: Any, played: list[Any]
) -> None:
    (tiny.root / "course_tests/tiny/test_double.py").unlink()
    judged = judge_submission(tiny.course, "tiny", notebook(RIGHT))
    assert "no hidden tests" in judged["double"].fault_evidence
    assert "test_double" not in judged["double"].fault, "which students read"
    assert outcomes(judged["fill"]) == {Outcome.PASSED}


def test_without_a_sandbox_to_be_had_nothing_is_judged(
    tiny: Any, notebook: Any, played: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(**unused: Any) -> None:
        raise SandboxUnavailable("bwrap is not installed")

    monkeypatch.setattr(judging, "choose_sandbox", none)
    with pytest.raises(SandboxUnavailable):
        judge_submission(tiny.course, "tiny", notebook(RIGHT))
    assert played == []


# --- with processes -------------------------------------------------------------------------------------------------


def test_a_submission_is_judged_for_real(tiny: Any, notebook: Any) -> None:
    """Zygote, judge, sandbox, worker, and back."""
    wrong = "def double(x):\n    return 3 * x\nimport os\ndef fill(x, out):\n    os._exit(0)\n"
    before = sorted(tiny.root.rglob("*"))
    judged = judge_many(tiny.course, "tiny", [notebook(RIGHT), notebook(wrong)], Options(jobs=2, look_up=False))
    right, bad = judged[notebook(RIGHT).digest], judged[notebook(wrong).digest]
    for name in ("double", "fill"):
        assert (right[name].fault, outcomes(right[name]), right[name].attempts) == ("", {Outcome.PASSED}, 1)
        mark = correctness_mark(tiny.exercise(name), right[name])
        assert mark.earned == mark.possible
    assert outcomes(bad["double"]) == {Outcome.WRONG}
    assert outcomes(bad["fill"]) == {Outcome.CRASHED}
    after = [path for path in tiny.root.rglob("*") if "verdicts" not in path.parts]
    assert sorted(after) == before, "the course is not littered"


KILLERS = {
    "the judge kills itself": "os.kill(os.getpid(), 9)",
    "the judge leaves with a good status": "os._exit(0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", KILLERS)
def test_a_judge_that_dies_is_a_fault_after_three_attempts_and_others_go_on(how: str, tiny: Any, notebook: Any) -> None:
    tiny.write("course_tests/tiny/test_double.py", f"import os\ndef test_it(submission):\n    {KILLERS[how]}\n")
    judged = judge_submission(tiny.course, "tiny", notebook(RIGHT), Options(jobs=1, sandbox=False))
    assert judged["double"].attempts == MAX_ATTEMPTS
    assert judged["double"].fault
    assert correctness_mark(tiny.exercise(), judged["double"]).earned is None
    assert (outcomes(judged["fill"]), judged["fill"].attempts) == ({Outcome.PASSED}, 1)


@pytest.mark.slow
def test_a_test_at_fault_is_judged_again_and_a_second_run_may_decide(tiny: Any, notebook: Any, tmp_path: Path) -> None:
    tiny.write(
        "course_tests/tiny/test_double.py",
        f"""
        from pathlib import Path
        def test_it(submission, inputs):
            submission.double(inputs.normal(3))
            flag = Path({str(tmp_path / "flag")!r})
            if not flag.exists():
                flag.touch()
                raise OSError("a full disk")
        """,
    )
    judged = judge_submission(
        tiny.course, "tiny", notebook(RIGHT), Options(jobs=1, sandbox=False), exercises=["double"]
    )
    assert (outcomes(judged["double"]), judged["double"].attempts) == ({Outcome.PASSED}, 2)


def test_a_zygote_that_is_killed_with_unread_requests_is_a_fault_and_no_error(tiny: Any, notebook: Any) -> None:
    class Killing(JudgePool):
        def _start(self, task: Any) -> int:
            number = super()._start(task)
            assert self._zygote is not None
            self._zygote.kill()
            self._zygote.wait()
            return number

    tasks = [judging._Task(tiny.exercise(name), notebook(RIGHT)) for name in ("double", "fill")]
    with Killing(tiny.course, Options(jobs=2)) as pool:
        judged = list(pool.run(tasks))
    assert sorted(verdict.exercise for verdict in judged) == ["double", "fill"]
    assert {verdict.attempts for verdict in judged} == {MAX_ATTEMPTS}
    assert all(verdict.fault for verdict in judged)


def test_a_zygote_that_dies_before_the_next_start_takes_nobody_with_it_unseen(tiny: Any, notebook: Any) -> None:
    """A new one would not know the Judges of the old one, and nobody would ever hear of them."""

    class Killing(JudgePool):
        starts = 0

        def _start(self, task: Any) -> int:
            self.starts += 1
            if self.starts == 2:
                assert self._zygote is not None
                self._zygote.kill()
                self._zygote.wait()
            return super()._start(task)

    tasks = [judging._Task(tiny.exercise(name), notebook(RIGHT)) for name in ("double", "fill")]
    with Killing(tiny.course, Options(jobs=2, sandbox=False)) as pool:
        judged = list(pool.run(tasks))
    assert {(verdict.exercise, verdict.fault, verdict.attempts) for verdict in judged} == {
        ("double", "", 2),
        ("fill", "", 2),
    }


def test_a_call_that_did_not_have_the_processor_is_judged_once_more_alone(tiny: Any, notebook: Any) -> None:
    submission = notebook("def double(x):\n    __import__('time').sleep(60)\n")
    exercise = tiny.exercise(call_s=0.5, exercise_s=1.0)
    with JudgePool(tiny.course, Options(jobs=1, sandbox=False)) as pool:
        (judged,) = pool.run([judging._Task(exercise, submission)])
    assert outcomes(judged) == {Outcome.TIMED_OUT}
    assert judged.attempts == 2


def test_a_judge_that_takes_too_long_is_ended(tiny: Any, notebook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "JUDGE_SLACK_S", 0.0)
    monkeypatch.setattr(judging, "START_LIMIT_S", 0.0)
    monkeypatch.setattr(judging, "MAX_ATTEMPTS", 1)
    tiny.write("course_tests/tiny/test_double.py", "import time\ndef test_it(submission):\n    time.sleep(600)\n")
    exercise = tiny.exercise(exercise_s=0.5, compile_s=0.5)
    with JudgePool(tiny.course, Options(sandbox=False)) as pool:
        (judged,) = pool.run([judging._Task(exercise, notebook(RIGHT))])
    assert "signal 9" in judged.fault


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("isolate", [True, False])
def test_whoever_stops_the_run_stops_all_of_it(how: signal.Signals, isolate: bool, tiny: Any, tmp_path: Path) -> None:
    """Ctrl-C and kill -9 of the command, while student code is busy: no judge and no Worker is left."""
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(f"""
        import json
        from pathlib import Path
        from warpgrade.course import Course
        from warpgrade.judge.judging import Options, judge_submission
        from warpgrade.submission import parse_submission
        code = "def double(x):\\n    print('busy', flush=True)\\n    while True: pass\\n"
        cell = {{"cell_type": "code", "metadata": {{}}, "source": code}}
        submission = parse_submission(json.dumps({{"cells": [cell], "metadata": {{}}}}), "x")
        options = Options(jobs=1, look_up=False, sandbox={isolate})
        judge_submission(Course(Path({str(tiny.root)!r})), "tiny", submission, options, exercises=["double"])
    """)
    )
    limits = (tiny.root / "source/tiny/exercises.toml").read_text().replace("call_s = 5.0", "call_s = 100.0")
    (tiny.root / "source/tiny/exercises.toml").write_text(limits)
    with subprocess.Popen([sys.executable, "-B", str(script)], stderr=subprocess.DEVNULL) as run:
        try:
            top = psutil.Process(run.pid)
            assert wait_until(lambda: any(map(is_busy_worker, top.children(recursive=True))), 100.0)
            everyone = top.children(recursive=True)
            run.send_signal(how)
            run.wait(30.0)
            assert wait_until(lambda: not any(map(lives, everyone)), 30.0)
        finally:
            run.kill()


def is_busy_worker(process: psutil.Process) -> bool:
    """Whether it is the Worker, and has used the processor for longer than its imports take."""
    with contextlib.suppress(psutil.Error):
        return "boot.py" in " ".join(process.cmdline()[:4]) and process.cpu_times().user > 6.0
    return False


def lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_result_that_cannot_be_read_is_a_fault(tiny: Any, notebook: Any) -> None:
    from warpgrade.judge.zygote import Ended

    pool = JudgePool(tiny.course, Options())
    task = judging._Task(tiny.exercise(), notebook(RIGHT))
    Path(pool._folder.name, "zygote.log").touch()
    for content in (None, b"", b"{}", b"\xff", b"[" * 10_000, msgspec.json.encode({"fault": ""})):
        if content is not None:
            pool._result(1).write_bytes(content)
        judged = pool._collect(Ended(1, 0), task)
        assert "could not be read" in judged.fault
    for status in (-9, 1, 137):
        assert str(abs(status)) in pool._collect(Ended(1, status), task).fault
    pool.close()
    assert not os.path.lexists(pool._folder.name)
