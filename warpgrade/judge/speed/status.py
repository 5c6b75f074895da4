"""Who holds which GPU, and who waits: anybody may look. `lock.py` says what the files mean, and takes the lock.

What others wrote is read as hostile: it can make us wait, which anybody can, but not crash, follow a link, or paint on
a terminal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import math
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import filelock
import msgspec

from warpgrade.report.printable import one_line

VARIABLE = "WARPGRADE_GPU_LOCKS"
ELSEWHERE = f"name another folder in the environment variable {VARIABLE}."
#: The mutex is held for about a millisecond; this is for a machine that is very busy.
MUTEX_LIMIT_S = 10.0
MAX_PURPOSE = 120
MAX_EXPECTED_S = 86_400.0
#: Names of what is being made, and has no name yet.
NEW = ".new-"
#: A folder's mode: everybody may put files there, and nobody remove those of others.
OPEN_TO_ALL = 0o777 | stat.S_ISVTX
_MAX_TICKET_BYTES = 4096
_UUID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_TICKET = re.compile(r"[0-9]{9}\.json", re.ASCII)


class GpuLockError(Exception):
    """The lock cannot be had, or does not work as it should. No student's fault. The text says what to do next."""


class Mode(StrEnum):
    """Whether others may use the GPU meanwhile."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


_Time = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One who holds a GPU or waits for it. `created_s` and `held_since_s` are seconds since the epoch.

    Only `uid` is sure (it is the file's owner); the rest is what its owner says. `pid` is 0 where that cannot be read.
    """

    pid: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    uid: int
    purpose: Annotated[str, msgspec.Meta(max_length=MAX_PURPOSE)]
    mode: Mode
    created_s: _Time
    #: None while it waits.
    held_since_s: _Time | None
    #: For how many seconds it means to hold; None where nobody knows.
    expected_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_EXPECTED_S)] | None

    def left_s(self, now_s: float) -> float | None:
        """How many seconds of holding are before it, by its own word: 0 for one that is late; None: not known."""
        if self.expected_s is None or self.held_since_s is None:
            return self.expected_s
        # Clocks are set, and may be set back: never more than was asked for.
        return min(max(self.held_since_s + self.expected_s - now_s, 0.0), self.expected_s)

    def described(self, now_s: float, about: str = "") -> str:
        """`timing relu (uid 1001), about 2 s left`; `about` comes after the uid."""
        left_s = self.left_s(now_s)
        if left_s is None:
            time_left = "nobody knows for how long"
        elif left_s > 0 or self.held_since_s is None or self.expected_s is None:
            time_left = f"about {math.ceil(left_s)} s left"
        else:
            time_left = f"held for {now_s - self.held_since_s:.0f} s, expected {self.expected_s:.0f} s"
        return f"{self.purpose} (uid {self.uid}{about}), {time_left}"


class GpuStatus(msgspec.Struct, frozen=True):
    """The queue of one GPU, in its order. `problem`: why it cannot be seen, else empty."""

    gpu: str
    tickets: list[Ticket]
    problem: str = ""


def default_folder() -> Path:
    """Where the locks of this machine lie. Services with a /tmp of their own need the environment variable."""
    return Path(os.environ.get(VARIABLE) or "/tmp/warpgrade-gpu-locks")


