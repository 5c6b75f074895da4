"""A SpeedReading of any share, for tests of whatever reads them."""

from __future__ import annotations

from typing import Any

import msgspec

from warpgrade.judge.verdict import Block, DeviceState, SpeedReading


def reading(share: float = 0.9, threshold: float = 0.8, **changes: Any) -> SpeedReading:
    """A candidate of `share` times the baseline's speed, on a quiet H200."""
    baseline_ms = 2.25
    candidate_ms = baseline_ms / share
    blocks = [
        Block(runner="noop", message_ms=[9.3] * 10, canary_ms=[1.0] * 10),
        Block(runner="baseline", message_ms=[9.3 + 4 * baseline_ms] * 20, canary_ms=[1.0] * 20, verified=[3, 7]),
        Block(runner="candidate", message_ms=[9.3 + 4 * candidate_ms] * 20, canary_ms=[1.0] * 20, verified=[2]),
        Block(runner="baseline", message_ms=[9.3 + 4 * baseline_ms] * 20, canary_ms=[1.0] * 20, verified=[11]),
        Block(runner="noop", message_ms=[9.3] * 10, canary_ms=[1.0] * 10),
    ]
    made = SpeedReading(
        gpu="NVIDIA H200",
        driver="580.1",
        baseline="a copy",
        threshold=threshold,
        threshold_for="h200",
        baseline_ms=baseline_ms,
        candidate_ms=candidate_ms,
        candidate_interval_ms=(candidate_ms * 0.995, candidate_ms * 1.005),
        moved_bytes=9_000_000_000,
        peak_bandwidth_gbps=4915.0,
        launches=4,
        blocks=blocks,
        before=DeviceState(sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=40, others_busy_percent=0),
        after=DeviceState(sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=43, others_busy_percent=0),
        exclusive_s=1.4,
    )
    return msgspec.structs.replace(made, **changes)
