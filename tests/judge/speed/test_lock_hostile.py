"""The lock of a GPU among others: what they write, where it lies, several users, and what anybody may look at."""

from __future__ import annotations

import json
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.judge.speed.lock_holders import GPU, Holder, alive, free, held, only_root, planted, ticket
from warpgrade.judge.speed.lock import GpuBusy, GpuLock, GpuLockError, Mode, Ticket
from warpgrade.judge.speed.status import GpuStatus, as_json, default_folder, status, text

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
