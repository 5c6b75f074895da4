"""`benchmark`, as a suite's `test_speed` sees it: from the declaration to a reading, or to why there is none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec
import torch

from warpgrade.course import Argument, Exercise, Speed
from warpgrade.judge.failure import Failure, pending
from warpgrade.judge.speed.device import Device, DeviceLost, DoesNotFit
from warpgrade.judge.speed.message import Runner, TimedMessage
from warpgrade.judge.speed.protocol import ATTEMPTS, Inconclusive, Role, Threshold, measure
from warpgrade.judge.speed.workload import SIZE_STEP, Operand, Workload, sized
from warpgrade.judge.verdict import Outcome, SpeedReading

NO_GPU = "Speed is judged on a GPU; there is none here. Not passed, not failed: it is judged later."
#: What a GPU is called in a declaration's `thresholds`, where its own name says something else. The H100 has the same
#: chip, and slower memory: thresholds are shares of what the same GPU's memory does.
_ALSO = {"h100": "h200", "gh200": "h200"}
DEFAULT_COLUMN = "default"
COPY = "copy"


class Timing(Protocol):
    """A GPU to time on, and how to start what is timed."""

    @property
    def device(self) -> Device:
        """The GPU, for the Judge."""

    def start(self, role: Role, message: TimedMessage, baseline: str) -> Runner:
        """A Runner that answers this message. `baseline`: "copy", or a function of the course's `baselines.py`."""

    def alone(self, purpose: str) -> AbstractContextManager[object]:
        """Hold the GPU for nobody else."""


class Benchmark:
    """`benchmark(check, moved_bytes=lambda n: 12 * n, ...)` measures the exercise's function; see `__call__`."""

    def __init__(self, exercise: Exercise, timing: Timing | None) -> None:
        self._exercise = exercise
        self._timing = timing
        #: Of the last call that was conclusive.
        self.reading: SpeedReading | None = None
        #: A Runner's Worker was too late or was killed by nobody that we know: perhaps the machine's fault.
        self.disturbed = False

    def __call__(
        self,
        check: Callable[..., None],
        *,
        moved_bytes: Callable[[int], int],
        grid: Callable[[int], tuple[int, ...]] | None = None,
        baseline: str = COPY,
        inputs: Mapping[str, tuple[float, float]] | None = None,
        **sizes: int,
    ) -> None:
        """Measure, against the baseline, on as much data as keeps this GPU busy long enough.

        Everything else stands in the declaration: one name in its shapes is the size that grows, first dimension of
        every operand that has it; `sizes` gives the others, and the values of constexpr arguments. `check(*outputs,
        *inputs)` is called with tensors on the GPU, some rows at a time. `moved_bytes(size)` and `grid(size)` are of
        one launch. `inputs` gives mean and standard deviation where they are not 0 and 1; dtypes are the first ones
        declared. Raises Failure: pending without a GPU, inconclusive, what the submission does, or too slow; TypeError
        for what does not fit the declaration.
        """

        def at(size: int) -> Workload:
            return workload(self._exercise, size, sizes, check, moved_bytes, grid, inputs or {})

        at(SIZE_STEP)  # a suite's mistake is seen without a GPU too
        speed = self._exercise.speed
        if speed is None:
            raise TypeError(f"{self._exercise.id} declares no speed")
        if self._timing is None:
            raise pending(NO_GPU)
        threshold = threshold_for(speed, self._timing.device.facts.name)
        if threshold is None:
            raise pending(f"No threshold is declared for this GPU ({self._timing.device.facts.name}).")
        self.reading = reading = self._measured(self._timing, at, threshold, baseline)
        if reading.share < reading.threshold:
            raise Failure(Outcome.TOO_SLOW, speed_sentence(reading), reading=reading)

    def _measured(
        self, timing: Timing, at: Callable[[int], Workload], threshold: Threshold, baseline: str
    ) -> SpeedReading:
        """The first conclusive measurement. Raises Failure."""
        reasons: list[Inconclusive] = []
        while len(reasons) < ATTEMPTS and not (reasons and reasons[-1].final):
            try:
                reading = self._measured_once(timing, at, threshold, baseline)
            except Inconclusive as inconclusive:
                reasons.append(inconclusive)
            else:
                return msgspec.structs.replace(reading, inconclusive_before=[one.reason for one in reasons])
        evidence = {f"attempt {number}": f"{one.reason}\n{one.evidence}" for number, one in enumerate(reasons, 1)}
        raise Failure(Outcome.INCONCLUSIVE, reasons[-1].reason, evidence=evidence)

    def _measured_once(
        self, timing: Timing, at: Callable[[int], Workload], threshold: Threshold, baseline: str
    ) -> SpeedReading:
        """Holds the GPU for itself, and lets others have their turn before the next attempt. Raises Inconclusive."""
        device = timing.device

        def start(role: Role, message: TimedMessage) -> Runner:
            return timing.start(role, message, baseline)

        try:
            with timing.alone(f"timing {self._exercise.assignment}/{self._exercise.id}"):
                try:
                    message = TimedMessage(device, *sized(device.facts, at))
                    return measure(device, message, start, threshold, same_work=baseline != COPY)
                finally:
                    device.release()
        except Failure as failure:
            self.disturbed |= failure.outcome in (Outcome.TIMED_OUT, Outcome.CRASHED)
            raise
        except DoesNotFit as error:
            sentence = "The GPU had too little free memory to judge speed. It is judged later."
            raise Failure(Outcome.PENDING, sentence, evidence={"memory": str(error)}) from error
        except DeviceLost as error:
            sentence = "The GPU stopped answering. This is not the submission's fault."
            raise Failure(Outcome.FAULT, sentence, evidence={"device": str(error)}) from error


