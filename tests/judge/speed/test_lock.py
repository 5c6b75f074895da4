"""The lock of a GPU: who may hold it and who waits, by real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.judge.speed.lock_holders import GPU, HAMMER, LIMIT_S, Holder, free, held, ticket
from warpgrade.judge.speed import status as module
from warpgrade.judge.speed.lock import GpuBusy, GpuLock, GpuLockError, Mode, Ticket
from warpgrade.judge.speed.status import status, time_left_s

# Who may hold it.


def test_it_is_free_then_held_then_free(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    assert gpu.tickets() == []
    assert not folder.exists(), "a look makes nothing"
    before = time.time()
    with gpu.hold(Mode.EXCLUSIVE, "timing relu", 2.5) as ticket:
        (seen,) = gpu.tickets()
        assert seen == ticket
        assert (seen.pid, seen.uid, seen.purpose, seen.mode) == (os.getpid(), os.geteuid(), "timing relu", "exclusive")
        assert seen.expected_s == 2.5
        assert seen.held_since_s is not None
        assert before <= seen.created_s <= seen.held_since_s <= time.time()
    assert gpu.tickets() == []
    assert [path.name for path in (folder / GPU).iterdir()] == ["mutex"]


def test_two_share_and_one_alone_waits_for_both(folder: Path, start: Callable[..., Holder]) -> None:
    first, second = start(Mode.SHARED), start(Mode.SHARED)
    assert first.holds() == second.holds() == []
    alone = start(Mode.EXCLUSIVE)
    alone.waits()
    first.release()
    assert [ticket.mode for ticket in GpuLock(GPU, folder).tickets()] == [Mode.SHARED, Mode.EXCLUSIVE]
    second.release()
    alone.holds()
    assert not free(GpuLock(GPU, folder))


def test_first_come_first_served_a_reader_does_not_overtake_a_waiting_writer(
    folder: Path, start: Callable[..., Holder]
) -> None:
    reader = start(Mode.SHARED, "one")
    reader.holds()
    writer = start(Mode.EXCLUSIVE, "two")
    writer.waits()
    late = start(Mode.SHARED, "three")
    late.waits()
    reader.release()
    writer.holds()
    assert [(t.purpose, t.held_since_s is not None) for t in GpuLock(GPU, folder).tickets()] == [
        ("two", True), ("three", False),
    ]  # fmt: skip
    writer.release()
    late.holds()


@pytest.mark.parametrize("mode", Mode)
def test_a_killed_holder_frees_it(mode: Mode, folder: Path, start: Callable[..., Holder]) -> None:
    holder = start(mode)
    holder.holds()
    waiter = start(Mode.EXCLUSIVE)
    waiter.waits()
    holder.kill()
    waiter.holds()
    assert [ticket.pid for ticket in GpuLock(GPU, folder).tickets()] == [waiter.process.pid]
    assert len(list((folder / GPU).glob("*.json"))) == 1, "what it left is removed"


def test_one_killed_while_it_waits_leaves_the_queue(folder: Path, start: Callable[..., Holder]) -> None:
    holder = start(Mode.SHARED)
    holder.holds()
    writer, late = start(Mode.EXCLUSIVE), start(Mode.SHARED)
    writer.waits()
    # `late` came before or after the writer; the GPU is its own as soon as the writer is gone.
    writer.kill()
    late.holds()
    assert holder.process.poll() is None


def test_two_gpus_do_not_wait_for_each_other(folder: Path) -> None:
    with held(GpuLock("GPU-1", folder)), held(GpuLock("GPU-2", folder), timeout_s=0):
        pass


def test_threads_of_one_process_exclude_each_other(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    results: list[bool] = []
    with held(gpu):
        thread = threading.Thread(target=lambda: results.append(free(gpu)))
        thread.start()
        thread.join(LIMIT_S)
    assert results == [False]
    assert free(gpu)


def test_an_exception_inside_or_while_waiting_frees_it(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    with pytest.raises(ZeroDivisionError), held(gpu):
        _ = 1 / 0

    def interrupted(position: int, left: float | None) -> None:
        raise KeyboardInterrupt

    with held(gpu):
        with pytest.raises(KeyboardInterrupt), held(gpu, on_wait=interrupted):
            raise AssertionError("it is held")
        assert len(gpu.tickets()) == 1
    assert free(gpu)


def test_a_forked_child_that_leaves_the_block_does_not_free_its_parents_lock(folder: Path) -> None:
    gpu, parent = GpuLock(GPU, folder), os.getpid()
    try:
        with held(gpu):
            child = os.fork()
            if child == 0:
                raise SystemExit
            assert os.waitpid(child, 0)[1] == 0
            assert len(gpu.tickets()) == 1
    finally:
        if os.getpid() != parent:
            os._exit(0)


def test_a_program_started_while_holding_inherits_nothing_that_keeps_it_alive(folder: Path) -> None:
    with held(GpuLock(GPU, folder)), subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as program:
        open_there = [str(path.readlink()) for path in Path(f"/proc/{program.pid}/fd").iterdir()]
        assert open_there
        assert not [path for path in open_there if path.startswith(str(folder))]


@pytest.mark.parametrize("shared", [0.0, 0.6])
def test_many_processes_and_never_anyone_beside_one_who_is_alone(shared: float, folder: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    given = {"gpu": GPU, "folder": str(folder), "inside": str(inside), "times": 20, "shared": shared}
    processes = [
        subprocess.Popen([sys.executable, "-B", "-c", HAMMER, json.dumps(given | {"seed": seed})]) for seed in range(8)
    ]
    try:
        assert [process.wait(2 * LIMIT_S) for process in processes] == [0] * 8
    finally:
        for process in processes:
            process.kill()
    assert list(inside.iterdir()) == []
    assert [path.name for path in (folder / GPU).iterdir()] == ["mutex"]


# What is said about it.


def test_position_and_time_left_are_told(start: Callable[..., Holder]) -> None:
    holder = start(Mode.EXCLUSIVE, expected_s=1000.0)
    holder.holds()
    second = start(Mode.SHARED, expected_s=100.0)
    _, position, left = second.waits().split()
    assert position == "1"
    assert 900 < float(left) <= 1000
    third = start(Mode.EXCLUSIVE)
    _, position, left = third.waits().split()
    assert position == "2"
    assert 1000 < float(left) <= 1100
    holder.release()
    second.holds()
    while (line := third.waits()).split()[1] != "1":
        pass
    assert 0 < float(line.split()[2]) <= 100


@pytest.mark.parametrize(
    ("ahead", "left"),
    [
        ([], 0.0),
        ([ticket(Mode.EXCLUSIVE, 10.0, 196.0)], 6.0),
        ([ticket(Mode.EXCLUSIVE, 10.0, 100.0)], 0.0),  # late: it may end at any moment
        ([ticket(Mode.EXCLUSIVE, 10.0, 1e9)], 10.0),  # a clock that was set back
        ([ticket(Mode.SHARED, 10.0, 196.0), ticket(Mode.SHARED, 20.0, 196.0)], 16.0),  # side by side
        ([ticket(Mode.SHARED, 10.0, 196.0), ticket(Mode.EXCLUSIVE, 3.0), ticket(Mode.SHARED, 2.0)], 11.0),
        ([ticket(Mode.EXCLUSIVE, None, 100.0)], None),
    ],
)
def test_time_left(ahead: list[Ticket], left: float | None) -> None:
    assert time_left_s(ahead, now_s=200.0) == left


def test_too_long_a_wait_names_who_holds_it_and_what_next(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    with gpu.hold(Mode.EXCLUSIVE, "timing relu", 500.0):
        with pytest.raises(GpuBusy) as caught, held(gpu, Mode.SHARED, timeout_s=0.01):
            pass
        assert len(gpu.tickets()) == 1, "who gave up is not in the queue"
    message = str(caught.value)
    for part in (GPU, "timing relu", f"uid {os.geteuid()}", f"pid {os.getpid()}", "about 500 s left", "warpgrade gpu"):
        assert part in message
    assert "\n" not in message


def test_a_stuck_mutex_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free(GpuLock(GPU, folder))
    monkeypatch.setattr(module, "MUTEX_LIMIT_S", 0.05)
    mutex = folder / GPU / "mutex"
    with FileLock(mutex):
        with pytest.raises(GpuLockError, match=str(mutex)) as caught, held(GpuLock(GPU, folder)):
            pass
        with pytest.raises(GpuLockError, match=str(mutex)):
            GpuLock(GPU, folder).tickets()
        assert "fuser" in str(caught.value)
        assert not isinstance(caught.value, GpuBusy)
        (only,) = status(folder)
        assert only.tickets == []
        assert str(mutex) in only.problem


def test_a_ticket_that_was_removed_is_noticed(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    with pytest.raises(GpuLockError, match="removed"), held(gpu):
        next((folder / GPU).glob("*.json")).unlink()
    with pytest.raises(ZeroDivisionError), held(gpu):
        next((folder / GPU).glob("*.json")).unlink()
        _ = 1 / 0

    def removes(position: int, left: float | None) -> None:
        max((folder / GPU).glob("*.json")).unlink()

    with held(gpu), pytest.raises(GpuLockError, match="removed"), held(gpu, on_wait=removes):
        pass
