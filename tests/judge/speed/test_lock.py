"""The lock of a GPU, held and waited for by real processes. None of them sleeps: they say over pipes where they are."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from filelock import FileLock

from warpgrade.judge.speed import status as module
from warpgrade.judge.speed.lock import GpuBusy, GpuLock, GpuLockError, Mode, Ticket
from warpgrade.judge.speed.status import GpuStatus, as_json, default_folder, status, text, time_left_s

GPU = "GPU-0a1b2c3d-0000-1111-2222-333344445555"
LIMIT_S = 60.0  # until a test fails that waits for a process
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")

#: Holds the lock until its stdin has a line, and says what happens.
HOLDER = """
import json, os, sys, tempfile
from pathlib import Path
from warpgrade.judge.speed import lock

given = json.loads(sys.argv[1])
if given["uid"]:
    # What is imported on first use may lie where that user cannot read.
    with tempfile.TemporaryDirectory() as warm, lock.GpuLock("warm", Path(warm) / "up").hold(lock.Mode.SHARED, "", 1):
        pass
    os.setgroups([]); os.setgid(given["uid"]); os.setuid(given["uid"])
os.umask(given["umask"])
def say(*words): print(*words, flush=True)
gpu = lock.GpuLock(given["gpu"], Path(given["folder"]))
try:
    with gpu.hold(lock.Mode(given["mode"]), given["purpose"], given["expected_s"],
                  on_wait=lambda position, left: say("waiting", position, left)):
        say("holding")
        sys.stdin.readline()
    say("released")
except lock.GpuLockError as error:
    say("refused", error)
"""

#: Many short holds. Inside, a file of its own for all to see; alone means that no other file lies there.
HAMMER = """
import json, os, random, sys
from pathlib import Path
from warpgrade.judge.speed import lock

given = json.loads(sys.argv[1])
lock.POLL_S = 0.01
inside = Path(given["inside"])
chance = random.Random(given["seed"])
gpu = lock.GpuLock(given["gpu"], Path(given["folder"]))
for number in range(given["times"]):
    mode = lock.Mode.SHARED if chance.random() < given["shared"] else lock.Mode.EXCLUSIVE
    with gpu.hold(mode, "hammer", 0.01):
        marker = inside / ("alone" if mode is lock.Mode.EXCLUSIVE else f"shared-{os.getpid()}")
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        others = sorted(path.name for path in inside.iterdir() if path != marker)
        if mode is lock.Mode.EXCLUSIVE:
            assert not others, others
        else:
            assert "alone" not in others, others
        marker.unlink()
"""


class Holder:
    """A process that holds the lock, or waits for it."""

    def __init__(self, folder: Path, mode: Mode, purpose: str = "timing relu", **changes: Any) -> None:
        given = {"gpu": GPU, "folder": str(folder), "mode": mode, "purpose": purpose, "expected_s": 30.0, "uid": 0}
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", HOLDER, json.dumps(given | {"umask": 0o077} | changes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put("ended")

    def says(self) -> str:
        """The next line."""
        return self._lines.get(timeout=LIMIT_S)

    def holds(self) -> list[str]:
        """Wait until it holds; what it said before."""
        before = []
        while (line := self.says()) != "holding":
            assert line.startswith("waiting"), line
            before.append(line)
        return before

    def waits(self) -> str:
        line = self.says()
        assert line.startswith("waiting"), line
        return line

    def release(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        while (line := self.says()) != "released":
            assert line.startswith("waiting"), line

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Holder]]:
    started: list[Holder] = []

    def run(*arguments: Any, at: Path = folder, **changes: Any) -> Holder:
        started.append(Holder(at, *arguments, **changes))
        return started[-1]

    yield run
    for holder in started:
        holder.kill()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A place that other users reach: pytest's own folders are for its user alone."""
    place = Path(tempfile.mkdtemp(prefix="warpgrade-test-"))
    place.chmod(0o777 | stat.S_ISVTX)
    yield place
    shutil.rmtree(place)


def held(gpu: GpuLock, mode: Mode = Mode.EXCLUSIVE, **changes: Any) -> Any:
    return gpu.hold(mode, "ours", 1.0, **changes)


def free(gpu: GpuLock) -> bool:
    try:
        with held(gpu, timeout_s=0):
            return True
    except GpuBusy:
        return False


def planted(folder: Path, content: bytes, number: int = 1) -> Path:
    """A ticket file written by somebody else; the folders are made as the lock makes them."""
    with held(GpuLock(GPU, folder)):
        pass
    path = folder / GPU / f"{number:09}.json"
    path.write_bytes(content)
    return path


