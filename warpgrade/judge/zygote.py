"""A process that has imported torch and pytest, and forks a fresh Judge for each (submission, exercise).

Importing costs seconds and a fork milliseconds. A Judge of its own for each exercise keeps one suite's faults, and its
imported `reference`, away from the next. Jobs and results are JSON; a result is a file that the Judge writes whole or
not at all, so a Judge that is killed leaves none, and that is a fault, never marks.

Run as `python -I -m warpgrade.judge.zygote SOCKET_FD` by `judging.JudgePool`. It reads lines, a `Request` or `Kill`
each; answers are lines, one `Ended` each. When the other end closes, every Judge is ended.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sys
import traceback
from pathlib import Path

import msgspec

from warpgrade.course import Course
from warpgrade.judge.verdict import Tier
from warpgrade.submission import Submission

_PR_SET_PDEATHSIG = 1


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="judge"):
    """Judge this and write the ExerciseVerdict to `result`."""

    number: int
    course: str
    overlay: str
    assignment: str
    exercise: str
    submission: Submission
    tier: Tier
    sandbox: bool
    result: str


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="kill"):
    """End the Judge of this number."""

    number: int


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The Judge of this number has ended with this exit status (negative: the signal that killed it)."""

    number: int
    status: int


def main(descriptor: int) -> None:
    """Serve until the other end hangs up."""
    # Imported for the forks to come, and unused here.
    import torch

    import warpgrade.judge.battery
    import warpgrade.judge.compare
    import warpgrade.judge.remote
    import warpgrade.judge.sandbox.bubblewrap
    import warpgrade.judge.suite

    torch.set_num_threads(1)
    # Now, while what is on disk is what was imported: an update of warpgrade must not sign verdicts of the old code.
    warpgrade.judge.suite.environment()
    # The kernel refuses to pass a descriptor when the user has more in flight than this (see bubblewrap._OPEN_FILES).
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    judges: dict[int, int] = {}  # pid to number
    with socket.socket(fileno=descriptor) as wire:
        # A child's end must interrupt the wait for requests.
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        try:
            _serve(wire, reader, judges)
        finally:
            for pid in judges:
                os.kill(pid, signal.SIGKILL)


def _serve(wire: socket.socket, wakeup: int, judges: dict[int, int]) -> None:
    buffer = bytearray()
    while True:
        readable, _, _ = select.select([wire.fileno(), wakeup], [], [])
        if wakeup in readable:
            os.read(wakeup, 4096)
            while judges:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                ended = Ended(judges.pop(pid), os.waitstatus_to_exitcode(status))
                wire.sendall(msgspec.json.encode(ended) + b"\n")
        if wire.fileno() in readable:
            block = wire.recv(1 << 20)
            if not block:
                return
            buffer += block
            while (end := buffer.find(b"\n")) >= 0:
                request = msgspec.json.decode(bytes(buffer[:end]), type=Request | Kill)
                del buffer[: end + 1]
                if isinstance(request, Kill):
                    for pid in [pid for pid, number in judges.items() if number == request.number]:
                        os.kill(pid, signal.SIGKILL)
                    continue
                zygote = os.getpid()
                pid = os.fork()
                if pid == 0:
                    _judge(request, wire, wakeup, zygote)
                judges[pid] = request.number


def _judge(request: Request, wire: socket.socket, wakeup: int, zygote: int) -> None:
    """In the fork: judge, write the result, end. Never returns."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(wakeup)
        wire.close()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != zygote:
            return  # it died before the line above: nobody waits for a result, and `finally` ends this fork
        from warpgrade.judge.plugin import Job
        from warpgrade.judge.sandbox.choice import choose_sandbox
        from warpgrade.judge.suite import run_suite

        course = Course(Path(request.course), Path(request.overlay) if request.overlay else None)
        exercise = course.exercise(request.assignment, request.exercise)
        sandbox = choose_sandbox(isolate=request.sandbox)
        judged = run_suite(Job(course, exercise, request.submission, sandbox, request.tier))
        temporary = Path(f"{request.result}.tmp")
        temporary.write_bytes(msgspec.json.encode(judged))
        temporary.replace(request.result)
        status = 0
    except BaseException:  # noqa: BLE001 - a fork must end here, whatever happened; the pool reports what is on stderr
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
