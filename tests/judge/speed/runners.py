"""Runners on the simulated GPU: honest ones of any speed, and the cheats of design/threats that concern time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from warpgrade.judge.compare import assert_identical
from warpgrade.judge.speed.message import TimedMessage
from warpgrade.judge.speed.simulated import MESSAGE_S, SimulatedDevice
from warpgrade.judge.speed.workload import Operand, Workload
from warpgrade.wire.messages import Launch
from warpgrade.wire.tensors import view

TRIVIAL_S = 3e-6


def check_add(z, x, y):
    assert_identical(z, x + y)


def add_at(n: int) -> Workload:
    """vector_add of n float32."""
    return Workload(
        function="vector_add",
        inputs={"x": Operand((n,)), "y": Operand((n,))},
        outputs={"z": Operand((n,))},
        moved_bytes=12 * n,
        check=check_add,
        scalars={"n": n},
        grid=(-(-n // 1024),),
        divided=frozenset({"x", "y", "z"}),
    )


class Running:
    """A process on the simulated GPU. `behave(self, launches)` queues its work, and may wait for it."""

    def __init__(
        self,
        device: SimulatedDevice,
        message: TimedMessage,
        behave: Callable[[Running, Sequence[Launch]], None],
        efficiency: float = 1.0,
    ) -> None:
        self.device, self.message, self.efficiency = device, message, efficiency
        self._behave = behave
        self.calls = 0
        self.closed = False
        #: What a cheat remembers.
        self.memory: dict[object, torch.Tensor] = {}

    def run(self, launches: Sequence[Launch]) -> None:
        assert not self.closed
        self.calls += 1
        self.device.pass_s(MESSAGE_S)
        self._behave(self, launches)
        self.device.pass_s(MESSAGE_S)

    def close(self) -> None:
        self.closed = True
        self.device.end(self)

    # --- what behaviours are made of -------------------------------------------------------------------------------

    def inputs(self, launch: Launch) -> tuple[torch.Tensor, torch.Tensor]:
        return view(self.message.inputs, launch.inputs["x"]), view(self.message.inputs, launch.inputs["y"])

    def output(self, launch: Launch) -> torch.Tensor:
        return view(self.message.outputs, launch.outputs["z"])

    def add(self, launch: Launch, part: float = 1.0) -> None:
        """Queue the honest work, or the first `part` of it."""
        (x, y), z = self.inputs(launch), self.output(launch)
        n = round(part * z.numel())
        quiet_s = self.device.copying_s(round(12 * n)) / self.efficiency
        self.device.work(self, quiet_s, lambda: torch.add(x[:n], y[:n], out=z[:n]))

    def pretend(self, launch: Launch, values: torch.Tensor | None = None) -> None:
        """Answer with known values, in the time of an honest kernel of 0.95: faster than possible would be noticed."""
        size = self.output(launch).numel()
        written_s = 0.0
        if values is not None:
            self.write(launch, values)
            written_s = self.device.copying_s(4 * size)
        self.device.work(self, self.device.copying_s(12 * size) / 0.95 - written_s)

    def write(self, launch: Launch, values: torch.Tensor, part: float = 1.0) -> None:
        """Queue writing known values (a part of them): a third of the honest work's bytes, at full speed."""
        n = round(part * values.numel())
        z = self.output(launch)
        self.device.work(self, self.device.copying_s(4 * n), lambda: z[len(z) - n :].copy_(values[len(z) - n :]))

    def wait(self) -> None:
        self.device.wait_for(self)


def honest(runner, launches):
    for launch in launches:
        runner.add(launch)
    runner.wait()


def trivial(runner, launches):
    runner.device.work(runner, TRIVIAL_S)
    runner.wait()


def cached_by_pointer(runner, launches):
    """(14, 15, 18) Honest at first, then answers what it has answered for the same buffers before."""
    for launch in launches:
        key = launch.outputs["z"].offset_bytes
        if key in runner.memory:
            runner.pretend(launch, runner.memory[key])
        else:
            runner.add(launch)
            runner.wait()
            runner.memory[key] = runner.output(launch).clone()
    runner.wait()


def cached_by_content(runner, launches):
    """(16) Knows inputs again by a few of their elements, and computes what it does not know."""
    for launch in launches:
        x, y = runner.inputs(launch)
        key = (*x[:4].tolist(), *y[:4].tolist())
        if key in runner.memory:
            runner.pretend(launch, runner.memory[key])
        else:
            runner.add(launch)
            runner.wait()
            runner.memory[key] = runner.output(launch).clone()
    runner.wait()


def first_answers_for_all(runner, launches):
    """(17) Computes the first launch of a message, and answers the others with it."""
    runner.add(launches[0])
    runner.wait()
    for launch in launches[1:]:
        if launch.outputs["z"].offset_bytes != launches[0].outputs["z"].offset_bytes:
            runner.write(launch, runner.output(launches[0]).clone())
        # half of the time of the honest work, for not to be faster than possible
        runner.device.work(runner, runner.device.copying_s(6 * runner.output(launch).numel()))
    runner.wait()


def answers_early(runner, launches):
    """(23, 24, 66) The last launch is left on another stream, and the answer does not wait for it."""
    for launch in launches[:-1]:
        runner.add(launch)
    runner.wait()
    runner.add(launches[-1])


def zeros_at_the_end(runner, launches):
    """(10, 11) Honest when it is small; when it is large, the second half is quickly filled with zeros."""
    for launch in launches:
        runner.add(launch, 0.5)
        runner.write(launch, torch.zeros(runner.output(launch).numel()), 0.5)
    runner.wait()


def nothing_at_the_end(runner, launches):
    """(10) The second half is never written."""
    for launch in launches:
        runner.add(launch, 0.5)
    runner.wait()


def rounds_to_half(runner, launches):
    """(11, 12) Lower precision than the contract asks, and faster for it."""
    for launch in launches:
        (x, y), z = runner.inputs(launch), runner.output(launch)
        quiet_s = runner.device.copying_s(12 * len(z)) / 2 / runner.efficiency
        runner.device.work(runner, quiet_s, lambda x=x, y=y, z=z: z.copy_(x.half() + y.half()))
    runner.wait()


def honest_but_destroys(runner, launches):
    """(9) Right, and its input is gone."""
    for launch in launches:
        runner.add(launch)
    runner.wait()
    for launch in launches:
        runner.inputs(launch)[0].zero_()
