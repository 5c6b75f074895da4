"""The seam between timing and a GPU: what the Judge needs of one. `simulated.SimulatedDevice` is the shipped fake.

Everything in here happens in the Judge's own process and memory, apart from the blocks of `block`, which Runners see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from warpgrade.judge.verdict import DeviceState


class DeviceLost(Exception):  # noqa: N818 - reads as what it is
    """The GPU no longer answers (it fell off the bus, was reset, or its driver failed). Our fault, never marks."""


class DoesNotFit(Exception):  # noqa: N818 - reads as what it is
    """The GPU has too little free memory for a timed message. Not the submission's fault: judged later, elsewhere."""


@dataclass(frozen=True)
class DeviceFacts:
    """What is known of a GPU before anything is timed on it."""

    name: str
    uuid: str
    driver: str
    #: What the Judge may take, everybody else's already left out.
    free_bytes: int
    #: A large copy when nobody else was busy, reads and writes together.
    quiet_copy_gbps: float
    #: What the memory's clock and width allow at most, reads and writes together: faster is impossible.
    peak_bandwidth_gbps: float


class Device(Protocol):
    """One GPU. Methods that work on it only queue the work; `synchronize` waits. All may raise DeviceLost."""

    @property
    def facts(self) -> DeviceFacts:
        """See `DeviceFacts`."""

    def now_s(self) -> float:
        """The Judge's own clock, in seconds."""

    def synchronize(self) -> None:
        """Wait until all that the Judge has queued is done."""

    def block(self, size_bytes: int) -> torch.Tensor:
        """New memory (uint8, 1-D) that Runners are shown, and that holds nothing else. Raises DoesNotFit."""

    def descriptor(self, block: torch.Tensor) -> int:
        """The file descriptor by which another process maps a `block`. It stays the device's, until `release`."""

    def private(self, like: torch.Tensor) -> torch.Tensor:
        """New memory of this shape and dtype that no Runner sees. Raises DoesNotFit."""

    def normal_(self, tensor: torch.Tensor, seed: int, mean: float, std: float) -> None:
        """Fill with normally distributed numbers: the same ones for the same seed, shape and dtype."""

    def copy_(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy, both of one shape and dtype."""

    def poison_(self, tensor: torch.Tensor, word: int) -> None:
        """Fill `tensor` (uint8) with the 32 bits of `word`."""

    def gather(self, tensor: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The elements at `positions` (int64, on this device), in new private memory."""

    def positions(self, count: int, below: int, seed: int) -> torch.Tensor:
        """`count` random indices from 0 to `below` - 1, in private memory: what `gather` takes."""

    def canary_ms(self) -> float:
        """How long a copy of the Judge's own takes just now: about 1 ms when nobody else is busy. Synchronises."""

    def canary_bytes(self) -> int:
        """What one canary copy reads and writes."""

    def state(self) -> DeviceState:
        """Clocks, temperature, what slows it down and how busy others are, as the driver tells."""

    def release(self) -> None:
        """Give back all of `block`'s and `private`'s memory."""
