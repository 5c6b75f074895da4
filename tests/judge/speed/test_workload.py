"""How much work a message is, on GPUs from 16 GB up, and where there is no room for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.speed.runners import add_at
from warpgrade.judge.speed.device import DeviceFacts, DoesNotFit
from warpgrade.judge.speed.workload import MOST_ELEMENTS, Operand, Workload, sized

GB = 10**9
#: Of the real size: nothing is allocated here. Copy and memory: measured (H200), published (the others).
GPUS = {
    "h200": DeviceFacts("NVIDIA H200", "", "", 139 * GB, 4219.0, 4915.0),
    "a100": DeviceFacts("NVIDIA A100-SXM4-40GB", "", "", 39 * GB, 1350.0, 1555.0),
    "t4": DeviceFacts("Tesla T4", "", "", 15 * GB, 240.0, 320.0),
    "b200": DeviceFacts("NVIDIA B200", "", "", 180 * GB, 6900.0, 8000.0),
}


def row_sum_at(m: int) -> Workload:
    return Workload("row_sum", {"x": Operand((m, 8192))}, {"sums": Operand((m,))}, 4 * m * 8193, lambda sums, x: None)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("at", [add_at, row_sum_at])
def test_a_message_is_about_nine_milliseconds_of_work_in_at_least_four_launches(gpu, at):
    workload, launches = sized(GPUS[gpu], at)
    launch_ms = workload.moved_bytes / GPUS[gpu].quiet_copy_gbps / 1e6
    assert launches >= 4
    assert launches * launch_ms == pytest.approx(8.8, rel=0.15)
    assert launch_ms > 0.2


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("at", [add_at, row_sum_at])
def test_all_that_it_holds_leaves_room_for_others(gpu, at):
    workload, launches = sized(GPUS[gpu], at)
    held = launches * (workload.input_bytes + 2 * workload.output_bytes) + workload.input_bytes + workload.moved_bytes
    assert held <= 0.7 * GPUS[gpu].free_bytes


@pytest.mark.parametrize("gpu", GPUS)
def test_no_tensor_is_larger_than_a_contract_promises(gpu):
    workload, launches = sized(GPUS[gpu], row_sum_at)
    assert workload.inputs["x"].elements <= MOST_ELEMENTS
    # what a B200 reads in 2.2 ms is nearly twice that: there are more launches instead
    assert launches == (7 if gpu == "b200" else 4)


def test_where_memory_is_short_the_message_is():
    little = replace(GPUS["h200"], free_bytes=50 * GB)
    workload, launches = sized(little, add_at)
    assert 4.4 <= launches * workload.moved_bytes / little.quiet_copy_gbps / 1e6 < 8.0


@pytest.mark.parametrize("free_gb", [0, 1, 25])
def test_where_there_is_too_little_nothing_is_measured(free_gb):
    with pytest.raises(DoesNotFit, match="free"):
        sized(replace(GPUS["h200"], free_bytes=free_gb * GB), add_at)
