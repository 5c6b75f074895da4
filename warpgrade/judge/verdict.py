"""Verdicts: what became of each test, from a closed set, and what an exercise earns by them.

The one rule: marks are *derived*, never stored. A Verdict has an outcome and the points of its test; `marks` adds up
the points of the passed ones (of a speed test the share that its measurement earns), and gives no mark at all while
anything is undecided.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from warpgrade.wire.compiled import CompiledKernel, CompileProblem
from warpgrade.wire.messages import ArgumentTraffic, Location

FORMAT_VERSION = 1


class Outcome(StrEnum):
    """Everything that can become of a test."""

    PASSED = "passed"
    # The student's. They earn nothing, and are final.
    WRONG = "wrong"
    MEMORY_ERROR = "memory_error"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    DOES_NOT_COMPILE = "does_not_compile"
    NOT_IMPLEMENTED = "not_implemented"
    TOO_SLOW = "too_slow"
    REFUSED = "refused"
    # Nobody's yet. No marks either way; judged again, then decided by a person.
    PENDING = "pending"
    INCONCLUSIVE = "inconclusive"
    FAULT = "fault"

    @property
    def decided(self) -> bool:
        """Whether this outcome may become marks (or their absence)."""
        return self not in UNDECIDED


UNDECIDED = frozenset({Outcome.PENDING, Outcome.INCONCLUSIVE, Outcome.FAULT})


class TestKind(StrEnum):
    """Who may see a test, and which cell its points belong to."""

    __test__ = False  # not a class for pytest to collect

    PUBLIC = "public"
    HIDDEN = "hidden"
    SPEED = "speed"


class Tier(StrEnum):
    """Where it was judged (design/architecture, "Three tiers")."""

    MODEL = "model"
    GPU = "gpu"


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class DeviceState(_Record, frozen=True):
    """What the driver told of a GPU at one moment. None: it does not tell."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    #: The driver's names of what slows the clocks down ("sw_power_cap"); empty when nothing does.
    throttle_reasons: list[str] = []
    #: Share of its time that the GPU worked for processes that are not the Judge's, over the last second or so.
    others_busy_percent: int | None = None


class Block(_Record, frozen=True):
    """Samples of one Runner in a row: each a timed message, all of it, with the canary copy that went before it."""

    runner: Literal["noop", "baseline", "candidate"]
    message_ms: list[float]
    canary_ms: list[float]
    #: Positions of the samples of which everything was checked; of the others pieces were.
    verified: list[int] = []


class SpeedReading(_Record, frozen=True):
    """One conclusive measurement of speed and where it was made. Latencies are of one launch, in ms, without the no-op.

    Raises ValueError for numbers that no measurement gives.
    """

    gpu: str
    driver: str
    #: What the candidate is compared with, in words, and the share of its speed that earns full marks.
    baseline: str
    threshold: Annotated[float, msgspec.Meta(gt=0)]
    #: The column of the declaration that the threshold is from ("h200", "default").
    threshold_for: str
    baseline_ms: Annotated[float, msgspec.Meta(gt=0)]
    candidate_ms: Annotated[float, msgspec.Meta(gt=0)]
    #: 95% interval of the candidate's median.
    candidate_interval_ms: tuple[float, float]
    #: What one launch has to read and write at least, and what the GPU's memory allows.
    moved_bytes: Annotated[int, msgspec.Meta(gt=0)]
    peak_bandwidth_gbps: Annotated[float, msgspec.Meta(gt=0)]
    launches: Annotated[int, msgspec.Meta(gt=0)]
    #: In the order in which they were measured.
    blocks: list[Block]
    before: DeviceState
    after: DeviceState
    #: For how long others were kept from the GPU.
    exclusive_s: Annotated[float, msgspec.Meta(ge=0)]
    #: Why earlier attempts of the same judgement were inconclusive.
    inconclusive_before: list[str] = []

    def __post_init__(self) -> None:
        figures = (self.threshold, self.baseline_ms, self.candidate_ms, self.peak_bandwidth_gbps)
        if not all(math.isfinite(figure) and figure > 0 for figure in (*figures, *self.candidate_interval_ms)):
            raise ValueError("a reading with a figure that is no positive number")

    @property
    def share(self) -> float:
        """The candidate's speed as a share of the baseline's: 1.0 is as fast."""
        return self.baseline_ms / self.candidate_ms

    @property
    def bandwidth_gbps(self) -> float:
        """Bytes that had to be moved, over the time it took."""
        return self.moved_bytes / self.candidate_ms / 1e6


