"""Judge submissions: many (submission, exercise) pairs on a few processes, each looked up in the store first.

No database and no nbgrader: verdicts come out, and whoever wants marks of them reads `marks`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warpgrade.course import Course, CourseError, Exercise
from warpgrade.judge.marks import MAX_ATTEMPTS
from warpgrade.judge.sandbox import START_LIMIT_S
from warpgrade.judge.sandbox.choice import choose_sandbox
from warpgrade.judge.store import VerdictStore
from warpgrade.judge.suite import empty_verdict
from warpgrade.judge.verdict import ExerciseVerdict, Tier
from warpgrade.judge.zygote import Ended, Kill, Request
from warpgrade.submission import Submission

#: Beyond what the exercise itself may take, for restarts of the Worker and the Judge's own work; then it is ended.
JUDGE_SLACK_S = 300.0
#: From being told to end until it counts as ended whatever comes back.
KILL_GRACE_S = 10.0


@dataclass(frozen=True)
class Options:
    """How to judge. `jobs`: exercises side by side; each keeps about one core busy."""

    sandbox: bool = True
    tier: Tier = Tier.MODEL
    jobs: int = max(1, min(8, len(os.sched_getaffinity(0))))
    #: Take verdicts from the store. What is judged is stored either way, so that the newest verdict is the one kept.
    look_up: bool = True


Progress = Callable[[ExerciseVerdict], None]


def judge_submission(
    course: Course,
    assignment: str,
    submission: Submission,
    options: Options | None = None,
    progress: Progress | None = None,
    exercises: Sequence[str] | None = None,
) -> dict[str, ExerciseVerdict]:
    """One verdict for every exercise of the assignment (or those named), by id, in the declaration's order.

    Raises CourseError for a broken declaration and SandboxUnavailable where nothing may be judged here. Anything that
    fails later is a fault in the verdict.
    """
    judged = judge_many(course, assignment, [submission], options, progress, exercises)
    return judged[submission.digest]


def judge_many(
    course: Course,
    assignment: str,
    submissions: Iterable[Submission],
    options: Options | None = None,
    progress: Progress | None = None,
    exercises: Sequence[str] | None = None,
) -> dict[str, dict[str, ExerciseVerdict]]:
    """As `judge_submission`, for many: verdicts by submission digest, then by exercise id.

    Equal code is judged once. `progress` is called for each verdict as it comes, stored ones first.
    """
    options = options or Options()
    declared = course.assignment(assignment).exercises
    wanted = [declared[name] for name in exercises] if exercises is not None else list(declared.values())
    store = VerdictStore(course)
    unique = {submission.digest: submission for submission in submissions}
    results: dict[str, dict[str, ExerciseVerdict]] = {digest: {} for digest in unique}
    tasks: list[_Task] = []

    def done(judged: ExerciseVerdict) -> None:
        results[judged.submission_digest][judged.exercise] = judged
        if progress:
            progress(judged)

    for submission in unique.values():
        for exercise in wanted:
            try:
                usable = options.look_up and options.sandbox
                stored = store.get(exercise, submission.digest, options.tier) if usable else None
            except (
                CourseError
            ) as error:  # no suite: the course's fault, and the other exercises are judged all the same
                sentence = "This exercise has no tests to judge it by."
                done(empty_verdict(exercise, submission.digest, options.tier, sentence, str(error)))
                continue
            if stored is not None:
                done(stored)
            else:
                tasks.append(_Task(exercise, submission))
    if tasks:
        choose_sandbox(isolate=options.sandbox)  # refuses here, once, with the reason
        with JudgePool(course, options) as pool:
            for judged in pool.run(tasks):
                _keep(store, declared[judged.exercise], judged)
                done(judged)
    order = [exercise.id for exercise in wanted]
    return {digest: {name: found[name] for name in order} for digest, found in results.items()}


def _keep(store: VerdictStore, exercise: Exercise, judged: ExerciseVerdict) -> None:
    """Into the store. A full disk costs only that: whoever waited for the verdict still gets it."""
    try:
        store.put(exercise, judged)
    except (OSError, CourseError) as error:
        logging.getLogger(__name__).warning(
            "the verdict on %s was not kept, and will be judged again next time: %s", exercise.id, error
        )


@dataclass
class _Task:
    exercise: Exercise
    submission: Submission
    attempts: int = 0
    started: float = 0.0
    #: When its Judge was told to end; 0.0 while it was not.
    killed: float = 0.0
    #: Judged once more with nothing beside it; that verdict stands.
    alone: bool = False


class JudgePool:
    """A zygote, and the Judges that it forks. One thread: nothing here waits for one Judge while another has ended."""

    def __init__(self, course: Course, options: Options) -> None:
        self._course = course
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="warpgrade-judge-")
        self._zygote: subprocess.Popen[bytes] | None = None
        self._wire: socket.socket | None = None
        self._buffer = bytearray()
        self._numbers = 0

    def __enter__(self) -> JudgePool:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote, every Judge, and with them every Worker."""
        self._end_zygote()
        self._folder.cleanup()

    def run(self, tasks: Sequence[_Task]) -> Iterable[ExerciseVerdict]:
        """Yield a verdict for each task as it is decided, faults after `MAX_ATTEMPTS`.

        A disturbed one (see `ExerciseVerdict.disturbed`) is judged once more at the end, alone.
        """
        waiting = deque(tasks)
        disturbed: deque[_Task] = deque()
        running: dict[int, _Task] = {}
        while waiting or running or disturbed:
            if not waiting and not running:
                waiting.append(disturbed.popleft())
            while waiting and len(running) < self._options.jobs:
                task = waiting.popleft()
                task.attempts += 1
                task.started, task.killed = time.monotonic(), 0.0
                running[self._start(task)] = task
            for number, judged in self._wait(running):
                task = running.pop(number)
                judged = msgspec.structs.replace(judged, attempts=task.attempts)
                if judged.faulty and task.attempts < MAX_ATTEMPTS:
                    waiting.append(task)
                elif judged.disturbed and not task.alone:
                    task.alone = True
                    disturbed.append(task)
                else:
                    yield judged

    # --- the zygote -----------------------------------------------------------------------------------------------

    def _start(self, task: _Task) -> int:
        if self._wire is None:  # and not "if it has died": the Judges of a dead one are `_wait`'s to notice first
            self._start_zygote()
        self._numbers += 1
        request = Request(
            number=self._numbers,
            course=str(self._course.root),
            overlay=str(self._course.overlay or ""),
            assignment=task.exercise.assignment,
            exercise=task.exercise.id,
            submission=task.submission,
            tier=self._options.tier,
            sandbox=self._options.sandbox,
            result=str(self._result(self._numbers)),
        )
        self._say(request)
        return self._numbers

    def _say(self, request: Request | Kill) -> None:
        assert self._wire is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `_wait` notices, and all of it is a fault
            self._wire.sendall(msgspec.json.encode(request) + b"\n")

    def _start_zygote(self) -> None:
        self._end_zygote()
        ours, theirs = socket.socketpair()
        self._log = Path(self._folder.name, "zygote.log").open("ab+")  # noqa: SIM115 - lives as long as the zygote
        # -I: whatever lies in the current folder is not imported. A session of its own: Ctrl-C is ours to handle.
        self._zygote = subprocess.Popen(
            [sys.executable, "-I", "-m", "warpgrade.judge.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd="/",
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        theirs.close()
        self._wire, self._buffer = ours, bytearray()

    def _end_zygote(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._zygote is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._zygote.pid, signal.SIGKILL)
            self._zygote.wait()
            self._zygote = None
            self._log.close()

    def _wait(self, running: dict[int, _Task]) -> Iterable[tuple[int, ExerciseVerdict]]:
        """The Judges that have ended since, and those that took too long."""
        assert self._wire is not None
        readable, _, _ = select.select([self._wire], [], [], 1.0)
        if readable:
            try:
                block = self._wire.recv(1 << 16)
            except ConnectionResetError:  # it was killed before it had read everything
                block = b""
            if not block:
                log = self._log_tail()
                self._end_zygote()
                return [(number, self._fault(task, "The judge ended early.", log)) for number, task in running.items()]
            self._buffer += block
        ended: dict[int, ExerciseVerdict] = {}
        while (end := self._buffer.find(b"\n")) >= 0:
            message = msgspec.json.decode(bytes(self._buffer[:end]), type=Ended)
            del self._buffer[: end + 1]
            if message.number in running:
                ended[message.number] = self._collect(message, running[message.number])
        for number, task in running.items():
            limits = task.exercise.limits
            allowed_s = limits.exercise_s + limits.compile_s + START_LIMIT_S + JUDGE_SLACK_S
            now = time.monotonic()
            if task.killed and now - task.killed > KILL_GRACE_S and number not in ended:
                ended[number] = self._fault(task, f"The judge did not end in {allowed_s:.0f} s.")
            elif now - task.started > allowed_s and not task.killed:
                task.killed = now
                self._say(Kill(number))
        return ended.items()

    def _collect(self, message: Ended, task: _Task) -> ExerciseVerdict:
        path = self._result(message.number)
        if message.status == 0:
            try:
                return msgspec.json.decode(path.read_bytes(), type=ExerciseVerdict)
            except (OSError, msgspec.MsgspecError, ValueError) as error:
                return self._fault(task, "The judge's result could not be read.", str(error))
            finally:
                path.unlink(missing_ok=True)
        how = f"signal {-message.status}" if message.status < 0 else f"status {message.status}"
        return self._fault(task, f"The judge ended with {how}.", self._log_tail())

    def _fault(self, task: _Task, reason: str, evidence: str = "") -> ExerciseVerdict:
        return empty_verdict(task.exercise, task.submission.digest, self._options.tier, reason, evidence)

    def _log_tail(self) -> str:
        text = Path(self._folder.name, "zygote.log").read_text(encoding="utf-8", errors="replace")
        return text[-1500:].strip()

    def _result(self, number: int) -> Path:
        return Path(self._folder.name, f"{number}.json")
