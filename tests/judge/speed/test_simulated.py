"""The shipped fake keeps the contract of a device, and its clock the laws of one."""

from __future__ import annotations

import pytest

from tests.judge.speed.device_contract import CONTRACT
from warpgrade.judge.speed.device import DeviceLost
from warpgrade.judge.speed.simulated import SWITCH_S, SimulatedDevice


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda function: function.__name__)
def test_it_keeps_the_contract(holds):
    device = SimulatedDevice()
    try:
        holds(device)
    finally:
        device.release()


def quiet():
    return SimulatedDevice(noise=0.0)


def test_one_process_works_in_order():
    device, done = quiet(), []
    device.work("a", 1.0, lambda: done.append(1))
    device.work("a", 1.0, lambda: done.append(2))
    device.pass_s(1.5)
    assert done == [1]
    device.wait_for("a")
    assert done == [1, 2]
    assert device.now_s() == pytest.approx(2.0 + SWITCH_S)


@pytest.mark.parametrize(("first_s", "second_s"), [(1.0, 1.0), (1.0, 3.0), (3.0, 1.0)])
def test_two_processes_at_once_gain_nothing(first_s, second_s):
    """Time slices: all is done when one after the other would be done; the shorter one takes twice its time."""
    device = quiet()
    device.work("a", first_s)
    device.work("b", second_s)
    short, long = ("a", "b") if first_s < second_s else ("b", "a")
    device.wait_for(short)
    assert device.now_s() == pytest.approx(2 * min(first_s, second_s), rel=0.001)
    device.wait_for(long)
    assert device.now_s() == pytest.approx(first_s + second_s, rel=0.001)


def test_work_of_a_process_that_ended_does_not_happen():
    device, done = quiet(), []
    device.work("a", 1.0, lambda: done.append(1))
    device.end("a")
    device.pass_s(5.0)
    assert done == []


def test_after_it_has_vanished_everything_says_so():
    device = SimulatedDevice(vanishes_s=1.0)
    block = device.block(16)
    with pytest.raises(DeviceLost):
        device.pass_s(2.0)
    for use in (lambda: device.block(16), lambda: device.private(block), device.canary_ms, device.state):
        with pytest.raises(DeviceLost):
            use()
