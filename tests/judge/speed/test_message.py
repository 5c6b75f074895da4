"""One timed message: what is in it, what it leaves behind, and what of the answers is believed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from tests.judge.speed import runners
from warpgrade.judge.failure import Failure
from warpgrade.judge.speed.message import TimedMessage, _poison_word
from warpgrade.judge.speed.simulated import SimulatedDevice
from warpgrade.judge.speed.workload import Operand, Workload, sized
from warpgrade.wire.tensors import view

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


@pytest.fixture
def device():
    return SimulatedDevice()


@pytest.fixture
def message(device):
    return TimedMessage(device, *sized(device.facts, runners.add_at), drawn=random.Random(0))


def seen_by(message, device, samples=2):
    """All that a Runner finds in its inputs, sample by sample, in the order in which it is asked."""
    found = []

    def look(runner, launches):
        found.append([[tensor.clone() for tensor in runner.inputs(launch)] for launch in launches])
        found[-1].append([launch.outputs["z"].offset_bytes for launch in launches])
        runners.honest(runner, launches)

    runner = runners.Running(device, message, look)
    for _ in range(samples):
        message.sample(runner, checked=True)
    return found


def test_no_operand_is_met_twice(message, device):
    one, other = seen_by(message, device)
    tensors = [tensor for sample in (one, other) for launch in sample[:-1] for tensor in launch]
    assert len({float(tensor[:64].double().sum()) for tensor in tensors}) == len(tensors) == 2 * 4 * 2


def test_launches_come_in_an_order_that_nobody_foresees(message, device):
    orders = [tuple(sample[-1]) for sample in seen_by(message, device, samples=6)]
    assert len(set(orders)) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_inputs_have_the_declared_mean_and_spread(device):
    workload = Workload(
        "f", {"x": Operand((40_000,), torch.float32, 3.0, 0.5)}, {"z": Operand((40_000,))}, 320_000,
        lambda z, x: None, grid=(1,), divided=frozenset({"x", "z"}),
    )  # fmt: skip
    message = TimedMessage(device, workload, 1)
    seen = []

    def look(runner, launches):
        seen.append(view(message.inputs, launches[0].inputs["x"]).clone())
        view(message.outputs, launches[0].outputs["z"]).zero_()

    message.sample(runners.Running(device, message, look), checked=True)
    # four standard errors: 0.5 / sqrt(40,000), and that over sqrt(2)
    assert seen[0].mean() == pytest.approx(3.0, abs=4 * 0.5 / 200)
    assert seen[0].std() == pytest.approx(0.5, abs=4 * 0.5 / 283)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_never_written_are_found_whatever_the_dtype(device, dtype):
    workload = Workload(
        "f", {"x": Operand((4096,), dtype)}, {"z": Operand((4096,), dtype)}, 8192 * dtype.itemsize,
        lambda z, x: None, grid=(1,), divided=frozenset({"x", "z"}),
    )  # fmt: skip
    message = TimedMessage(device, workload, 2)

    def all_but_one(runner, launches):
        for launch in launches:
            view(message.outputs, launch.outputs["z"])[:-1].zero_()

    with pytest.raises(Failure) as raised:
        message.sample(runners.Running(device, message, all_but_one), checked=True)
    assert raised.value.evidence["unwritten"] == "1 of 4096"


def test_poison_differs_from_sample_to_sample(message, device):
    words = set()

    def look(runner, launches):
        words.add(int(message.outputs.view(torch.int32)[0]))
        runners.honest(runner, launches)

    runner = runners.Running(device, message, look)
    for _ in range(12):
        message.sample(runner, checked=True)
    assert len(words) > 1


def test_pieces_of_every_sample_are_checked_and_now_and_then_all_of_it(message, device, monkeypatch):
    checked = []

    def check(z, x, y):
        assert torch.equal(z, x + y)
        checked.append((z.data_ptr(), len(z)))

    monkeypatch.setattr(message, "workload", replace(message.workload, check=check))
    runner = runners.Running(device, message, runners.honest)
    whole = sum(message.sample(runner, checked=True).verified for _ in range(60))
    # binomial: 6 with a standard deviation of 2.3
    assert 1 <= whole <= 14
    n = message.workload.inputs["x"].elements
    pieces = [start for start, length in checked if length == -(-n // 64)]
    assert len(pieces) == (60 - whole) * 2 * 4
    assert len(set(pieces)) > 0.9 * len(pieces), "each at another place"
    covered = {start: length for start, length in checked if length != -(-n // 64)}
    assert len(checked) - len(pieces) == whole * len(covered)
    assert sum(covered.values()) == 4 * n


def test_the_first_can_be_asked_for(message, device):
    runner = runners.Running(device, message, runners.honest)
    assert all(message.sample(runner, checked=True, verified=True).verified for _ in range(5))


def test_a_check_sees_every_row_once_and_all_operands_alike(device, monkeypatch):
    monkeypatch.setattr("warpgrade.judge.speed.message._TEMPORARY_SHARE", 100 * 8 / device.facts.free_bytes)
    seen = []

    def check(z, x):
        seen.append((len(z), x.shape))
        assert torch.equal(z, x.sum(1))

    workload = Workload(
        "f", {"x": Operand((37, 11))}, {"z": Operand((37,))}, 1, check, grid=(1,), divided=frozenset({"x", "z"})
    )
    message = TimedMessage(device, workload, 1)

    def behave(runner, launches):
        for launch in launches:
            x = view(message.inputs, launch.inputs["x"])
            view(message.outputs, launch.outputs["z"]).copy_(x.sum(1))

    message.sample(runners.Running(device, message, behave), checked=True, verified=True)
    assert [rows for rows, _ in seen] == [9, 9, 9, 9, 1]
    assert all(shape == (rows, 11) for rows, shape in seen)


def test_poison_is_no_nan_that_arithmetic_makes():
    """0x7FC0 is x86's NaN in bfloat16, 0x7FFF a GPU's in 16 bits (PTX ISA, "half precision"): honest results."""
    drawn = random.Random(0)
    halves = {_poison_word(drawn) & 0xFFFF for _ in range(4000)}
    assert not halves & {0x7FC0, 0xFFC0, 0x7FFF, 0xFFFF}
    assert len(halves) > 200
    for half in halves:
        bits = torch.tensor([half - (1 << 16 if half >> 15 else 0)], dtype=torch.int16)
        assert bits.view(torch.float16).isnan() and bits.view(torch.bfloat16).isnan()


def test_what_the_student_reads_has_no_pattern_of_a_piece(message, device):
    with pytest.raises(Failure) as raised:
        message.sample(runners.Running(device, message, runners.zeros_at_the_end), checked=True, verified=True)
    assert (raised.value.sentence, raised.value.pattern) == (
        "While it was timed, on large inputs, the result was wrong.",
        "",
    )
    assert "of a piece" in raised.value.evidence


def test_positions_differ_from_launch_to_launch(message):
    first, second, *_ = message._positions()
    assert not torch.equal(first, second)
