"""The Sandbox: runs the Worker without network, without view of the course, under limits. It knows nothing of kernels.

One small interface, so that a container runtime can be a second backend:

* `Sandbox.start(...)` starts a Worker and gives back a `Running` one with the Judge's end of a socketpair;
* `Running.kill()` ends everything that lives in it and says how it ended;
* `Running.output()` is what it printed, cut.

Backends: `bubblewrap.BubblewrapSandbox` (the real one), `unsandboxed.NoSandbox` (an author's own code, it shouts) and
`fake.FakeSandbox` (for tests: a Python function plays the Worker).
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warpgrade.course import Limits

#: For starting bubblewrap and importing torch and triton: 3 s measured on two cores, tenfold for a busy machine and a
#: cold disk. Passing it is our fault.
START_LIMIT_S = 60.0


class SandboxUnavailable(Exception):  # noqa: N818 - reads as what it is
    """The sandbox cannot be had here, or is not what it should be. Our fault: nothing is judged. The text says why."""


@dataclass(frozen=True)
class Exit:
    """How a Worker ended. `description` is a clause for people: "it was killed by signal 11 (SIGSEGV)"."""

    description: str
    out_of_memory: bool = False
    #: Killed by a signal that the Judge did not send and its limits do not explain: perhaps the machine's own want of
    #: memory, perhaps itself.
    killed_by_unknown: bool = False


class Running(Protocol):
    """A started Worker."""

    @property
    def socket(self) -> socket.socket:
        """The Judge's end of the wire."""

    def kill(self) -> Exit:
        """End every process in the sandbox; say how the Worker ended (as it was, if it had already). Idempotent."""

    def output(self) -> str:
        """What the Worker and its children printed so far, both streams, cut to a readable size."""

    def processor_s(self) -> float:
        """Seconds of processor time that its living processes have used: whether it was busy, or kept waiting."""


class Sandbox(Protocol):
    """Starts Workers."""

    @property
    def isolated(self) -> bool:
        """Whether student code in it is kept from the course; verdicts made where it is not are marked."""

    def start(self, limits: Limits, environment: dict[str, str], secrets: list[Path]) -> Running:
        """Start a Worker with these environment variables. `secrets` must not be visible inside.

        Raises SandboxUnavailable where it cannot.
        """
