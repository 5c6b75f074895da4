"""Baseline, candidate, baseline: one measurement of speed, and whether it may become marks.

The baseline never runs beside live student code, and is measured before and after it: a neighbour who comes or goes
moves one of the two. Fixed counts, so that nothing a submission does gets it other or fewer samples; medians; canary
copies of the Judge's own between the samples. What does not agree is inconclusive, and no marks come of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from warpgrade.judge.failure import Failure
from warpgrade.judge.speed.device import Device, DeviceFacts, DoesNotFit
from warpgrade.judge.speed.message import Defences, Runner, Timed, TimedMessage
from warpgrade.judge.verdict import Block, DeviceState, Outcome, SpeedReading

Role = Literal["noop", "baseline", "candidate"]
#: Starts a Runner for a message. The candidate's loads the submission, so it is called when its turn has come.
Start = Callable[[Role, TimedMessage], Runner]

#: 20 samples took 0.43 s (design/on-the-gpu), and their median is good to about a quarter of one sample's spread.
SAMPLES = 20
#: The no-op's median is subtracted from both sides, and needs half as many.
NOOP_SAMPLES = 10
#: Compiling, tuning and the first touch of every operand happen here and are not counted.
WARM_UP_SAMPLES = 3
#: Two medians of the same thing may differ by this much (design/architecture, "Speed"): alone they differed by 0.2%,
#: and a difference of 2% moves a mark by 4% of the speed points at most (the line has a slope of 2 / threshold).
AGREEMENT = 0.02
#: How often a measurement is made again at once when it is inconclusive; then a person decides.
ATTEMPTS = 3
#: So many samples are enough where their median is this many times too slow for any marks: others wait for the GPU.
_ENOUGH = {1: 8.0, 5: 2.0}


@dataclass(frozen=True)
class Threshold:
    """The share of the baseline's speed that earns full marks, the declaration's column that it is from, and the
    baseline in words."""

    share: float
    column: str
    baseline: str


@dataclass(eq=False)  # an exception must be hashable
class Inconclusive(Exception):  # noqa: N818 - reads as what it is
    """This measurement may not become marks. `reason` is a sentence for people."""

    reason: str
    #: Measuring again would not help: a person has to look.
    final: bool = False
    evidence: str = ""


def measure(
    device: Device,
    message: TimedMessage,
    start: Start,
    threshold: Threshold,
    *,
    same_work: bool = True,
    defences: Defences | None = None,
) -> SpeedReading:
    """Measure once. The GPU has to be held exclusively. `same_work`: the baseline's outputs are the candidate's, and
    are checked likewise; a baseline that only moves as many bytes has none.

    Raises Inconclusive, Failure for whatever the submission does and for a fault of the baseline's, DeviceLost.
    """
    defences = defences or Defences()
    started_s = device.now_s()
    before = device.state()
    blocks: list[Block] = []
    runners: dict[Role, Runner] = {}
    try:
        if not defences.baseline_alone:
            runners["candidate"] = start("candidate", message)
        noop = runners["noop"] = start("noop", message)
        baseline = runners["baseline"] = start("baseline", message)
        _warm_up(message, noop, "noop", checked=False)
        _warm_up(message, baseline, "baseline", checked=same_work)
        blocks.append(_block(device, message, noop, "noop", checked=False))
        blocks.append(_block(device, message, baseline, "baseline", checked=same_work))
        blocks.append(_candidate_block(device, message, start, threshold, runners, blocks, defences))
        # Whoever was on the GPU last has left it; the first message after that is not counted.
        _sample(message, baseline, "baseline", checked=same_work)
        blocks.append(_block(device, message, baseline, "baseline", checked=same_work))
        blocks.append(_block(device, message, noop, "noop", checked=False))
    finally:
        for runner in runners.values():
            runner.close()
    states = before, device.state()
    return read(
        device.facts, blocks, states, threshold, message.workload.moved_bytes, len(message.launches),
        device.now_s() - started_s, canary_gbps=device.canary_bytes() / 1e6, defences=defences,
    )  # fmt: skip


def _candidate_block(
    device: Device,
    message: TimedMessage,
    start: Start,
    threshold: Threshold,
    runners: dict[Role, Runner],
    blocks: Sequence[Block],
    defences: Defences,
) -> Block:
    """The only part in which student code runs. Raises Failure, and Inconclusive where it left us no memory."""
    noop_ms, baseline_ms = (_median(block) for block in blocks)
    # Half of the threshold earns nothing: twice the baseline's time over the threshold.
    worthless_ms = noop_ms + 2 / threshold.share * (baseline_ms - noop_ms)
    try:
        if "candidate" not in runners:
            runners["candidate"] = start("candidate", message)
        candidate = runners["candidate"]
        _warm_up(message, candidate, "candidate", checked=True, worthless_ms=worthless_ms)
        block = _block(device, message, candidate, "candidate", checked=True, worthless_ms=worthless_ms)
    except DoesNotFit as error:
        # All that we need was taken before it came: a submission that takes the rest does not get away as pending.
        raise Inconclusive(
            "While the submission was measured, the GPU ran out of memory.", evidence=str(error)
        ) from error
    if defences.baseline_alone:
        candidate.close()
    return block


def _warm_up(
    message: TimedMessage, runner: Runner, role: Role, *, checked: bool, worthless_ms: float = math.inf
) -> None:
    for number in range(WARM_UP_SAMPLES):
        # The first is checked in full: whoever is wrong when it is large is told before anything is timed.
        timed = _sample(message, runner, role, checked=checked, verified=number == 0)
        if number and timed.message_ms > _ENOUGH[1] * worthless_ms:
            return


def _block(
    device: Device, message: TimedMessage, runner: Runner, role: Role, *, checked: bool, worthless_ms: float = math.inf
) -> Block:
    message_ms: list[float] = []
    canary_ms: list[float] = []
    verified: list[int] = []
    for number in range(NOOP_SAMPLES if role == "noop" else SAMPLES):
        if number in _ENOUGH and statistics.median(message_ms) > _ENOUGH[number] * worthless_ms:
            break
        canary_ms.append(device.canary_ms())
        timed = _sample(message, runner, role, checked=checked)
        message_ms.append(timed.message_ms)
        verified += [number] if timed.verified else []
    return Block(runner=role, message_ms=message_ms, canary_ms=canary_ms, verified=verified)


def _sample(message: TimedMessage, runner: Runner, role: Role, *, checked: bool, verified: bool = False) -> Timed:
    try:
        return message.sample(runner, checked=checked, verified=verified)
    except Failure as failure:
        if role == "candidate":
            raise
        # The course's own code: never the student's zero.
        raise Failure(
            Outcome.FAULT, f"The {role} that speed is compared with failed. This is not the submission's fault.",
            evidence={"failure": str(failure)},
        ) from failure  # fmt: skip


def read(
    facts: DeviceFacts,
    blocks: Sequence[Block],
    states: tuple[DeviceState, DeviceState],
    threshold: Threshold,
    moved_bytes: int,
    launches: int,
    exclusive_s: float,
    *,
    canary_gbps: float,
    defences: Defences | None = None,
) -> SpeedReading:
    """What five blocks (no-op, baseline, candidate, baseline, no-op) say. A pure function.

    `canary_gbps` times the milliseconds of a canary is its bandwidth. Raises Inconclusive, with the first reason.
    """
    defences = defences or Defences()
    noops_ms, baselines_ms = (
        [_median(block) for block in blocks if block.runner == role] for role in ("noop", "baseline")
    )
    noop_ms = statistics.fmean(noops_ms)
    baseline_ms = statistics.fmean(baselines_ms) - noop_ms
    if baseline_ms <= 0:
        raise Inconclusive(
            "The baseline was not slower than doing nothing: the machine was busy.", evidence=_told(blocks)
        )
    _agree("The baseline before and after", baselines_ms, baseline_ms, blocks)
    _agree("Doing nothing before and after", noops_ms, baseline_ms, blocks)
    quiet_ms = canary_gbps / facts.quiet_copy_gbps
    before_and_after = max(_slower(blocks, "noop", quiet_ms), _slower(blocks, "baseline", quiet_ms))
    meanwhile = _slower(blocks, "candidate", quiet_ms)
    samples_ms = next(block.message_ms for block in blocks if block.runner == "candidate")
    candidate_ms = statistics.median(samples_ms) - noop_ms
    # Work that a submission leaves running slows the canary too, and must not turn its zero into another attempt. Who
    # shares the GPU with another loses time as the canary does, give or take a tenth (beside a matmul a ratio moved by
    # 8%, design/on-the-gpu): what earns nothing even so is worthless whoever was there.
    worthless = 0 < 1.1 * baseline_ms / candidate_ms * (1 + max(meanwhile, 0.0)) <= threshold.share / 2
    if defences.canary and (before_and_after > AGREEMENT or (meanwhile > AGREEMENT and not worthless)):
        who = "Something" if meanwhile > before_and_after else "Somebody else"
        raise Inconclusive(
            f"{who} kept the GPU busy: a copy of the judge's own took {max(before_and_after, meanwhile):.0%} longer "
            "than alone.",
            evidence=_told(blocks),
        )
    busy = max(state.others_busy_percent or 0 for state in states)
    if busy:
        raise Inconclusive(f"Somebody else kept the GPU busy: {busy}% of its time went to others.")
    low_ms, high_ms = (sample_ms - noop_ms for sample_ms in median_interval(samples_ms))
    least_ms = launches * moved_bytes / facts.peak_bandwidth_gbps / 1e6
    if defences.ceiling and candidate_ms < least_ms:
        raise Inconclusive(
            "It was measured to be faster than the GPU's memory allows. A person looks at how.", final=True,
            evidence=f"{candidate_ms:.4g} ms, at least {least_ms:.4g}\n{_told(blocks)}",
        )  # fmt: skip
    least_ms = 1e-6  # only with the ceiling off can it be less: a share has to be a number
    return SpeedReading(
        gpu=facts.name,
        driver=facts.driver,
        baseline=threshold.baseline,
        threshold=threshold.share,
        threshold_for=threshold.column,
        baseline_ms=baseline_ms / launches,
        candidate_ms=max(candidate_ms, least_ms) / launches,
        candidate_interval_ms=(max(low_ms, least_ms) / launches, max(high_ms, least_ms) / launches),
        moved_bytes=moved_bytes,
        peak_bandwidth_gbps=facts.peak_bandwidth_gbps,
        launches=launches,
        blocks=list(blocks),
        before=states[0],
        after=states[1],
        exclusive_s=exclusive_s,
    )


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """A 95% interval of the median that assumes nothing of the distribution: order statistics with binomial ranks
    (Hahn & Meeker, Statistical Intervals, section 5.2). The whole range where there are fewer than six samples."""
    ordered, count = sorted(samples), len(samples)
    rank = 0
    while sum(math.comb(count, k) for k in range(rank + 1)) / 2**count <= 0.025:
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[count - 1 - rank]


def _slower(blocks: Sequence[Block], role: Role, quiet_ms: float) -> float:
    """By what part the canaries of a Runner's slowest block took longer than on a quiet GPU."""
    return max(statistics.median(block.canary_ms) for block in blocks if block.runner == role) / quiet_ms - 1


def _median(block: Block) -> float:
    return statistics.median(block.message_ms)


def _agree(what: str, medians_ms: Sequence[float], of_ms: float, blocks: Sequence[Block]) -> None:
    apart = (max(medians_ms) - min(medians_ms)) / of_ms
    if apart > AGREEMENT:
        raise Inconclusive(
            f"{what} differed by {apart:.1%}, more than the {AGREEMENT:.0%} that may become a mark: the GPU was not "
            "the same all the time.",
            evidence=_told(blocks),
        )


def _told(blocks: Sequence[Block]) -> str:
    return "\n".join(
        f"{block.runner}: {_median(block):.4g} ms a message ({len(block.message_ms)} samples), canary "
        f"{statistics.median(block.canary_ms):.4g} ms"
        for block in blocks
    )
