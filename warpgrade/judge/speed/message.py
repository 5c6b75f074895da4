"""The timed message: a few launches, no operand met twice, generated, poisoned and gathered inside the Judge's clock.

Threats (design/threats, "Replay" and "Time"): what was computed before cannot be answered again, because inputs are
fresh and secret and no two launches share any; nothing can start before the clock, because the inputs do not exist;
what is done after the answer does not count, because random positions were read before the clock stopped and must be
what the outputs hold later, when all of them are looked at.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from warpgrade.judge.failure import Failure
from warpgrade.judge.speed.device import Device
from warpgrade.judge.speed.workload import Operand, Workload
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.messages import Launch, TensorSpec
from warpgrade.wire.tensors import DTYPE_NAMES, contiguous_strides, view

#: Of each output, one element in so many is read inside the clock, and at least `_LEAST_GATHERED`: of work that is not
#: done a part of 1% is seen with 1 - 0.99**256 = 92%, in 20 samples always. Reading them takes microseconds.
_GATHERED_SHARE = 1024
_LEAST_GATHERED = 256
#: Of every sample so many launches are looked at, so many pieces of each, all chosen when it is over; a piece is one
#: row in `_PIECES` of a launch. A median moves when 10 of 20 samples cheat. Whoever leaves out a quarter of the work in
#: them is passed over with (3/4)^8 in each, whoever leaves out 5% with 0.95^8: in all ten with 1e-10 and 2%.
_LAUNCHES_LOOKED_AT = 2
_PIECES_LOOKED_AT = 4
_PIECES = 64
#: And one sample in so many is checked in full, so that what is passed over elsewhere is not safe either.
_ALL_CHECKED = 10
_ALIGNMENT_BYTES = 256
#: Of the free memory, what one float64 temporary of a check may take; a check has about ten.
_TEMPORARY_SHARE = 0.02
_TIMED = "While it was timed, on large inputs"


@dataclass(frozen=True)
class Defences:
    """What keeps a timed message honest. All on, always; the attack benchmarks turn them off one at a time, to see that
    each attack would work without the one that is there for it."""

    distinct_operands: bool = True
    fresh_inputs: bool = True
    inputs_inside_clock: bool = True
    gathered_inside_clock: bool = True
    full_checks: bool = True
    baseline_alone: bool = True
    ceiling: bool = True
    canary: bool = True


class Runner(Protocol):
    """A process that answers timed messages: the submission's Worker, or one of ours with the baseline or the no-op."""

    def run(self, launches: Sequence[Launch]) -> None:
        """Run all of them; comes back when their outputs are there.

        Raises Failure for whatever a submission does, DeviceLost where the GPU is gone.
        """

    def close(self) -> None:
        """End it, and all that it left on the GPU."""


@dataclass(frozen=True)
class Timed:
    """One sample: how long it took, and whether its outputs were checked in full."""

    message_ms: float
    verified: bool


