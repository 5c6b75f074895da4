"""`Timing` on a real GPU: who runs in which sandbox, and the lock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from warpgrade.course import Exercise
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox import Sandbox
from warpgrade.judge.speed.benchmark import COPY
from warpgrade.judge.speed.device import Device
from warpgrade.judge.speed.lock import GpuLock, Mode
from warpgrade.judge.speed.message import Runner, TimedMessage
from warpgrade.judge.speed.protocol import Role
from warpgrade.judge.speed.remote_runner import MovingRunner, RemoteRunner
from warpgrade.judge.verdict import Tier
from warpgrade.submission import Submission

#: How long one measurement is expected to keep others from the GPU: the design's limit for a speed test.
EXPECTED_S = 3.0
_NOOP_BYTES = 4


class SandboxedTiming:
    """Implements `Timing`. `sandbox` shows the GPU, and no library's device code."""

    def __init__(
        self,
        device: Device,
        exercise: Exercise,
        submission: Submission,
        sandbox: Sandbox,
        secret_paths: list[Path],
        lock: GpuLock | None = None,
    ) -> None:
        self.device = device
        self._parts = exercise, submission, sandbox, Tier.GPU, secret_paths
        self._lock = lock or GpuLock(device.facts.uuid)
        self._ready: dict[Role, RemoteSubmission] = {}

    @contextlib.contextmanager
    def alone(self, purpose: str) -> Iterator[None]:
        """See `Timing.alone`. The Workers are started before the wait: importing torch needs no GPU."""
        try:
            for role in ("noop", "baseline", "candidate"):
                self._ready[role] = RemoteSubmission(*self._parts)
                self._ready[role].start()
            for remote in self._ready.values():
                remote.wait_until_ready()
            with self._lock.hold(Mode.EXCLUSIVE, purpose, EXPECTED_S):
                yield
        finally:
            for remote in self._ready.values():
                remote.close()
            self._ready = {}

    def start(self, role: Role, message: TimedMessage, baseline: str) -> Runner:
        """See `Timing.start`: the submission is loaded when the candidate's turn has come.

        Raises ValueError for a baseline that is not there.
        """
        remote = self._ready[role]
        if role == "candidate":
            return RemoteRunner(self.device, message, remote)
        if role == "noop":
            return MovingRunner(remote, _NOOP_BYTES, 1)
        if baseline != COPY:
            raise ValueError(f"there is no baseline {baseline!r}")
        return MovingRunner(remote, message.workload.moved_bytes // 2)