@contextlib.contextmanager
def alive(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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


def ticket(mode: Mode, expected_s: float | None, held_since_s: float | None = None) -> Ticket:
    return Ticket(1, 1000, "p", mode, 100.0, held_since_s, expected_s)


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


# What others have written.

FIELDS = {
    "pid": 7, "uid": 0, "purpose": "p", "mode": "shared", "created_s": 1.0, "held_since_s": 1.0, "expected_s": 1.0
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe\x00", b"null", b"[]", b"[" * 4000, b'{"pid": 1}', b"\0" * 100,
        b" " * (10 * 1024**2), b'{"purpose": "' + b"x" * (10 * 1024**2) + b'"}',
        json.dumps(FIELDS).encode() + b" " * 4096,
    ],
)  # fmt: skip
def test_what_is_no_ticket_but_alive_excludes_everybody_and_breaks_nothing(content: bytes, folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    path = planted(folder, content)
    with alive(path):
        (seen,) = gpu.tickets()
        assert (seen.mode, seen.uid, seen.pid, seen.expected_s) == (Mode.EXCLUSIVE, os.geteuid(), 0, None)
        assert seen.held_since_s is not None
        with pytest.raises(GpuBusy, match="cannot be read"), held(gpu, Mode.SHARED, timeout_s=0):
            pass
        assert "cannot be read" in text(status(folder))
    assert free(gpu), "whoever wrote it is gone"
    assert not path.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1}, {"pid": -1}, {"pid": "7"}, {"pid": 1e300}, {"pid": 10**30}, {"mode": "all"}, {"purpose": "x" * 121},
        {"purpose": 5}, {"expected_s": -1.0}, {"expected_s": 1e300}, {"created_s": 1e300}, {"held_since_s": -1e9},
    ],
)  # fmt: skip
def test_a_ticket_that_says_too_much_is_no_ticket(changes: dict[str, Any], folder: Path) -> None:
    path = planted(folder, json.dumps(FIELDS | changes).encode())
    with alive(path):
        (seen,) = GpuLock(GPU, folder).tickets()
        assert (seen.mode, seen.pid) == (Mode.EXCLUSIVE, 0)


def test_random_bytes_never_break_a_reader(folder: Path) -> None:
    good = json.dumps(FIELDS).encode()
    path, chance = planted(folder, good), random.Random(1)
    with alive(path):
        for _ in range(200):
            mangled = bytearray(good)
            for _ in range(chance.randint(1, 5)):
                mangled[chance.randrange(len(mangled))] = chance.randrange(256)
            path.write_bytes(mangled[: chance.randint(0, len(mangled))] if chance.random() < 0.5 else mangled)
            (seen,) = GpuLock(GPU, folder).tickets()
            assert seen.purpose.isprintable()
            text(status(folder))


def test_the_uid_is_the_file_owners_whatever_it_says(folder: Path) -> None:
    path = planted(folder, json.dumps(FIELDS | {"uid": 4242}).encode())
    with alive(path):
        assert GpuLock(GPU, folder).tickets()[0].uid == os.geteuid()


