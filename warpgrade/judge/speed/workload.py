"""What one launch of a timed message works on, and how large it is on a given GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from warpgrade.judge.speed.device import DeviceFacts, DoesNotFit

#: A message is about 9 ms of work in four launches: 4 x 2.2 ms was measured to within 1%, 2 x 2.2 ms to within 1.5%,
#: 1 x 2.2 ms to within 4% (design/on-the-gpu, "Which timed message").
MESSAGE_S = 8.8e-3
LAUNCHES = 4
#: Where memory is short: less than this is measured too coarsely to give marks (likewise).
LEAST_MESSAGE_S = 4.4e-3
#: Shorter launches need as long to be launched by Python as to run (40 us, likewise).
LEAST_LAUNCH_S = 0.2e-3
#: Of the free memory: contexts of three processes (about 0.5 GB each) and what the checks compute take the rest.
MEMORY_SHARE = 0.7
#: Sizes are multiples of this, as most that people time are, so that loads can be vectorised.
SIZE_STEP = 16
#: No contract of the course promises more elements in one tensor.
MOST_ELEMENTS = 2**31 - 1


@dataclass(frozen=True)
class Operand:
    """One tensor of a launch, contiguous. An input is normally distributed: full entropy, which zeros have not."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    mean: float = 0.0
    std: float = 1.0

    @property
    def elements(self) -> int:
        """How many it has."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True)
class Workload:
    """One launch: `function` of the submission on `inputs` and `scalars`, by name, in the order of its signature.

    With a `grid` it is a bare kernel that writes `outputs`; without one a function that returns tensors like `outputs`.
    `moved_bytes` is what it has to read and write at least. `check(*outputs, *inputs)` raises Failure for wrong
    outputs; it gets tensors on the device, `rows` of the first dimension at a time of those named in `divided`.
    """

    function: str
    inputs: Mapping[str, Operand]
    outputs: Mapping[str, Operand]
    moved_bytes: int
    check: Callable[..., None]
    scalars: Mapping[str, int | float] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    divided: frozenset[str] = frozenset()
    #: The order in which the arguments stand in the signature.
    signature: tuple[str, ...] = ()

    @property
    def input_bytes(self) -> int:
        """Of one launch."""
        return sum(operand.size_bytes for operand in self.inputs.values())

    @property
    def output_bytes(self) -> int:
        """Of one launch."""
        return sum(operand.size_bytes for operand in self.outputs.values())


def sized(facts: DeviceFacts, at: Callable[[int], Workload]) -> tuple[Workload, int]:
    """A workload `at(size)` that keeps this GPU busy for about `MESSAGE_S`, and in how many launches.

    `size` is the first dimension, to which bytes are proportional. Raises DoesNotFit.
    """
    one = at(SIZE_STEP)
    per_s = facts.quiet_copy_gbps * 1e9
    most = min(MOST_ELEMENTS // operand.elements for operand in (*one.inputs.values(), *one.outputs.values()))
    steps = min(int(MESSAGE_S / LAUNCHES * per_s / one.moved_bytes), most)
    launches = max(LAUNCHES, round(MESSAGE_S * per_s / (max(steps, 1) * one.moved_bytes)))
    # Inputs and outputs of every launch, the outputs' snapshot, one launch's inputs once more to check by, and what
    # the baseline copies: as many bytes as one launch moves.
    held_bytes = launches * (one.input_bytes + 2 * one.output_bytes) + one.input_bytes + one.moved_bytes
    steps = min(steps, int(MEMORY_SHARE * facts.free_bytes / held_bytes))
    launch_s = steps * one.moved_bytes / per_s
    if launch_s < LEAST_LAUNCH_S or launches * launch_s < LEAST_MESSAGE_S:
        raise DoesNotFit(
            f"{facts.name} has {facts.free_bytes} bytes free: too few for {1e3 * LEAST_MESSAGE_S:.1f} ms of work of "
            "which no two bytes are the same"
        )
    return at(steps * SIZE_STEP), launches