class TimedMessage:
    """The blocks of a workload's launches, filled anew for each sample. Raises DoesNotFit."""

    def __init__(
        self,
        device: Device,
        workload: Workload,
        launches: int,
        *,
        defences: Defences | None = None,
        drawn: random.Random | None = None,
    ) -> None:
        self.workload = workload
        self._device = device
        self._defences = defences or Defences()
        in_bytes = [_packed_bytes(workload.inputs.values()), _packed_bytes(workload.outputs.values())]
        different = launches if self._defences.distinct_operands else 1
        self.inputs = device.block(different * in_bytes[0])
        self.outputs = device.block(different * in_bytes[1])
        self.launches = [
            Launch(
                _specs(workload.inputs, (number % different) * in_bytes[0]),
                _specs(workload.outputs, (number % different) * in_bytes[1]),
            )
            for number in range(launches)
        ]
        self._snapshot = device.private(self.outputs)
        self._again = {name: device.private(view(self.inputs, spec)) for name, spec in self.launches[0].inputs.items()}
        # Seeds, orders and coins: from the system's randomness, which no submission has seen (a test may draw others).
        self._random = drawn or secrets.SystemRandom()
        self._fixed_seed = self._random.getrandbits(62)

    def sample(self, runner: Runner, *, checked: bool, verified: bool = False) -> Timed:
        """Time one message. `checked`: its outputs are looked at afterwards (the no-op has none): pieces, chosen
        when all is over, and now and then, or where `verified`, all of them.

        Raises Failure for wrong outputs, and what the runner raises.
        """
        device, defences = self._device, self._defences
        seed = self._random.getrandbits(62) if defences.fresh_inputs else self._fixed_seed
        word = _poison_word(self._random)
        order = self._random.sample(self.launches, len(self.launches))
        positions = self._positions()
        if not defences.inputs_inside_clock:
            self._prepare(seed, word)
        device.synchronize()
        started_s = device.now_s()
        if defences.inputs_inside_clock:
            self._prepare(seed, word)
            device.synchronize()
        runner.run(order)
        gathered: list[torch.Tensor] = []
        if defences.gathered_inside_clock:
            found = zip(self._outputs(self.outputs), positions, strict=True)
            gathered = [device.gather(tensor, where) for (_, tensor), where in found]
        device.synchronize()
        message_ms = 1e3 * (device.now_s() - started_s)
        if not checked:
            return Timed(message_ms, False)
        device.copy_(self._snapshot, self.outputs)
        device.synchronize()
        self._look(gathered, positions, word)
        # Which ones is decided after the answer.
        verified = (verified or self._random.randrange(_ALL_CHECKED) == 0) and defences.full_checks
        if verified:
            self._check(seed, range(len(self.launches)))
        elif defences.full_checks:
            looked_at = min(_LAUNCHES_LOOKED_AT, len(self.launches))
            self._check(seed, self._random.sample(range(len(self.launches)), looked_at), pieces=_PIECES_LOOKED_AT)
        return Timed(message_ms, verified)

    def _prepare(self, seed: int, word: int) -> None:
        for launch, seeds in zip(self.launches, self._seeds(seed), strict=True):
            for name, spec in launch.inputs.items():
                self._fill(view(self.inputs, spec), self.workload.inputs[name], seeds[name])
        self._device.poison_(self.outputs, word)

    def _fill(self, tensor: torch.Tensor, operand: Operand, seed: int) -> None:
        self._device.normal_(tensor, seed, operand.mean, operand.std)

    def _seeds(self, seed: int) -> list[dict[str, int]]:
        """A seed for each input of each launch, all from one."""
        drawn = random.Random(seed)
        if not self._defences.distinct_operands:
            same = {name: drawn.getrandbits(62) for name in self.workload.inputs}
            return [same] * len(self.launches)
        return [{name: drawn.getrandbits(62) for name in self.workload.inputs} for _ in self.launches]

    def _positions(self) -> list[torch.Tensor]:
        """For each output of each launch others."""
        counts = [tensor.numel() for _, tensor in self._outputs(self.outputs)]
        return [
            self._device.positions(max(_LEAST_GATHERED, count // _GATHERED_SHARE), count, self._random.getrandbits(62))
            for count in counts
        ]

    def _outputs(self, block: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        return [(name, view(block, spec)) for launch in self.launches for name, spec in launch.outputs.items()]

    # --- what is in them -------------------------------------------------------------------------------------------

    def _look(self, gathered: list[torch.Tensor], positions: list[torch.Tensor], word: int) -> None:
        """Raises Failure where the outputs are not what they were inside the clock, or were never written."""
        for number, (name, tensor) in enumerate(self._outputs(self._snapshot)):
            bits = _bits(tensor)
            # Any integer may be right; there the full checks alone find what was not written.
            poisoned = tensor.dtype.is_floating_point
            unwritten = int((bits == _as_signed(word, bits.dtype)).sum()) if poisoned else 0
            if unwritten:
                raise Failure(
                    Outcome.WRONG,
                    f"{_TIMED}, it left elements unwritten.",
                    pattern="elements never written",
                    evidence={"output": name, "unwritten": f"{unwritten} of {bits.numel()}"},
                )
            if gathered and not torch.equal(_bits(gathered[number]), bits.flatten()[positions[number]]):
                raise Failure(
                    Outcome.WRONG,
                    f"{_TIMED}, it answered before its work was done: the result changed after the answer.",
                    pattern="work after the answer",
                    evidence={"output": name},
                )

    def _check(self, seed: int, numbers: Iterable[int], *, pieces: int = 0) -> None:
        """Raises Failure unless the inputs of these launches are as they were, and their outputs right: all of them, or
        so many `pieces`."""
        drawn = self._seeds(seed)
        for launch, seeds in ((self.launches[number], drawn[number]) for number in numbers):
            inputs = {}
            for name, spec in launch.inputs.items():
                again = self._again[name]
                self._fill(again, self.workload.inputs[name], seeds[name])
                inputs[name] = again
                self._device.synchronize()
                if not torch.equal(_bits(again), _bits(view(self.inputs, spec))):
                    raise Failure(Outcome.WRONG, f"{_TIMED}, it changed its input {name}.", evidence={"input": name})
            outputs = {name: view(self._snapshot, spec) for name, spec in launch.outputs.items()}
            self._check_launch(outputs, inputs, pieces)

    def _check_launch(self, outputs: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor], pieces: int = 0) -> None:
        divided = self.workload.divided
        tensors = {**outputs, **inputs}
        rows = max((tensors[name].shape[0] for name in divided), default=1)
        largest = max((tensors[name].numel() for name in divided), default=1)
        fits = self._device.facts.free_bytes * _TEMPORARY_SHARE / 8
        step = max(1, int(rows * min(1.0, fits / largest)))
        starts: Iterable[int] = range(0, rows, step)
        if divided and pieces:
            step = min(step, -(-rows // _PIECES))
            starts = [self._random.randrange(rows - step + 1) for _ in range(pieces)]
        for start in starts:
            some = {
                name: tensor[start : start + step] if name in divided else tensor for name, tensor in tensors.items()
            }
            try:
                self.workload.check(*some.values())
            except Failure as failure:
                # Its own sentence has the pattern of a piece: the end of that says nothing, or something of sizes.
                sentence = f"{_TIMED}, the result was wrong."
                evidence = {**failure.evidence, "of a piece": failure.sentence}
                raise Failure(failure.outcome, sentence, evidence=evidence) from failure


def _packed_bytes(operands: Iterable[Operand]) -> int:
    return sum(_aligned(operand.size_bytes) for operand in operands)


def _specs(operands: Mapping[str, Operand], start_bytes: int) -> dict[str, TensorSpec]:
    specs = {}
    for name, operand in operands.items():
        specs[name] = TensorSpec(
            DTYPE_NAMES[operand.dtype], list(operand.shape), contiguous_strides(operand.shape), start_bytes
        )
        start_bytes += _aligned(operand.size_bytes)
    return specs


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _poison_word(drawn: random.Random) -> int:
    """32 bits that are a NaN in float32, and in both halves in float16 and bfloat16, with a payload nobody foresees.

    In float64 they are a number near the largest.
    """
    # Not what arithmetic makes itself: 0x7FC0 is x86's NaN of bfloat16, 0x7FFF what a GPU gives in 16 bits.
    payload = drawn.choice([bits for bits in range(1, 0x7F) if bits != 0x40])
    half = 0x7F80 | payload | drawn.getrandbits(1) << 15
    word = half << 16 | half
    return word - (1 << 32) if word >= 1 << 31 else word


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers: NaN is not equal to itself, and its bits are."""
    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def _as_signed(word: int, dtype: torch.dtype) -> int:
    """What an element of the poison is as an integer of this dtype."""
    bits = (word & 0xFFFFFFFF) << 32 | word & 0xFFFFFFFF
    bits &= (1 << 8 * dtype.itemsize) - 1
    return bits - (1 << 8 * dtype.itemsize) if bits >> 8 * dtype.itemsize - 1 else bits