def test_a_purpose_cannot_paint_on_a_terminal(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    hostile = "\x1b[2J\x1b]0;owned\x07\r\nGPU-1: free\u202e"
    path = planted(folder, json.dumps(FIELDS | {"purpose": hostile}).encode())
    with alive(path):
        assert gpu.tickets()[0].purpose.isprintable()
        assert len(text(status(folder)).splitlines()) == 1
        assert "\x1b" not in text(status(folder))
        with pytest.raises(GpuBusy) as caught, held(gpu, timeout_s=0):
            pass
        assert str(caught.value).isprintable()
    with gpu.hold(Mode.SHARED, hostile + "x" * (10 * 1024**2), 1.0) as own:
        assert own.purpose.isprintable()
        assert len(own.purpose) == 120
        assert gpu.tickets() == [own]


def test_other_things_with_a_tickets_name_are_no_tickets(folder: Path, tmp_path: Path) -> None:
    planted(folder, b"").unlink()
    secret = tmp_path / "secret"
    secret.write_text("untouched")
    (folder / GPU / "000000001.json").symlink_to(secret)
    (folder / GPU / "000000002.json").mkdir()
    os.mkfifo(folder / GPU / "000000003.json")
    (folder / GPU / "000000004.json.bak").write_text("x")
    (folder / GPU / "4.json").write_text("x")
    with alive(secret):
        assert free(GpuLock(GPU, folder))
    assert secret.read_text() == "untouched"


def test_a_number_that_is_taken_is_passed_over_and_the_last_one_is_refused(folder: Path) -> None:
    gpu = GpuLock(GPU, folder)
    planted(folder, b"").unlink()
    (folder / GPU / "000000001.json").mkdir()
    with held(gpu), held(GpuLock("GPU-2", folder)):
        assert [path.name for path in (folder / GPU).glob("*2.json")] == ["000000002.json"]
    with alive(planted(folder, b"", 999_999_999)), pytest.raises(GpuLockError, match="999999999"), held(gpu):
        pass


def test_what_a_process_killed_while_queueing_left_is_removed(folder: Path) -> None:
    planted(folder, b"").unlink()
    (folder / GPU / ".new-77-abc").write_text("half a tick")
    assert free(GpuLock(GPU, folder))
    assert [path.name for path in (folder / GPU).iterdir()] == ["mutex"]


# The folder.


@pytest.mark.parametrize("uuid", ["", "..", "a/b", "/", "GPU 1", "GPU-1\n", "x" * 65, "GPU-é", "\0"])
def test_a_uuid_that_is_none(uuid: str, folder: Path) -> None:
    with pytest.raises(GpuLockError, match="UUID"):
        GpuLock(uuid, folder)


@pytest.mark.parametrize("expected_s", [-1.0, float("nan"), float("inf")])
def test_a_time_that_is_none(expected_s: float, folder: Path) -> None:
    with pytest.raises(ValueError, match="expected_s"), GpuLock(GPU, folder).hold(Mode.SHARED, "p", expected_s):
        pass
    assert not folder.exists()


def refused(folder: Path, part: str) -> None:
    with pytest.raises(GpuLockError, match=part) as caught, held(GpuLock(GPU, folder)):
        pass
    assert str(folder) in str(caught.value)
    assert "WARPGRADE_GPU_LOCKS" in str(caught.value)
    with pytest.raises(GpuLockError, match=part):
        GpuLock(GPU, folder).tickets()


def test_a_folder_that_is_a_link_or_a_file(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    folder.symlink_to(target)
    refused(folder, "symbolic link")
    assert list(target.iterdir()) == []
    folder.unlink()
    folder.symlink_to(tmp_path / "nowhere")
    refused(folder, "symbolic link")
    folder.unlink()
    folder.write_text("")
    refused(folder, "no folder")


def test_a_gpus_folder_that_is_a_link(folder: Path, tmp_path: Path) -> None:
    assert free(GpuLock("GPU-other", folder))
    target = tmp_path / "target"
    target.mkdir()
    (folder / GPU).symlink_to(target)
    refused(folder, "symbolic link")
    assert list(target.iterdir()) == []
    assert [bool(each.problem) for each in status(folder)] == [True, False]


def test_a_folder_in_which_anybody_can_remove_anything(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    refused(folder, "chmod")
    folder.chmod(0o700)
    assert free(GpuLock(GPU, folder)), "a private one serves one user"


def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    with pytest.raises(GpuLockError, match="WARPGRADE_GPU_LOCKS"), held(GpuLock(GPU, folder / "of" / "none")):
        pass


def test_its_modes_let_everybody_in_and_nobody_remove_what_is_anothers(folder: Path) -> None:
    old = os.umask(0o077)
    try:
        with held(GpuLock(GPU, folder)):
            modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}
    finally:
        os.umask(old)
    # The sticky bit of a file tells systemd-tmpfiles to leave it.
    assert modes == {"locks": 0o1777, "README.txt": 0o1644, GPU: 0o1777, "mutex": 0o1666, "000000001.json": 0o644}
    assert [path.name for path in folder.parent.iterdir()] == ["locks"], "nothing else is left"


def test_where_it_is_by_default(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delenv("WARPGRADE_GPU_LOCKS", raising=False)
    assert default_folder() == Path("/tmp/warpgrade-gpu-locks")
    monkeypatch.setenv("WARPGRADE_GPU_LOCKS", str(folder))
    assert free(GpuLock(GPU))
    assert (folder / GPU / "mutex").exists()


# Several users.


@only_root
@pytest.mark.parametrize("maker", [0, 54321])
def test_users_share_a_queue(maker: int, open_to_all: Path, start: Callable[..., Holder]) -> None:
    folder = open_to_all / "locks"
    first = start(Mode.EXCLUSIVE, "made it", at=folder, uid=maker)
    first.holds()
    assert (folder / GPU).stat().st_uid == maker
    second = start(Mode.EXCLUSIVE, "somebody else", at=folder, uid=54322)
    second.waits()
    third = start(Mode.SHARED, "and root", at=folder)
    third.waits()
    assert [(t.uid, t.purpose) for t in GpuLock(GPU, folder).tickets()] == [
        (maker, "made it"), (54322, "somebody else"), (0, "and root"),
    ]  # fmt: skip
    first.kill()
    second.holds()
    second.kill()
    third.holds()
    last = start(Mode.SHARED, "beside root", at=folder, uid=54323)
    last.holds()
    third.kill()
    last.release()


@only_root
def test_what_a_killed_process_of_root_left_does_not_stop_a_user(
    open_to_all: Path, start: Callable[..., Holder]
) -> None:
    folder = open_to_all / "locks"
    first = start(Mode.EXCLUSIVE, at=folder)
    first.holds()
    first.kill()
    (left,) = (folder / GPU).glob("*.json")
    user = start(Mode.EXCLUSIVE, at=folder, uid=54321)
    user.holds()
    assert left.exists(), "a user may not remove it"
    assert [ticket.uid for ticket in GpuLock(GPU, folder).tickets()] == [54321]
    assert not left.exists(), "root may"


@only_root
def test_a_ticket_that_may_not_be_opened_counts_as_alive(open_to_all: Path, start: Callable[..., Holder]) -> None:
    folder = open_to_all / "locks"
    planted(folder, b"").chmod(0)
    user = start(Mode.SHARED, at=folder, uid=54321)
    assert user.waits() == "waiting 1 None"
    assert GpuLock(GPU, folder).tickets()[-1].uid == 54321, "root sees that it is dead, and removes it"
    user.holds()


@only_root
def test_a_folder_of_anothers_that_is_not_for_all_is_refused(open_to_all: Path, start: Callable[..., Holder]) -> None:
    folder = open_to_all / "locks"
    folder.mkdir(mode=0o755)
    os.chown(folder, 54321, 54321)
    refused(folder, "uid 54321")
    line = start(Mode.SHARED, at=folder, uid=54322).says()
    assert line.startswith("refused")


# What `warpgrade gpu` shows.


def test_the_status_of_all_gpus(folder: Path, start: Callable[..., Holder]) -> None:
    assert status(folder) == []
    assert str(folder) in text([], folder)
    assert free(GpuLock("GPU-1", folder))
    holder = start(Mode.EXCLUSIVE, "timing relu for grader", gpu="GPU-2")
    holder.holds()
    for _ in range(3):
        start(Mode.SHARED, gpu="GPU-2").waits()
    statuses = status(folder)
    assert [(each.gpu, len(each.tickets)) for each in statuses] == [("GPU-1", 0), ("GPU-2", 4)]
    assert statuses[1].tickets[0].pid == holder.process.pid
    assert msgspec.json.decode(as_json(statuses), type=list[GpuStatus]) == statuses


def test_the_text_of_a_status() -> None:
    def line(*tickets: Ticket) -> str:
        return text([GpuStatus("GPU-1234", list(tickets))], now_s=200.0)

    alone = Ticket(7, 1001, "timing relu for grader", Mode.EXCLUSIVE, 100.0, 198.0, 4.0)
    waiting = ticket(Mode.SHARED, 1.0)
    assert line() == "GPU-1234: free"
    assert line(alone) == "GPU-1234: timing relu for grader (uid 1001), about 2 s left; nobody waiting"
    assert line(alone, waiting, waiting, waiting).endswith("(uid 1001), about 2 s left; 3 waiting")
    late = msgspec.structs.replace(alone, held_since_s=100.0)
    assert "held for 100 s, expected 4 s" in line(late)
    several = [msgspec.structs.replace(ticket(Mode.SHARED, 9.0, 199.0), purpose=str(number)) for number in range(5)]
    assert line(*several) == (
        "GPU-1234: 0 (uid 1000), about 8 s left, 1 (uid 1000), about 8 s left, 2 (uid 1000), about 8 s left "
        "and 2 more; nobody waiting"
    )
    assert line(waiting) == "GPU-1234: nobody yet; 1 waiting"
    assert text([GpuStatus("GPU-1", [], "it is broken")]) == "GPU-1: not known: it is broken"
