"""The real GPU keeps the contract that timing relies on, and its memory crosses into another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.judge.speed.device_contract import CONTRACT
from warpgrade.judge.speed.cuda import CudaDevice
from warpgrade.judge.speed.device import Device


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return CudaDevice()


@pytest.fixture(autouse=True)
def _released(device: CudaDevice) -> Iterator[None]:
    yield
    device.release()


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda function: function.__name__)
def test_it_keeps_the_contract(device: CudaDevice, holds: Callable[[Device], None]) -> None:
    holds(device)


def test_what_the_driver_tells_is_plausible(device: CudaDevice) -> None:
    state = device.state()
    assert state.sm_clock_mhz and state.memory_clock_mhz and state.temperature_c
    # a copy reaches 70% to 95% of what clock and width allow on every GPU that we know of
    assert 0.6 < device.facts.quiet_copy_gbps / device.facts.peak_bandwidth_gbps < 1.0