def speed_sentence(reading: SpeedReading) -> str:
    """How fast it is, and what that is worth: for the student, so no sizes and no times."""
    return (
        f"It runs at {reading.share:.0%} of the speed of {reading.baseline}. Full marks are from "
        f"{reading.threshold:.0%}, and none at {reading.threshold / 2:.0%} and below."
    )


def threshold_for(speed: Speed, gpu: str) -> Threshold | None:
    """The column for a GPU by its name ("NVIDIA H200", "Tesla T4", "NVIDIA A100-SXM4-80GB"), else the default one."""
    words = re.findall(r"[a-z0-9]+", gpu.lower())
    columns = [*words, *(_ALSO[word] for word in words if word in _ALSO), DEFAULT_COLUMN]
    column = next((column for column in columns if column in speed.thresholds), None)
    return None if column is None else Threshold(speed.thresholds[column], column, speed.baseline)


def workload(
    exercise: Exercise,
    size: int,
    sizes: Mapping[str, int],
    check: Callable[..., None],
    moved_bytes: Callable[[int], int],
    grid: Callable[[int], tuple[int, ...]] | None,
    normal: Mapping[str, tuple[float, float]],
) -> Workload:
    """One launch of the declared function with `size` for the one name of its shapes that `sizes` does not give.

    Raises TypeError where declaration and suite do not fit.
    """
    grows = _growing(exercise, sizes)
    values = {**sizes, grows: size}
    inputs: dict[str, Operand] = {}
    outputs: dict[str, Operand] = {}
    scalars: dict[str, int | float] = {}
    for argument in exercise.arguments:
        if argument.kind == "tensor":
            mean, std = normal.get(argument.name, (0.0, 1.0))
            operand = Operand(_shape(argument, values, size), getattr(torch, argument.dtypes[0]), mean, std)
            (outputs if argument.output else inputs)[argument.name] = operand
            if not argument.output and not operand.dtype.is_floating_point:
                raise TypeError(f"{exercise.id}: inputs of a speed test are floating-point, and {argument.name} is not")
        elif argument.name in values:
            scalars[argument.name] = values[argument.name]
        else:
            raise TypeError(f"the speed test of {exercise.id} gives no value for {argument.name}")
    for number, returned in enumerate(exercise.returns):
        shape = inputs[returned.shape].shape if isinstance(returned.shape, str) and returned.shape in inputs else None
        if shape is None:
            shape = tuple(values[name] for name in returned.shape)
        dtype = inputs[returned.dtype].dtype if returned.dtype in inputs else getattr(torch, returned.dtype)
        outputs[f"result {number + 1}"] = Operand(shape, dtype)
    unknown = (set(sizes) | set(normal)) - set(scalars) - set(inputs) - _names(exercise)
    if unknown:
        raise TypeError(f"the speed test of {exercise.id} gives {', '.join(sorted(unknown))}, which is not declared")
    if not outputs:
        raise TypeError(f"{exercise.id} declares no tensor that it writes or returns")
    everything = {**outputs, **inputs}
    if len(inspect.signature(check).parameters) != len(everything):
        raise TypeError(f"the check of {exercise.id}'s speed test has to take {', '.join(everything)}")
    return Workload(
        function=exercise.id,
        inputs=inputs,
        outputs=outputs,
        moved_bytes=moved_bytes(size),
        check=check,
        scalars=scalars,
        grid=grid(size) if grid else None,
        divided=frozenset(name for name, operand in everything.items() if operand.shape[:1] == (size,)),
        signature=tuple(argument.name for argument in exercise.arguments),
    )


def _names(exercise: Exercise) -> set[str]:
    """The names of sizes in the shapes of its tensors."""
    shapes = [argument.shape for argument in exercise.arguments if argument.kind == "tensor"]
    return {name for shape in shapes for name in shape}


def _growing(exercise: Exercise, sizes: Mapping[str, int]) -> str:
    free = _names(exercise) - set(sizes)
    if len(free) != 1:
        names = ", ".join(sorted(free)) or "none"
        raise TypeError(f"the speed test of {exercise.id} has to leave one size free, and leaves {names}")
    return free.pop()


def _shape(argument: Argument, values: Mapping[str, int], size: int) -> tuple[int, ...]:
    return (size,) if argument.shape == ["..."] else tuple(values[name] for name in argument.shape)


def _with_reasons(reading: SpeedReading, reasons: list[Inconclusive]) -> SpeedReading:
    return msgspec.structs.replace(reading, inconclusive_before=[one.reason for one in reasons])