def status(folder: Path | None = None) -> list[GpuStatus]:
    """The queues of all GPUs that were ever asked for, by name. Makes nothing, and raises nothing for a single GPU.

    Raises GpuLockError where the folder itself cannot be looked at.
    """
    everything = folder or default_folder()
    try:
        names = sorted(path.name for path in everything.iterdir() if is_uuid(path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise GpuLockError(f"{everything} cannot be read ({error.strerror}). Mend that, or {ELSEWHERE}") from error
    found = []
    for name in names:
        try:
            found.append(GpuStatus(name, tickets(everything, name)))
        except GpuLockError as error:
            found.append(GpuStatus(name, [], str(error)))
    return found


def text(statuses: Sequence[GpuStatus], folder: Path | None = None, now_s: float | None = None) -> str:
    """One line for each GPU. `now_s`: seconds since the epoch, by default now."""
    now = time.time() if now_s is None else now_s
    if not statuses:
        return f"nobody has asked for a GPU yet (in {folder or default_folder()})"
    return "\n".join(f"{each.gpu}: {_line(each, now)}" for each in statuses)


def as_json(statuses: Sequence[GpuStatus]) -> str:
    """The same for programs."""
    return msgspec.json.format(msgspec.json.encode(statuses), indent=1).decode()


def _line(gpu: GpuStatus, now_s: float) -> str:
    if gpu.problem:
        return f"not known: {one_line(gpu.problem)}"
    if not gpu.tickets:
        return "free"
    holders = [ticket for ticket in gpu.tickets if ticket.held_since_s is not None]
    waiting = len(gpu.tickets) - len(holders)
    return f"{holding(holders, now_s) or 'nobody yet'}; {waiting or 'nobody'} waiting"


def holding(holders: Sequence[Ticket], now_s: float, *, pids: bool = False) -> str:
    """Up to three holders by name, and how many more; "" for none."""
    names = [ticket.described(now_s, f", pid {ticket.pid}" if pids else "") for ticket in holders[:3]]
    return ", ".join(names) + (f" and {len(holders) - 3} more" if len(holders) > 3 else "")


def time_left_s(ahead: Sequence[Ticket], now_s: float) -> float | None:
    """In how many seconds these will be done: neighbours that share at once, others one after another.

    None where that is not known.
    """
    total_s = 0.0
    for mode, group in itertools.groupby(ahead, key=lambda ticket: ticket.mode):
        each = [ticket.left_s(now_s) for ticket in group]
        known = [left_s for left_s in each if left_s is not None]
        if len(known) < len(each):
            return None
        total_s += max(known) if mode is Mode.SHARED else sum(known)
    return total_s


def is_uuid(name: str) -> bool:
    """Whether this can be a GPU's UUID, and so a folder's name."""
    return _UUID.fullmatch(name) is not None


def tickets(everything: Path, gpu_uuid: str) -> list[Ticket]:
    """The queue of one GPU. Makes nothing. Raises GpuLockError where it cannot be seen."""
    with queue(everything, gpu_uuid) as folder:
        return [] if folder is None else [ticket for _, ticket in alive(folder)]


@contextlib.contextmanager
def queue(everything: Path, gpu_uuid: str) -> Iterator[int | None]:
    """A descriptor of the GPU's folder, with its mutex held: for milliseconds, and for no code of others.

    None where there is no folder yet. Raises GpuLockError, also for an OSError in the block.
    """
    path = everything / gpu_uuid
    mutex = path / "mutex"
    with contextlib.ExitStack() as stack:
        try:
            folder = _entered(stack, everything, None)
            if folder is not None:
                folder = _entered(stack, path, folder)
            if folder is not None:
                stack.enter_context(filelock.FileLock(mutex, mode=0o666).acquire(MUTEX_LIMIT_S, 0.005))
            yield folder
        except filelock.Timeout as error:
            raise GpuLockError(
                f"{mutex} was held for {MUTEX_LIMIT_S:.0f} s, and should be for milliseconds: by a stopped process? "
                f"`fuser -v {mutex}` names it; end it, or {ELSEWHERE}"
            ) from error
        except OSError as error:
            raise GpuLockError(f"no GPU lock in {path} ({error}). Mend that, or {ELSEWHERE}") from error


def _entered(stack: contextlib.ExitStack, path: Path, within: int | None) -> int | None:
    """A descriptor of a folder that is fit to be shared; None if there is none.

    From here on the descriptor is used and not the path, which the owner of the folder above could turn to another one.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(path if within is None else path.name, flags, dir_fd=within)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise GpuLockError(f"{path} is a symbolic link or no folder. Remove it, or {ELSEWHERE}") from error
    stack.callback(os.close, folder)
    about = os.fstat(folder)
    # Of another user's folder we want only that it is meant for all: whoever comes first to /tmp makes it, and with
    # more than that they would lock out the rest.
    if about.st_uid not in (0, os.geteuid()) and about.st_mode & OPEN_TO_ALL != OPEN_TO_ALL:
        raise GpuLockError(
            f"{path} belongs to uid {about.st_uid} and is not for everybody. `chmod 1777 {path}`, or {ELSEWHERE}"
        )
    if about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX:
        raise GpuLockError(f"in {path} anybody can remove the tickets of others. `chmod +t {path}`, or {ELSEWHERE}")
    return folder


def alive(folder: int) -> list[tuple[int, Ticket]]:
    """Numbers and tickets in their order. Needs the mutex; removes what is dead, where it may."""
    numbered = []
    for name in sorted(os.listdir(folder)):
        if _TICKET.fullmatch(name):
            if ticket := _read(folder, name):
                numbered.append((int(name[:9]), ticket))
        elif name.startswith(NEW):
            _read(folder, name)
    return numbered


def _read(folder: int, name: str) -> Ticket | None:
    """The ticket in a file; None if it is dead, or no file. What is alive and cannot be read wants the GPU alone."""
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None  # it left
    if not stat.S_ISREG(about.st_mode):
        return None  # nothing of this program's, and a pipe could make us wait for ever
    unknown = Ticket(0, about.st_uid, f"{one_line(name)} cannot be read", Mode.EXCLUSIVE, 0.0, about.st_mtime, None)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return unknown
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # another user's, in a sticky folder
                os.unlink(name, dir_fd=folder)
            return None
        content = os.pread(descriptor, _MAX_TICKET_BYTES + 1, 0)
        if len(content) > _MAX_TICKET_BYTES:
            return unknown
        said = msgspec.json.decode(content, type=Ticket)
        return msgspec.structs.replace(said, uid=about.st_uid, purpose=one_line(said.purpose))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return unknown
    finally:
        os.close(descriptor)
