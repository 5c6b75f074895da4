"""A measurement of speed in words: one line for students, and where it comes from for a TA."""

from __future__ import annotations

import statistics

from warpgrade.judge.verdict import Block, DeviceState, SpeedReading


def speed_lines(reading: SpeedReading) -> list[str]:
    """For the student: how fast, how sure, and on what."""
    low_ms, high_ms = reading.candidate_interval_ms
    slowest, fastest = reading.baseline_ms / high_ms, reading.baseline_ms / low_ms
    lines = [
        f"{reading.share:.1%} of the speed of {reading.baseline} (95% interval: {slowest:.1%} to {fastest:.1%})",
        f"{reading.bandwidth_gbps:,.0f} GB/s on one {reading.gpu}; full marks are from {reading.threshold:.0%}",
    ]
    return lines + [f"measured again because: {reason}" for reason in reading.inconclusive_before]


def provenance_lines(reading: SpeedReading) -> list[str]:
    """For a TA: every block of samples, the canary beside it, and the state of the GPU before and after."""
    baseline, candidate = reading.baseline_ms, reading.candidate_ms
    return [
        f"{reading.gpu}, driver {reading.driver}; threshold for {reading.threshold_for}",
        f"a launch: candidate {candidate:.4g} ms, baseline {baseline:.4g} ms, {reading.moved_bytes:,} bytes to move; "
        f"{reading.launches} launches a message, the no-op subtracted",
        *(_block_line(block) for block in reading.blocks),
        f"before: {_state(reading.before)}",
        f"after: {_state(reading.after)}",
        f"others were kept from the GPU for {reading.exclusive_s:.1f} s",
    ]


def _block_line(block: Block) -> str:
    median_ms = statistics.median(block.message_ms)
    spread_ms = max(block.message_ms) - min(block.message_ms)
    checked = f", {len(block.verified)} checked in full" if block.verified else ""
    return (
        f"{block.runner}: {median_ms:.4g} ms a message, from least to most {spread_ms:.2g} ms, "
        f"{len(block.message_ms)} samples{checked}; canary {statistics.median(block.canary_ms):.4g} ms"
    )


def _state(state: DeviceState) -> str:
    told = [
        ("SM {} MHz", state.sm_clock_mhz),
        ("memory {} MHz", state.memory_clock_mhz),
        ("{} °C", state.temperature_c),
        ("{}% of its time for others", state.others_busy_percent),
    ]
    parts = [text.format(value) for text, value in told if value is not None]
    slowed = [f"slowed down by {', '.join(state.throttle_reasons)}"] if state.throttle_reasons else []
    return ", ".join(parts + slowed) or "the driver tells nothing"