class Verdict(_Record, frozen=True):
    """The outcome of one test. What a student may see and what only a TA may see are different fields.

    `sentence`, `pattern` and `location` are for the student; `evidence` (sizes, values, exception texts) is not, unless
    the test is public. Raises ValueError for a verdict that contradicts itself.
    """

    test: str
    kind: TestKind
    outcome: Outcome
    #: What the test is worth, as a fraction's text ("2/3"): shares of points must add up exactly.
    points: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(/[1-9][0-9]*)?$")]
    sentence: str = ""
    pattern: str = ""
    exception: str = ""
    location: Location | None = None
    evidence: dict[str, str] = {}
    duration_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: What a decided mark for speed is made of.
    reading: SpeedReading | None = None

    def __post_init__(self) -> None:
        if self.outcome is Outcome.PASSED and (self.pattern or self.exception or self.location):
            raise ValueError(f"{self.test}: passed, and yet it says what went wrong")
        if self.outcome is not Outcome.PASSED and not self.sentence:
            raise ValueError(f"{self.test}: {self.outcome} without a sentence that says so")
        if self.outcome is Outcome.TOO_SLOW and self.kind is not TestKind.SPEED:
            raise ValueError(f"{self.test}: too_slow, and yet no speed test")
        if self.reading is not None and self.kind is not TestKind.SPEED:
            raise ValueError(f"{self.test}: a measurement of speed, and yet no speed test")
        measured = self.kind is TestKind.SPEED and self.outcome in (Outcome.PASSED, Outcome.TOO_SLOW)
        if measured != (self.reading is not None):
            raise ValueError(f"{self.test}: {self.outcome} {'with' if self.reading else 'without'} a measurement")
        if self.reading and (self.outcome is Outcome.PASSED) != (self.reading.share >= self.reading.threshold):
            raise ValueError(f"{self.test}: {self.outcome}, and the measurement says otherwise")


class KernelReport(_Record, frozen=True):
    """What the Worker said of one Triton kernel after the public tests: for students to read, and never marks.

    `launches` and `traffic` (by the kernel's own argument names) are of the one public call that moved most; `compiled`
    has an entry for each architecture.
    """

    name: str
    launches: int
    traffic: dict[str, ArgumentTraffic]
    tuned: bool
    compiled: list[CompiledKernel | CompileProblem]


class Environment(_Record, frozen=True):
    """Where a Verdict was made; part of its key. Empty strings: not there."""

    warpgrade: str
    python: str
    torch: str
    triton: str
    numpy: str


class ExerciseVerdict(_Record, frozen=True):
    """All that was found about one exercise of one submission."""

    assignment: str
    exercise: str
    tier: Tier
    submission_digest: str
    suite_digest: str
    environment: Environment
    verdicts: list[Verdict]
    #: The exercise as a whole could not be judged, and why. Our fault: no marks either way.
    fault: str = ""
    #: Judged with --no-sandbox: an author's own code. Never recorded as a student's mark.
    sandboxed: bool = True
    #: A TA's share of `fault`: what a suite printed, paths. `fault` itself is a sentence that students read.
    fault_evidence: str = ""
    #: How often it was judged in this run, this time included.
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: A call timed out without having had the processor, or was killed by nobody that we know: the machine may be the
    #: reason. Judged once more with nothing beside it, and then it stands.
    disturbed: bool = False
    duration_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Statements of the notebook that raised and were skipped, for the student to read.
    notices: list[str] = []
    kernels: list[KernelReport] = []

    @property
    def faulty(self) -> bool:
        """Whether something of ours failed, in the whole or in one test: judged again."""
        return bool(self.fault) or any(verdict.outcome is Outcome.FAULT for verdict in self.verdicts)

    @property
    def decided(self) -> bool:
        """Whether every test but the speed ones is decided, so that the exercise's cell has a mark."""
        return not self.fault and all(v.outcome.decided for v in self.verdicts if v.kind is not TestKind.SPEED)


class VerdictFile(_Record, frozen=True):
    """What `warpgrade judge --out` writes and `warpgrade record` reads."""

    format_version: int
    assignment: str
    notebook: str
    submission_digest: str
    exercises: list[ExerciseVerdict]
