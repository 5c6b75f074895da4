"""A submission in its own Worker, interpreted on the CPU, timed on the simulated GPU by the memory traffic it causes.

Only for tests: the Worker itself says how many sectors it moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpgrade.course import Exercise
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox import Sandbox
from warpgrade.judge.speed.message import Runner, TimedMessage
from warpgrade.judge.speed.protocol import Role
from warpgrade.judge.speed.remote_runner import MovingRunner, RemoteRunner
from warpgrade.judge.speed.simulated import H200, MESSAGE_S, SimulatedDevice
from warpgrade.judge.verdict import Tier
from warpgrade.submission import Submission
from warpgrade.wire.messages import Launch

SECTOR_BYTES = 32
#: An eighth of the simulated H200, where that is enough: an interpreted program takes a millisecond of real time.
SMALL = replace(
    H200,
    free_bytes=H200.free_bytes // 8,
    quiet_copy_gbps=H200.quiet_copy_gbps / 8,
    peak_bandwidth_gbps=H200.peak_bandwidth_gbps / 8,
)


class InterpretedTiming:
    """Implements `Timing`."""

    def __init__(self, exercise: Exercise, submission: Submission, sandbox: Sandbox) -> None:
        # a launch of row_sum is 16 rows of 8192 at least
        self.device = SimulatedDevice(H200 if exercise.id == "row_sum" else SMALL)
        self._parts = exercise, submission, sandbox

    def start(self, role: Role, message: TimedMessage, baseline: str) -> Runner:
        remote = RemoteSubmission(*self._parts, Tier.MODEL, [])
        if role == "candidate":
            return Interpreted(self.device, message, remote)
        if role == "noop":
            return Copying(self.device, remote, 4, 1)
        return Copying(self.device, remote, message.workload.moved_bytes // 2)

    @contextlib.contextmanager
    def alone(self, purpose: str) -> Iterator[None]:
        yield


class Copying(MovingRunner):
    """The no-op or the baseline: a real Worker that copies, and the time that it would take."""

    def __init__(self, device: SimulatedDevice, remote: RemoteSubmission, size_bytes: int, times: int | None = None):
        super().__init__(remote, size_bytes, times)
        self._device, self._bytes = device, (size_bytes, times)

    def run(self, launches: Sequence[Launch]) -> None:
        size_bytes, times = self._bytes
        self._device.pass_s(MESSAGE_S)
        super().run(launches)
        self._device.work(self, (times or len(launches)) * self._device.copying_s(2 * size_bytes))
        self._device.wait_for(self)
        self._device.pass_s(MESSAGE_S)

    def close(self) -> None:
        super().close()
        self._device.end(self)


class Interpreted(RemoteRunner):
    """The candidate: a real Worker that answers over the real wire, and time that passes by what it says it moved."""

    def __init__(self, device: SimulatedDevice, message: TimedMessage, remote: RemoteSubmission) -> None:
        super().__init__(device, message, remote)
        self._device = device

    def run(self, launches: Sequence[Launch]) -> None:
        self._device.pass_s(MESSAGE_S)
        super().run(launches)
        moved = [traffic for use in self.remote.kernels for traffic in use.traffic.values()]
        sectors = sum(traffic.sectors_loaded + traffic.sectors_stored for traffic in moved)
        self._device.work(self, self._device.copying_s(SECTOR_BYTES * sectors))
        self._device.wait_for(self)
        self._device.pass_s(MESSAGE_S)

    def close(self) -> None:
        super().close()
        self._device.end(self)
