"""Who is started when, and what is held meanwhile: with Workers that are played and a simulated GPU."""

from __future__ import annotations

import contextlib
import socket

import pytest

from tests.judge.speed import runners
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.judge.speed.lock import GpuBusy, GpuLock, Mode
from warpgrade.judge.speed.message import TimedMessage
from warpgrade.judge.speed.simulated import SimulatedDevice
from warpgrade.judge.speed.timing import SandboxedTiming
from warpgrade.judge.speed.workload import sized
from warpgrade.wire import PeerClosed
from warpgrade.wire.messages import Load, Loaded, Move, Ran, Ready, Run, Share, Shared, Unsafe

ANSWERS = {Load: Loaded([]), Share: Shared(), Move: Ran(), Run: Ran()}


@pytest.fixture
def stage(tiny, notebook, workers, tmp_path):
    """A timing whose Workers answer everything, and what each of them was asked, in the order of their starts."""
    asked, device = [], SimulatedDevice()
    lock = GpuLock(device.facts.uuid, tmp_path / "locks")
    ready = [Ready()]

    def play(sock: socket.socket) -> None:
        mine = []
        asked.append(mine)
        player = workers.Player(sock)
        player.say(ready[0])
        with contextlib.suppress(PeerClosed):
            while True:
                message, _ = player.hear()
                mine.append(type(message))
                player.say(ANSWERS[type(message)])

    sandbox = FakeSandbox(play)
    timing = SandboxedTiming(device, tiny.exercise(), notebook("def double(x): return x"), sandbox, [], lock)
    timing.asked, timing.lock, timing.ready, timing.sandbox = asked, lock, ready, sandbox
    yield timing
    device.release()


def message_of(timing):
    return TimedMessage(timing.device, *sized(timing.device.facts, runners.add_at))


def test_the_gpu_is_held_for_nobody_else(stage):
    with stage.alone("timing double"):
        (ticket,) = stage.lock.tickets()
        assert (ticket.mode, ticket.purpose) == (Mode.EXCLUSIVE, "timing double")
    assert stage.lock.tickets() == []


def test_workers_are_ready_before_it_is_asked_for_and_know_nothing_of_the_submission(stage, monkeypatch):
    seen = []

    def hold(*arguments):
        seen.append(
            [(remote.was_ready, list(asked)) for remote, asked in zip(stage._ready.values(), stage.asked, strict=True)]
        )
        raise GpuBusy("somebody has it")

    monkeypatch.setattr(stage.lock, "hold", hold)
    with pytest.raises(GpuBusy), stage.alone("timing double"):
        pytest.fail("held")
    assert seen == [[(True, [])] * 3]
    assert stage._ready == {}, "and they are ended"


def test_each_role_is_asked_for_what_it_is_there_for(stage):
    with stage.alone("timing double"):
        message = message_of(stage)
        for role in ("noop", "baseline", "candidate"):
            runner = stage.start(role, message, "copy")
            runner.run(message.launches)
        assert stage.asked == [[Move], [Move], [Load, Share, Run]]


def test_another_baseline_is_the_courses_mistake(stage):
    with stage.alone("timing double"), pytest.raises(ValueError, match="softmax"):
        stage.start("baseline", message_of(stage), "softmax")


def test_where_no_worker_starts_nothing_is_held(stage):
    stage.ready[0] = Unsafe(["it is not tight"])
    with pytest.raises(SandboxUnavailable), stage.alone("timing double"):
        pytest.fail("held")
    assert stage.lock.tickets() == []


def test_a_second_attempt_has_workers_of_its_own(stage):
    for _ in range(2):
        with stage.alone("timing double"):
            pass
    assert stage.sandbox.started == 6
