"""The one shipped fake GPU: a clock of its own, tensors that are really computed with, and faults on request.

Everything is scaled down by `SCALE`, bandwidth and memory alike, so that a message of 9 ms is a few hundred kilobytes
and all that is computed from bandwidth and memory comes out as on the real GPU. Time is virtual: a test takes as long
as its arithmetic. What it cannot show is what a real GPU does that nobody thought of: no mark is ever made on it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

from warpgrade.judge.speed.device import DeviceFacts, DeviceLost, DoesNotFit
from warpgrade.judge.verdict import DeviceState

SCALE = 2.0**-14
#: A process's work waits this long for the GPU to turn to it from another's (measured on an H200: about 0.35 ms there
#: and back, design/on-the-gpu).
SWITCH_S = 175e-6
#: From the Judge's message to the Worker's first instruction, and the same for the answer: half of 54 us, likewise.
MESSAGE_S = 27e-6
_CANARY_S = 1e-3
_GB = 1e9

#: `slowdown(now_s)`: by what factor a neighbour's work slows everybody's down at this moment.
Slowdown = Callable[[float], float]


def simulated_facts(name: str, uuid: str, memory_gb: float, copy_gbps: float, peak_gbps: float) -> DeviceFacts:
    """The facts of a GPU with this much free memory and these bandwidths, scaled down."""
    return DeviceFacts(name, uuid, "simulated", int(memory_gb * _GB * SCALE), copy_gbps * SCALE, peak_gbps * SCALE)


#: Copy: measured (design/on-the-gpu). Peak: memory clock times width, from NVIDIA's data sheet.
H200 = simulated_facts("NVIDIA H200", "GPU-simulated-h200", 139.0, 4219.0, 4915.0)
#: 16 GB, of which 15 are free; copy: published measurements. Peak: NVIDIA's data sheet.
T4 = simulated_facts("Tesla T4", "GPU-simulated-t4", 15.0, 240.0, 320.0)


@dataclass
class _Effect:
    at_s: float
    process: object
    happens: Callable[[], object]


class SimulatedDevice:
    """Implements `Device`. Each process's work is done in order, that of different ones side by side.

    `noise` is the relative standard deviation of each piece of work, `outliers` the share of pieces that take half as
    long again, `vanishes_s` the moment at which the device is gone.
    """

    def __init__(
        self,
        facts: DeviceFacts = H200,
        *,
        noise: float = 0.002,
        outliers: float = 0.0,
        slowdown: Slowdown | None = None,
        others_busy_percent: int = 0,
        vanishes_s: float | None = None,
        seed: int = 0,
    ) -> None:
        self.facts = facts
        self._noise, self._outliers = noise, outliers
        self._slowdown = slowdown or (lambda now_s: 1.0)
        self._others = others_busy_percent
        self._vanishes_s = vanishes_s
        self._random = random.Random(seed)
        self._now_s = 0.0
        #: When each process's queue is empty, and whose turn it was last.
        self._ends_s: dict[object, float] = {}
        self._turn: object = None
        self._effects: list[_Effect] = []
        self._taken_bytes = 0
        self._descriptors: dict[int, int] = {}

    # --- what Runners do to it -----------------------------------------------------------------------------------

    def work(self, process: object, quiet_s: float, effect: Callable[[], object] | None = None) -> None:
        """Queue work that takes `quiet_s` on an idle GPU; `effect` happens to the memory when it ends.

        Processes that work at the same time have half of the GPU each: time slices, nothing is gained by overlapping.
        """
        self._alive()
        duration_s = quiet_s * self._slowdown(self._now_s) * max(0.1, self._random.gauss(1.0, self._noise))
        if self._random.random() < self._outliers:
            duration_s *= 1.5
        start_s = max(self._now_s, self._ends_s.get(process, 0.0))
        if process is not self._turn:
            start_s, self._turn = start_s + SWITCH_S, process
        for other, end_s in self._ends_s.items():
            shared_s = min(duration_s, end_s - start_s)
            if other is not process and shared_s > 0:
                duration_s += shared_s
                self._delay(other, start_s, shared_s)
        self._ends_s[process] = start_s + duration_s
        if effect is not None:
            self._effects.append(_Effect(start_s + duration_s, process, effect))

    def _delay(self, process: object, from_s: float, by_s: float) -> None:
        self._ends_s[process] += by_s
        for effect in self._effects:
            if effect.process is process and effect.at_s > from_s:
                effect.at_s += by_s

    def wait_for(self, process: object) -> None:
        """A process waits until its own work is done."""
        self.pass_s(max(0.0, self._ends_s.get(process, 0.0) - self._now_s))

    def end(self, process: object) -> None:
        """A process is killed: what it has queued does not happen."""
        self._ends_s.pop(process, None)
        self._effects = [effect for effect in self._effects if effect.process is not process]

    def pass_s(self, duration_s: float) -> None:
        """Time goes by on the host. Effects of work that ends meanwhile happen in their order."""
        self._alive()
        self._now_s += duration_s
        due = sorted((effect for effect in self._effects if effect.at_s <= self._now_s), key=lambda effect: effect.at_s)
        self._effects = [effect for effect in self._effects if effect.at_s > self._now_s]
        for effect in due:
            effect.happens()
        self._alive()

    def copying_s(self, size_bytes: int) -> float:
        """How long reading and writing this many bytes, together, takes at the speed of a copy."""
        return size_bytes / (self.facts.quiet_copy_gbps * _GB)

    def _alive(self) -> None:
        if self._vanishes_s is not None and self._now_s >= self._vanishes_s:
            raise DeviceLost("the simulated GPU has fallen off the bus")

    # --- Device --------------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        """See `Device.now_s`."""
        return self._now_s

    def synchronize(self) -> None:
        """See `Device.synchronize`."""
        self.wait_for(self)

    def block(self, size_bytes: int) -> torch.Tensor:
        """See `Device.block`."""
        self._take(size_bytes)
        # What the Judge has mapped may not be cut off under it (SIGBUS): sealed, and so in nobody's power.
        descriptor = os.memfd_create("warpgrade-device", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        block = torch.frombuffer(mmap.mmap(descriptor, size_bytes), dtype=torch.uint8)
        self._descriptors[block.data_ptr()] = descriptor
        return block

    def descriptor(self, block: torch.Tensor) -> int:
        """See `Device.descriptor`."""
        return self._descriptors[block.data_ptr()]

    def private(self, like: torch.Tensor) -> torch.Tensor:
        """See `Device.private`."""
        self._take(like.numel() * like.element_size())
        return torch.empty_like(like)

    def _take(self, size_bytes: int) -> None:
        self._alive()
        self._taken_bytes += size_bytes
        if self._taken_bytes > self.facts.free_bytes:
            raise DoesNotFit(f"{self._taken_bytes} of {self.facts.free_bytes} bytes are taken")

    def normal_(self, tensor: torch.Tensor, seed: int, mean: float, std: float) -> None:
        """See `Device.normal_`."""
        self._do(tensor, lambda: tensor.normal_(mean, std, generator=torch.Generator().manual_seed(seed)))

    def copy_(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Device.copy_`."""
        self._do(target, lambda: target.copy_(source), times=2)

    def poison_(self, tensor: torch.Tensor, word: int) -> None:
        """See `Device.poison_`."""
        self._do(tensor, lambda: tensor.view(torch.int32).fill_(word))

    def gather(self, tensor: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """See `Device.gather`."""
        found = torch.empty(positions.shape, dtype=tensor.dtype)
        self._do(positions, lambda: found.copy_(tensor.flatten()[positions]))
        return found

    def positions(self, count: int, below: int, seed: int) -> torch.Tensor:
        """See `Device.positions`."""
        return torch.randint(below, (count,), generator=torch.Generator().manual_seed(seed))

    def _do(self, tensor: torch.Tensor, effect: Callable[[], object], times: int = 1) -> None:
        size_bytes = tensor.numel() * tensor.element_size()
        self.work(self, self.copying_s(times * size_bytes), effect)

    def canary_ms(self) -> float:
        """See `Device.canary_ms`."""
        self.synchronize()
        self._turn = self  # a first, small copy takes the turn
        started_s = self._now_s
        self.work(self, _CANARY_S)
        self.synchronize()
        return 1e3 * (self._now_s - started_s)

    def canary_bytes(self) -> int:
        """See `Device.canary_bytes`."""
        return round(_CANARY_S * self.facts.quiet_copy_gbps * _GB)

    def state(self) -> DeviceState:
        """See `Device.state`."""
        self._alive()
        return DeviceState(sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=40, others_busy_percent=self._others)

    def release(self) -> None:
        """See `Device.release`."""
        self._taken_bytes = 0
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors = {}
