"""What timing relies on, of whatever implements `Device`: tried on the simulated one in CI, on the real one in tests/gpu."""

from __future__ import annotations

import pytest
import torch

from warpgrade.judge.speed.device import Device, DoesNotFit


def numbers_are_the_same_for_the_same_seed(device: Device) -> None:
    block = device.block(4 * 10_000).view(torch.float32)
    again = device.private(block)
    device.normal_(block, 7, 3.0, 0.5)
    device.normal_(again, 7, 3.0, 0.5)
    device.synchronize()
    assert torch.equal(block, again)
    # four standard errors
    assert float(block.mean()) == pytest.approx(3.0, abs=4 * 0.5 / 100)
    device.normal_(again, 8, 3.0, 0.5)
    device.synchronize()
    assert not torch.equal(block, again)


def half_precision_is_filled_too(device: Device) -> None:
    block = device.block(2 * 1000).view(torch.float16)
    device.normal_(block, 1, 0.0, 1.0)
    device.synchronize()
    assert float(block.float().std()) == pytest.approx(1.0, abs=0.1)


def poison_covers_a_block(device: Device) -> None:
    block = device.block(4 * 1001)
    device.poison_(block, -8323200)
    device.synchronize()
    assert bool((block.view(torch.int32) == -8323200).all())


def copies_and_gathers(device: Device) -> None:
    block = device.block(4 * 1000).view(torch.float32)
    device.normal_(block, 1, 0.0, 1.0)
    copy = device.private(block)
    device.copy_(copy, block)
    positions = device.positions(64, 1000, 5)
    found = device.gather(block, positions)
    device.synchronize()
    assert torch.equal(copy, block)
    assert torch.equal(found, block[positions])
    assert int(positions.max()) < 1000
    assert not torch.equal(positions, device.positions(64, 1000, 6))


def a_block_has_a_descriptor(device: Device) -> None:
    first, second = device.block(4096), device.block(4096)
    assert device.descriptor(first) != device.descriptor(second)


def the_clock_and_the_canary_agree(device: Device) -> None:
    device.canary_ms()
    started_s = device.now_s()
    canary_ms = device.canary_ms()
    assert 0 < canary_ms <= 1e3 * (device.now_s() - started_s)
    # a quiet copy's bandwidth, with room for a machine that is not quiet
    assert device.canary_bytes() / 1e6 / canary_ms <= 1.1 * device.facts.quiet_copy_gbps


def facts_are_plausible(device: Device) -> None:
    facts = device.facts
    assert facts.name and facts.driver
    assert 0 < facts.quiet_copy_gbps <= facts.peak_bandwidth_gbps
    assert facts.free_bytes > 0
    state = device.state()
    assert state.others_busy_percent is None or 0 <= state.others_busy_percent <= 100


def too_much_does_not_fit(device: Device) -> None:
    with pytest.raises(DoesNotFit):
        device.block(2 * device.facts.free_bytes)


def what_is_released_can_be_taken_again(device: Device) -> None:
    for _ in range(3):
        device.block(device.facts.free_bytes // 2)
        device.release()


CONTRACT = (
    numbers_are_the_same_for_the_same_seed, half_precision_is_filled_too, poison_covers_a_block, copies_and_gathers,
    a_block_has_a_descriptor, the_clock_and_the_canary_agree, facts_are_plausible, too_much_does_not_fit,
    what_is_released_can_be_taken_again,
)  # fmt: skip
