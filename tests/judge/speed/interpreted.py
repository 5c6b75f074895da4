"""A submission in its own Worker, interpreted on the CPU, timed on the simulated GPU by the memory traffic it causes.

Only for tests: the Worker itself says how many sectors it moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.judge.speed import runners
from warpgrade.course import Exercise
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox import Sandbox
from warpgrade.judge.speed.message import Launch, Runner, TimedMessage
from warpgrade.judge.speed.protocol import Role
from warpgrade.judge.speed.simulated import H200, MESSAGE_S, SimulatedDevice
from warpgrade.judge.verdict import Tier
from warpgrade.submission import Submission
from warpgrade.wire.messages import TensorSpec
from warpgrade.wire.tensors import view

SECTOR_BYTES = 32
#: An eighth of the simulated H200: an interpreted program takes a millisecond of real time.
SMALL = replace(
    H200,
    free_bytes=H200.free_bytes // 8,
    quiet_copy_gbps=H200.quiet_copy_gbps / 8,
    peak_bandwidth_gbps=H200.peak_bandwidth_gbps / 8,
)


class InterpretedTiming:
    """Implements `Timing`."""

    def __init__(self, exercise: Exercise, submission: Submission, sandbox: Sandbox) -> None:
        self.device = SimulatedDevice(SMALL)
        self._parts = exercise, submission, sandbox

    def start(self, role: Role, message: TimedMessage, baseline: str) -> Runner:
        if role == "candidate":
            return Interpreted(self.device, message, RemoteSubmission(*self._parts, Tier.MODEL, []))
        return runners.Running(self.device, message, runners.trivial if role == "noop" else copying)

    @contextlib.contextmanager
    def alone(self, purpose: str) -> Iterator[None]:
        yield


def copying(runner: runners.Running, launches: Sequence[Launch]) -> None:
    """The baseline "copy": as many bytes as the workload has to move."""
    runner.device.work(runner, len(launches) * runner.device.copying_s(runner.message.workload.moved_bytes))
    runner.wait()


class Interpreted:
    """The candidate."""

    def __init__(self, device: SimulatedDevice, message: TimedMessage, remote: RemoteSubmission) -> None:
        self._device, self._message, self._remote = device, message, remote

    def run(self, launches: Sequence[Launch]) -> Sequence[Sequence[TensorSpec]]:
        self._device.pass_s(MESSAGE_S)
        answers = [self._one(launch) for launch in launches]
        self._device.wait_for(self)
        self._device.pass_s(MESSAGE_S)
        return answers

    def _one(self, launch: Launch) -> list[TensorSpec]:
        workload = self._message.workload
        outputs = {name: view(self._message.outputs, spec) for name, spec in launch.outputs.items()}
        values = {name: view(self._message.inputs, spec).clone() for name, spec in launch.inputs.items()}
        if workload.grid is not None:
            values |= {name: tensor.clone() for name, tensor in outputs.items()} | dict(workload.scalars)
            self._remote.launch(workload.function, workload.grid, **values)
            results = [values[name] for name in outputs]
        else:
            results = [getattr(self._remote, workload.function)(*values.values())]
        traffic = [moved for use in self._remote.kernels for moved in use.traffic.values()]
        sectors = sum(moved.sectors_loaded + moved.sectors_stored for moved in traffic)
        for target, result in zip(outputs.values(), results, strict=True):
            self._device.work(self, 0.0, lambda target=target, result=result: target.copy_(result))
        self._device.work(self, self._device.copying_s(SECTOR_BYTES * sectors))
        return list(launch.outputs.values())

    def close(self) -> None:
        self._remote.close()
        self._device.end(self)
