"""One lock for each GPU: shared (correctness) or alone (timing), first come first served, for all users of a machine.

In a folder for all GPUs, one folder for each, named by its UUID. In it `mutex`, held for milliseconds, and tickets,
numbered as they came. A shared ticket may hold when every earlier one that is alive is shared, one that wants the GPU
alone when there is no earlier one. So nobody overtakes, and nobody waits for ever behind those who came later.

A ticket's owner keeps its file locked (flock) for the ticket's life. The kernel lets go when the process ends, however
it ends; so a ticket whose lock can be taken is dead, and ignored. Descriptors are opened O_CLOEXEC: workers are
exec'ed, and judges are forked from the zygote before they lock anything. A child forked *while* holding would keep
a killed parent's ticket alive as long as it lives, since a flock belongs to the open file; no such child is made here.

What this is not: a wall. Everybody may take a ticket and keep it, or use a GPU without asking, and the owner of a
folder may remove the tickets in it. An administrator who minds makes the folder as root, with mode 1777.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warpgrade.judge.speed import status
from warpgrade.judge.speed.status import GpuLockError, Mode, Ticket
from warpgrade.report.printable import one_line

__all__ = ["GpuBusy", "GpuLock", "GpuLockError", "Mode", "Ticket"]

#: How often one who waits looks, in seconds.
POLL_S = 0.05
_LAST_NUMBER = 999_999_999
_README = "Who uses which GPU, for warpgrade: `warpgrade gpu` shows it. While nothing of it runs, all of this may go.\n"


class GpuBusy(GpuLockError):  # noqa: N818 - reads as what it is
    """Others held the GPU for longer than the caller would wait. The text names them."""


@dataclass
class _Own:
    """Our ticket. `descriptor` holds the flock; only the process that made the ticket may remove it."""

    number: int
    descriptor: int
    process: int
    ticket: Ticket

    @property
    def name(self) -> str:
        return f"{self.number:09}.json"

    @property
    def removed(self) -> bool:
        return os.fstat(self.descriptor).st_nlink == 0

    def write(self) -> None:
        # In place, since the flock is on this file. Whoever reads holds the mutex, as we do: they see nothing torn.
        content = msgspec.json.encode(self.ticket)
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))


class GpuLock:
    """The lock of one GPU. Keeps nothing between calls: several threads may use one, and so may forked children."""

    def __init__(self, gpu_uuid: str, folder: Path | None = None) -> None:
        """`folder` is the one for all GPUs. Nothing is made yet. Raises GpuLockError for what is no UUID."""
        if not status.is_uuid(gpu_uuid):
            raise GpuLockError(f"{one_line(repr(gpu_uuid[:80]))} is no GPU's UUID. `nvidia-smi -L` lists them.")
        self.gpu_uuid = gpu_uuid
        self._everything = (folder or status.default_folder()).absolute()
        self._folder = self._everything / gpu_uuid

    @contextlib.contextmanager
    def hold(
        self,
        mode: Mode,
        purpose: str,
        expected_s: float,
        *,
        timeout_s: float | None = None,
        on_wait: Callable[[int, float | None], None] | None = None,
    ) -> Iterator[Ticket]:
        """Wait for our turn, then hold the GPU for the length of the block. Gives the ticket as others see it.

        `purpose` is shown to everybody, cut to 120 characters. `expected_s`: for how many seconds the caller means to
        hold, at most a day. `timeout_s`: wait no longer than this; 0 tries once. While it waits, whenever the place
        or the whole seconds change, `on_wait(place, seconds left)` is called: place 1 is the next in line, None
        seconds mean that somebody before us does not say. Do not take the same GPU again inside: that waits for itself.

        Raises ValueError for an impossible `expected_s`, GpuBusy when the time is over, GpuLockError when the lock
        does not work; that also at the end of the block, if our ticket was removed during it: somebody else may have
        used the GPU, and what was measured does not count.
        """
        if not 0 <= expected_s <= status.MAX_EXPECTED_S:
            raise ValueError(f"expected_s is {expected_s}; it must be 0 to {status.MAX_EXPECTED_S:.0f} seconds")
        shown = one_line(purpose[: status.MAX_PURPOSE])
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        own = self._queue_up(Ticket(os.getpid(), os.geteuid(), shown, mode, time.time(), None, float(expected_s)))
        try:
            told: tuple[int, int | None] | None = None
            while ahead := self._ahead(own):
                place = 1 + sum(ticket.held_since_s is None for ticket in ahead)
                left_s = status.time_left_s(ahead, time.time())
                news = (place, None if left_s is None else math.ceil(left_s))
                if on_wait and news != told:
                    on_wait(place, left_s)
                told = news
                still_s = deadline - time.monotonic()
                if still_s <= 0:
                    raise GpuBusy(self._busy(ahead))
                time.sleep(min(POLL_S, still_s))
            yield own.ticket
            if own.removed:
                raise self._was_removed()
        finally:
            self._leave(own)

    def tickets(self) -> list[Ticket]:
        """Who holds the GPU and who waits, in their order. Makes nothing. Raises GpuLockError if it cannot be seen."""
        return status.tickets(self._everything, self.gpu_uuid)

    def _queue_up(self, ticket: Ticket) -> _Own:
        with self._queue() as folder:
            first = 1 + max((number for number, _ in status.alive(folder)), default=0)
            # Made under another name: with its number it appears locked and whole, or not at all.
            new = f"{status.NEW}{os.getpid()}-{secrets.token_hex(4)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(new, flags, 0o600, dir_fd=folder)  # nobody else can open it, and lock it before us
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                own = _Own(first, descriptor, os.getpid(), ticket)
                own.write()
                os.fchmod(descriptor, 0o644)
                while own.number <= _LAST_NUMBER:
                    with contextlib.suppress(FileExistsError):
                        os.link(new, own.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                        return own
                    own.number += 1  # the name is taken by one that is dead, and not ours to remove
                raise GpuLockError(
                    f"{self._folder} is out of numbers. Remove {_LAST_NUMBER}.json, or {status.ELSEWHERE}"
                )
            except BaseException:
                os.close(descriptor)
                raise
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(new, dir_fd=folder)

    def _ahead(self, own: _Own) -> list[Ticket]:
        """For whom we have to wait. If for nobody, we hold it from now on."""
        with self._queue() as folder:
            if own.removed:
                raise self._was_removed()
            ahead = [ticket for number, ticket in status.alive(folder) if number < own.number]
            if own.ticket.mode is Mode.SHARED:
                while ahead and ahead[-1].mode is Mode.SHARED:
                    ahead.pop()  # we hold beside it, if not before it
            if not ahead:
                own.ticket = msgspec.structs.replace(own.ticket, held_since_s=time.time())
                own.write()
            return ahead

    def _leave(self, own: _Own) -> None:
        # Needs no mutex: it is unlinked while it is still locked, so nobody else can have its number yet. And it is
        # closed, not unlocked, so that a forked child that comes here frees nothing of its parent's.
        try:
            if own.process == os.getpid() and not own.removed:
                with contextlib.suppress(OSError):  # what stays is dead, and ignored
                    (self._folder / own.name).unlink()
        finally:
            os.close(own.descriptor)

    @contextlib.contextmanager
    def _queue(self) -> Iterator[int]:
        """As `status.queue`, and the folders are made if need be."""
        for _ in range(4):
            with status.queue(self._everything, self.gpu_uuid) as folder:
                if folder is not None:
                    yield folder
                    return
                if not self._everything.exists():
                    _make(self._everything, "README.txt", 0o644, _README)
                else:
                    # With its mutex, by the same user: `filelock` refuses one of anybody else's in a sticky folder.
                    _make(self._folder, "mutex", 0o666, "")
        raise GpuLockError(f"{self._folder} is removed as often as it is made. Find out by whom, or {status.ELSEWHERE}")

    def _busy(self, ahead: Sequence[Ticket]) -> str:
        holders = [ticket for ticket in ahead if ticket.held_since_s is not None]
        names = status.holding(holders, time.time(), pids=True) or "it is about to change hands"
        return (
            f"{self.gpu_uuid} is busy: {names}; {len(ahead) - len(holders) or 'nobody else'} waiting before us. "
            "Try again later; `warpgrade gpu` shows the queue."
        )

    def _was_removed(self) -> GpuLockError:
        return GpuLockError(
            f"our ticket in {self._folder} was removed: somebody else may have used the GPU at the same time. Try "
            f"again; if that does not help, find out who cleans up there, or {status.ELSEWHERE}"
        )


def _make(path: Path, first: str, mode: int, content: str) -> None:
    """Make a folder for everybody, whole at once. It is never empty: of two who do this at once one finds it there."""
    new = Path(tempfile.mkdtemp(prefix=status.NEW, dir=path.parent))
    try:
        (new / first).write_text(content, encoding="utf-8")
        (new / first).chmod(mode | stat.S_ISVTX)  # on a file the bit tells systemd-tmpfiles to leave it, however old
        new.chmod(status.OPEN_TO_ALL)
        new.rename(path)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        if not isinstance(error, OSError) or error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise
