"""A real sandbox that runs a few lines of Python instead of the Worker: bubblewrap starts in milliseconds, torch does not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from warpgrade.course import Limits
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox
from warpgrade.judge.sandbox.process import WorkerProcess, wait_until

#: Runs inside. The Worker's own command line follows as arguments: its socket is argv[4], its plan argv[5].
PRELUDE = """
import ctypes, errno, json, os, socket, sys, time
wire = socket.socket(fileno=int(sys.argv[4]))
sys.path.insert(0, "/worker")
libc = ctypes.CDLL(None, use_errno=True)
def say(value):
    wire.sendall(json.dumps(value).encode() + b"\\n")
def problems():
    import msgspec
    from warpgrade.worker import startup
    return startup.problems(msgspec.json.decode(sys.argv[5], type=startup.Plan))
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def system_call(*arguments):
    return errno.errorcode[ctypes.get_errno()] if libc.syscall(*arguments) < 0 else "done"
"""

#: Takes all the memory that it gets.
HOG = """
say("ready")
blocks = []
while True:
    blocks.append(b"x" * (8 << 20))
"""
#: A grandchild that nobody waits for.
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        say("daemon")
        while True:
            time.sleep(1)
    os._exit(0)
"""


class Probe(BubblewrapSandbox):
    """A BubblewrapSandbox that runs `code`; `flags` and `drop` may change how it is built."""

    def __init__(
        self,
        code: str,
        flags: Callable[[list[str]], list[str]] = lambda flags: flags,
        drop: Callable[[list[str]], list[str]] = lambda command: command,
    ) -> None:
        super().__init__()
        self._code = PRELUDE + textwrap.dedent(code)
        self._change_flags, self._change_drop = flags, drop

    def _flags(self, *arguments: Any) -> list[str]:
        return self._change_flags(super()._flags(*arguments))

    def _drop(self, limits: Limits) -> list[str]:
        return [*self._change_drop(super()._drop(limits)), sys.executable, "-I", "-c", self._code]


def hear(worker: WorkerProcess, timeout_s: float = 60.0) -> Any:
    """The next value that the code inside says; None when it has ended."""
    worker.socket.settimeout(timeout_s)
    line = bytearray()
    try:
        while not line.endswith(b"\n"):
            if not (block := worker.socket.recv(1)):
                return None
            line += block
    except ConnectionResetError:
        return None
    finally:
        worker.socket.setblocking(False)  # as a Channel has it
    return json.loads(line)


def processes_of(uid: int) -> list[int]:
    """Processes of one sandbox: started by root, each judge's have a uid of their own."""
    found = []
    for process in psutil.process_iter(["uids", "status"]):
        if process.info["uids"] and process.info["uids"].real == uid and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def gone(uid: int, timeout_s: float = 20.0) -> bool:
    return wait_until(lambda: not processes_of(uid), timeout_s)


@pytest.fixture(scope="session", autouse=True)
def _bubblewrap() -> None:
    try:
        BubblewrapSandbox()
    except SandboxUnavailable as error:
        if shutil.which("bwrap") is None:
            pytest.skip(str(error))
        raise


@pytest.fixture
def start() -> Iterator[Callable[..., WorkerProcess]]:
    """Start code in a sandbox; all of them are ended with the test."""
    started: list[WorkerProcess] = []

    def run(
        code: str, limits: Limits | None = None, secrets: list[Path] | None = None, **changes: Any
    ) -> WorkerProcess:
        probe = Probe(code, **changes)
        started.append(probe.start(limits or Limits(), {}, secrets or []))
        return started[-1]

    yield run
    for worker in started:
        worker.kill()


@pytest.fixture
def ask(start: Callable[..., WorkerProcess]) -> Callable[..., Any]:
    """Run code in a sandbox; the first thing it says."""

    def run(code: str, *arguments: Any, **keywords: Any) -> Any:
        worker = start(code, *arguments, **keywords)
        answer = hear(worker)
        assert answer is not None, f"{worker.kill()}: {worker.output()}"
        return answer

    return run


@pytest.fixture
def inside() -> Any:
    """Helpers of these tests, as one object."""

    class Inside:
        hear = staticmethod(hear)
        gone = staticmethod(gone)
        processes_of = staticmethod(processes_of)
        uid = BubblewrapSandbox()._uid
        root = os.geteuid() == 0
        ended = staticmethod(lambda worker: hear(worker) is None)
        socket = socket
        hog = HOG
        daemon = DAEMON

    return Inside
