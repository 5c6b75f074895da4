"""Processes that hold the lock of a GPU or wait for it, and say over pipes where they are. None of them sleeps."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpgrade.judge.speed.lock import GpuBusy, GpuLock, Mode, Ticket

GPU = "GPU-0a1b2c3d-0000-1111-2222-333344445555"
LIMIT_S = 60.0  # until a test fails that waits for a process
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")

#: Holds the lock until its stdin has a line, and says what happens.
HOLDER = """
import json, os, sys, tempfile
from pathlib import Path
from warpgrade.judge.speed import lock

given = json.loads(sys.argv[1])
if given["uid"]:
    # What is imported on first use may lie where that user cannot read.
    with tempfile.TemporaryDirectory() as warm, lock.GpuLock("warm", Path(warm) / "up").hold(lock.Mode.SHARED, "", 1):
        pass
    os.setgroups([]); os.setgid(given["uid"]); os.setuid(given["uid"])
os.umask(given["umask"])
def say(*words): print(*words, flush=True)
gpu = lock.GpuLock(given["gpu"], Path(given["folder"]))
try:
    with gpu.hold(lock.Mode(given["mode"]), given["purpose"], given["expected_s"],
                  on_wait=lambda position, left: say("waiting", position, left)):
        say("holding")
        sys.stdin.readline()
    say("released")
except lock.GpuLockError as error:
    say("refused", error)
"""

#: Many short holds. Inside, a file of its own for all to see; alone means that no other file lies there.
HAMMER = """
import json, os, random, sys
from pathlib import Path
from warpgrade.judge.speed import lock

given = json.loads(sys.argv[1])
lock.POLL_S = 0.01
inside = Path(given["inside"])
chance = random.Random(given["seed"])
gpu = lock.GpuLock(given["gpu"], Path(given["folder"]))
for number in range(given["times"]):
    mode = lock.Mode.SHARED if chance.random() < given["shared"] else lock.Mode.EXCLUSIVE
    with gpu.hold(mode, "hammer", 0.01):
        marker = inside / ("alone" if mode is lock.Mode.EXCLUSIVE else f"shared-{os.getpid()}")
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        others = sorted(path.name for path in inside.iterdir() if path != marker)
        if mode is lock.Mode.EXCLUSIVE:
            assert not others, others
        else:
            assert "alone" not in others, others
        marker.unlink()
"""


class Holder:
    """A process that holds the lock, or waits for it."""

    def __init__(self, folder: Path, mode: Mode, purpose: str = "timing relu", **changes: Any) -> None:
        given = {"gpu": GPU, "folder": str(folder), "mode": mode, "purpose": purpose, "expected_s": 30.0, "uid": 0}
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", HOLDER, json.dumps(given | {"umask": 0o077} | changes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put("ended")

    def says(self) -> str:
        """The next line."""
        return self._lines.get(timeout=LIMIT_S)

    def holds(self) -> list[str]:
        """Wait until it holds; what it said before."""
        before = []
        while (line := self.says()) != "holding":
            assert line.startswith("waiting"), line
            before.append(line)
        return before

    def waits(self) -> str:
        line = self.says()
        assert line.startswith("waiting"), line
        return line

    def release(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        while (line := self.says()) != "released":
            assert line.startswith("waiting"), line

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def held(gpu: GpuLock, mode: Mode = Mode.EXCLUSIVE, **changes: Any) -> Any:
    return gpu.hold(mode, "ours", 1.0, **changes)


def free(gpu: GpuLock) -> bool:
    try:
        with held(gpu, timeout_s=0):
            return True
    except GpuBusy:
        return False


def planted(folder: Path, content: bytes, number: int = 1) -> Path:
    """A ticket file written by somebody else; the folders are made as the lock makes them."""
    with held(GpuLock(GPU, folder)):
        pass
    path = folder / GPU / f"{number:09}.json"
    path.write_bytes(content)
    return path


@contextlib.contextmanager
def alive(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def ticket(mode: Mode, expected_s: float | None, held_since_s: float | None = None) -> Ticket:
    return Ticket(1, 1000, "p", mode, 100.0, held_since_s, expected_s)
