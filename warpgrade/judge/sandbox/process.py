"""A Worker as a child process: its socket, its output, its end. What the real backends share."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import psutil

from warpgrade.course import Limits
from warpgrade.judge.sandbox import Exit, SandboxUnavailable
from warpgrade.judge.sandbox.cgroup import ControlGroup

Value = TypeVar("Value")
WATCHDOG_PERIOD_S = 0.05
#: Of what a Worker prints, kept for people. The rest is read and thrown away, so that printing never blocks it.
_KEPT_OUTPUT_BYTES = 32_000


def socketpair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a wire: the Judge's, the Worker's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class WorkerProcess:
    """A started Worker. Implements `Running`."""

    def __init__(
        self,
        command: Sequence[str],
        ends: tuple[socket.socket, socket.socket],
        limits: Limits,
        *,
        environment: dict[str, str] | None,
        descriptors: Sequence[int] = (),
        group: ControlGroup | None = None,
        on_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self._ends = ends
        self._group = group
        self._limits = limits
        self._on_exit = on_exit
        self._exit: Exit | None = None
        self._over_memory = False
        self._output = bytearray()
        self._printed_bytes = 0
        try:
            self._process = subprocess.Popen(
                [*(group.enter_command() if group else ()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd="/",
                pass_fds=[ends[1].fileno(), *descriptors],
                start_new_session=True,  # Ctrl-C at the terminal is the Judge's to handle
            )
        except OSError as error:
            ends[0].close()
            if group:
                group.remove()
            raise SandboxUnavailable(f"{command[0]} could not be started: {error.strerror}") from error
        finally:
            ends[1].close()
        self._reader = threading.Thread(target=self._drain, name="worker output", daemon=True)
        self._reader.start()
        self._stop_watching = threading.Event()
        if group is None or not group.limits_memory:
            threading.Thread(target=self._watch_memory, name="worker memory", daemon=True).start()

    @property
    def socket(self) -> socket.socket:
        """The Judge's end of the wire."""
        return self._ends[0]

    def output(self) -> str:
        """What was printed, cut in the middle of nowhere if long, and safe to decode."""
        text = bytes(self._output).decode("utf-8", "replace")
        hidden = self._printed_bytes - len(self._output)
        return text + (f"\n... and {hidden} more bytes, not kept" if hidden else "")

    def processor_s(self) -> float:
        """See `Running.processor_s`."""
        return processor_s(self._process.pid)

    def kill(self) -> Exit:
        """See `Running.kill`."""
        if self._exit is None:
            # A Worker that died by itself needs a moment until its status can be read.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5 if self._hung_up() else 0)
            ended_by_itself = self._process.poll() is not None
            out_of_memory = self._over_memory or (self._group is not None and self._group.killed_for_memory())
            self._end_processes()
            self._stop_watching.set()
            self._reader.join(5.0)
            self._exit = self._describe(ended_by_itself, out_of_memory)
            if self._group:
                self._group.remove()
            self._ends[0].close()
            if self._process.stdout and not self._reader.is_alive():
                self._process.stdout.close()
            self._on_exit()
        return self._exit

    def _hung_up(self) -> bool:
        try:
            return self._ends[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _end_processes(self) -> None:
        # bubblewrap's first process dies with its parent, and with it every process of its pid namespace; the process
        # group and the control group catch what runs without a namespace.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._group:
            self._group.kill()
        self._process.wait()

    def _describe(self, ended_by_itself: bool, out_of_memory: bool) -> Exit:
        status = self._process.returncode
        if out_of_memory:
            return Exit(
                f"it used more than {self._limits.memory_bytes / 1024**3:.0f} GiB of memory", out_of_memory=True
            )
        if not ended_by_itself:
            return Exit("it was ended by the judge")
        number = -status if status < 0 else status - 128 if status > 128 else 0
        if number:
            try:
                name = signal.Signals(number).name
                unknown = number == signal.SIGKILL
                return Exit(f"it was killed by signal {number} ({name})", killed_by_unknown=unknown)
            except ValueError:
                pass  # no such signal: an ordinary exit status above 128
        return Exit(f"it ended by itself with status {status}")

    def _drain(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while block := os.read(stream.fileno(), 1 << 16):
            self._printed_bytes += len(block)
            room = min(_KEPT_OUTPUT_BYTES, self._limits.output_bytes) - len(self._output)
            if room > 0:
                self._output += block[:room]

    def _watch_memory(self) -> None:
        """Where no control group limits memory: add up what every process of the Worker holds, and end it above."""
        while not self._stop_watching.wait(WATCHDOG_PERIOD_S):
            if _resident_bytes(self._process.pid) > self._limits.memory_bytes:
                self._over_memory = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                return


def _resident_bytes(pid: int) -> int:
    """Resident memory of a process and its children, and their memory files, which no process's count holds."""
    files: dict[tuple[int, int], int] = {}

    def resident(process: psutil.Process) -> int:
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                        files[status.st_dev, status.st_ino] = status.st_blocks * 512
        return int(process.memory_info().rss)

    total = sum(_each(pid, resident))
    return total + sum(files.values())


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process and its living descendants have used."""
    times = _each(pid, lambda process: process.cpu_times())
    return float(sum(used.user + used.system for used in times))


def _each(pid: int, measure: Callable[[psutil.Process], Value]) -> list[Value]:
    """What `measure` says of a process and of each of its descendants that still lives."""
    found: list[Value] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [parent, *parent.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                found.append(measure(process))
    return found


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll `condition` until it holds or the time is over; whether it held."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def package_folder() -> Path:
    """The folder of the installed `warpgrade` package."""
    return Path(__file__).resolve().parents[2]
