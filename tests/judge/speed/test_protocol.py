"""What is measured is what is true, or it is inconclusive; on devices that are quiet, noisy, shared, small and mortal."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from tests.judge.speed import runners
from tests.judge.speed.conftest import THRESHOLD
from warpgrade.judge.failure import Failure
from warpgrade.judge.marks import speed_share
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.speed.device import DeviceLost
from warpgrade.judge.speed.message import TimedMessage
from warpgrade.judge.speed.protocol import NOOP_SAMPLES, SAMPLES, Inconclusive, measure, median_interval
from warpgrade.judge.speed.simulated import H200, T4, SimulatedDevice
from warpgrade.judge.speed.workload import sized
from warpgrade.judge.verdict import Outcome


@pytest.mark.parametrize("facts", [H200, T4], ids=["h200", "t4"])
@pytest.mark.parametrize("efficiency", [1.0, 0.9, 0.8, 0.6, 0.35])
def test_an_honest_candidates_share_is_true_to_one_percent(measured, facts, efficiency):
    """1%: what the real protocol was measured to (design/on-the-gpu), with some room for the model of the switch."""
    reading = measured(efficiency=efficiency, device=SimulatedDevice(facts))
    assert reading.share == pytest.approx(efficiency, rel=0.01)
    assert reading.bandwidth_gbps == pytest.approx(efficiency * facts.quiet_copy_gbps, rel=0.01)
    low, high = reading.candidate_interval_ms
    assert low <= reading.candidate_ms <= high


def test_the_blocks_are_in_their_order_with_fixed_counts(measured):
    reading = measured()
    assert [(block.runner, len(block.message_ms), len(block.canary_ms)) for block in reading.blocks] == [
        ("noop", NOOP_SAMPLES, NOOP_SAMPLES), ("baseline", SAMPLES, SAMPLES), ("candidate", SAMPLES, SAMPLES),
        ("baseline", SAMPLES, SAMPLES), ("noop", NOOP_SAMPLES, NOOP_SAMPLES),
    ]  # fmt: skip
    checked = [len(block.verified) for block in reading.blocks if block.runner != "noop"]
    assert all(0 < count < SAMPLES for count in checked)


def test_the_reading_says_where_and_how(measured):
    device = SimulatedDevice()
    reading = measured(device=device)
    assert (reading.gpu, reading.threshold, reading.threshold_for) == ("NVIDIA H200", 0.8, "h200")
    assert reading.before.sm_clock_mhz == 1980
    assert reading.launches == 4
    # design: exclusive time per speed test under 3 s
    assert 0.3 < reading.exclusive_s < 3.0


def test_the_mark_of_equal_code_varies_by_less_than_two_percent_of_the_points(measured):
    """Done when (on the GPU; here for the arithmetic): the interquartile range of the mark is 2% or less."""
    shares = [
        measured(efficiency=0.7, seed=seed, device=SimulatedDevice(noise=0.01, seed=seed)).share for seed in range(20)
    ]
    marks = [float(speed_share(share, 0.8)) for share in shares]
    low, _, high = statistics.quantiles(marks, n=4)
    assert high - low <= 0.02


def test_outliers_do_not_matter(measured):
    # of the 20 pieces of work in a message one in 200 takes half as long again: a tenth of the messages
    assert measured(device=SimulatedDevice(outliers=0.005)).share == pytest.approx(0.9, rel=0.015)


def test_a_hopeless_candidate_does_not_keep_others_waiting(measured):
    reading = measured(efficiency=0.05)
    assert len(next(block for block in reading.blocks if block.runner == "candidate").message_ms) == 5
    assert speed_share(reading.share, reading.threshold) == 0


def test_one_that_is_just_not_worth_marks_gets_all_its_samples(measured):
    reading = measured(efficiency=0.38)
    assert len(next(block for block in reading.blocks if block.runner == "candidate").message_ms) == SAMPLES


# --- neighbours ----------------------------------------------------------------------------------------------------


def test_a_neighbour_who_is_only_there_changes_nothing(measured):
    """Presence is normal on a hub: only work counts. The memory that he holds is not free."""
    assert measured(device=SimulatedDevice(others_busy_percent=0)).share == pytest.approx(0.9, rel=0.01)


def test_a_neighbour_whom_the_driver_reports_busy_makes_it_inconclusive(measured):
    with pytest.raises(Inconclusive) as raised:
        measured(device=SimulatedDevice(others_busy_percent=30))
    assert "30%" in raised.value.reason


def test_a_steady_neighbour_makes_it_inconclusive(measured):
    """Both baselines agree and the share looks right: the canary alone sees him."""
    with pytest.raises(Inconclusive) as raised:
        measured(device=SimulatedDevice(slowdown=lambda now_s: 1.3))
    assert "kept the GPU busy" in raised.value.reason
    assert "canary" in raised.value.evidence


@pytest.mark.parametrize("comes_s", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_neighbour_who_comes_half_way_makes_it_inconclusive(measured, comes_s):
    with pytest.raises(Inconclusive):
        measured(device=SimulatedDevice(slowdown=lambda now_s: 1.3 if now_s > comes_s else 1.0))


@pytest.mark.parametrize("seed", range(8))
def test_bursts_make_it_inconclusive_or_cost_nothing(measured, seed):
    """Done when: no mark more than 5% of the speed points from its value alone."""
    bursts = random.Random(seed)
    edges = [0.0]
    while edges[-1] < 10.0:
        edges.append(edges[-1] + bursts.uniform(0, 0.05))

    def slowdown(now_s):
        return 1.5 if sum(edge <= now_s for edge in edges) % 2 else 1.0

    try:
        reading = measured(efficiency=0.6, device=SimulatedDevice(slowdown=slowdown, seed=seed))
    except Inconclusive:
        return
    assert abs(float(speed_share(reading.share, 0.8)) - 0.5) <= 0.05


# --- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vanishes_s", [0.0, 0.05, 0.2, 0.4, 0.6, 0.9])
def test_a_device_that_vanishes_half_way_is_nobodys_zero(measured, vanishes_s):
    with pytest.raises(DeviceLost):
        measured(device=SimulatedDevice(vanishes_s=vanishes_s))


def test_whatever_happens_every_runner_is_ended(measured):
    started = []

    class Noted(runners.Running):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            started.append(self)

    with pytest.raises(Failure):
        measured(runners.nothing_at_the_end, candidate=Noted)
    assert [runner.closed for runner in started] == [True]


def test_a_wrong_baseline_is_the_courses_fault(measured):
    with pytest.raises(Failure) as raised:
        measured(baseline=runners.zeros_at_the_end)
    assert raised.value.outcome is Outcome.FAULT
    assert "not the submission's fault" in raised.value.sentence


def test_faster_than_the_memory_allows_goes_to_a_person(measured):
    with pytest.raises(Inconclusive) as raised:
        measured(efficiency=2.0)
    assert raised.value.final


def test_as_fast_as_the_memory_allows_passes(measured):
    assert measured(efficiency=1.1).share == pytest.approx(1.1, rel=0.01)


# --- figures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "rank"), [(20, 6), (5, 1), (6, 1), (100, 40)])
def test_the_medians_interval_has_the_textbooks_ranks(count, rank):
    """Ranks from tables of the sign test: n = 20: 6 and 15; n = 6: 1 and 6; n = 100: 40 and 61."""
    assert median_interval([float(i) for i in range(1, count + 1)]) == (rank, count + 1 - rank)


def test_the_interval_covers_the_median_as_often_as_it_says():
    drawn = random.Random(0)
    hits = 0
    for _ in range(2000):
        low, high = median_interval([math.exp(drawn.gauss(0, 1)) for _ in range(20)])
        hits += low <= 1.0 <= high
    # 95.9% by the binomial distribution, three standard errors of 2000 trials below it
    assert hits / 2000 > 0.959 - 3 * math.sqrt(0.959 * 0.041 / 2000)


def test_the_threshold_is_what_the_reading_carries(measured):
    assert measured(threshold=THRESHOLD).threshold == THRESHOLD.share


def test_the_noop_is_ended_where_the_baseline_cannot_be_started():
    device = SimulatedDevice()
    message = TimedMessage(device, *sized(device.facts, runners.add_at))
    started = []

    def start(role, message):
        if role == "baseline":
            raise SandboxUnavailable("no baseline")
        started.append(runners.Running(device, message, runners.trivial))
        return started[-1]

    with pytest.raises(SandboxUnavailable):
        measure(device, message, start, THRESHOLD)
    assert [runner.closed for runner in started] == [True]
