"""Where a submission's kernels run: interpreted on the CPU under a sanitizer, or launched on the GPU."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from warpgrade.worker.stores import StoringSession


class Place(Protocol):
    """What differs between the tiers, for the Worker's loop."""

    #: torch's name of the device on which arguments lie.
    device: str

    def prepare(self) -> str:
        """Make it ready, before any student code; says what does not work, "" if all does."""

    def running(self, session: StoringSession) -> AbstractContextManager[object]:
        """Kernels that are launched inside run here."""

    def take(self, payload: bytearray) -> torch.Tensor:
        """A call's payload as memory (uint8) that arguments are views of."""

    def give_back(self, buffer: torch.Tensor) -> torch.Tensor:
        """That memory as the call left it, on the CPU, when all work is done."""

    def map_block(self, descriptor: int, size_bytes: int) -> torch.Tensor:
        """A block that the Judge shares, as uint8. Closes the descriptor."""

    def synchronize(self) -> None:
        """Wait until all work is done."""


class Interpreted:
    """The model tier. Implements `Place`."""

    device = "cpu"

    def prepare(self) -> str:
        """See `Place.prepare`."""
        from warpgrade.model import interpreter
        from warpgrade.worker import probe

        interpreter.install()
        # torch.empty comes filled with NaN: an element that a kernel never writes must not be right by luck. Not
        # torch.use_deterministic_algorithms, which does the same and imports the compiler for it: 1.3 s of each start.
        torch.set_deterministic_debug_mode("warn")
        return probe.problem()

    def running(self, session: StoringSession) -> AbstractContextManager[object]:
        """See `Place.running`."""
        from warpgrade.model.interpreter import interpreting

        return interpreting(session)

    def take(self, payload: bytearray) -> torch.Tensor:
        """See `Place.take`. torch.empty aligns to 64 bytes; a bytearray need not."""
        buffer = torch.empty(len(payload), dtype=torch.uint8)
        if payload:
            buffer.copy_(torch.frombuffer(payload, dtype=torch.uint8))
        return buffer

    def give_back(self, buffer: torch.Tensor) -> torch.Tensor:
        """See `Place.give_back`."""
        return buffer

    def map_block(self, descriptor: int, size_bytes: int) -> torch.Tensor:
        """See `Place.map_block`: of a memory file."""
        from warpgrade.worker.timed import mapped_file

        return mapped_file(descriptor, size_bytes)

    def synchronize(self) -> None:
        """See `Place.synchronize`."""


class OnGpu:
    """The GPU tier. Implements `Place`."""

    device = "cuda"

    def prepare(self) -> str:
        """See `Place.prepare`."""
        from warpgrade.worker import gpu, probe

        if not torch.cuda.is_available():
            return "CUDA does not start in the sandbox; `nvidia-smi` and `warpgrade doctor` may say why"
        gpu.provide_constants()
        return probe.problem_on_gpu()

    def running(self, session: StoringSession) -> AbstractContextManager[object]:
        """See `Place.running`: they are launched as they are."""
        return contextlib.nullcontext()

    def take(self, payload: bytearray) -> torch.Tensor:
        """See `Place.take`."""
        buffer = torch.empty(len(payload), dtype=torch.uint8, device=self.device)
        if payload:
            buffer.copy_(torch.frombuffer(payload, dtype=torch.uint8))
        return buffer

    def give_back(self, buffer: torch.Tensor) -> torch.Tensor:
        """See `Place.give_back`. Raises what went wrong in a kernel."""
        self.synchronize()
        return buffer.cpu()

    def map_block(self, descriptor: int, size_bytes: int) -> torch.Tensor:
        """See `Place.map_block`: of `cuMemCreate` memory."""
        from warpgrade.worker import gpu

        return gpu.map_block(descriptor, size_bytes)

    def synchronize(self) -> None:
        """See `Place.synchronize`: on every stream of the submission's."""
        torch.cuda.synchronize()
