"""Control groups: limits on memory, processes and CPU that a Worker's children cannot leave.

The one on CPU is for the neighbours: a hundred busy processes of one submission would otherwise take the cores from
the honest ones that are judged beside it, whose calls then time out.

Needs a cgroup folder that may be written to: root on cgroup v1 or v2. Elsewhere `create` gives None, and the
Sandbox falls back to a watchdog (memory, polled) and RLIMIT_NPROC (processes); `warpgrade doctor` says which is in use.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
_PREFIX = "warpgrade-"
_PERIOD_US = 100_000  # the kernel's default period
_numbers = itertools.count()


class ControlGroup:
    """One group for one Worker: one folder (v2), or one for each controller (v1)."""

    def __init__(self, folders: list[Path], *, limits_memory: bool) -> None:
        self._folders = folders
        #: Whether memory is limited here; otherwise the caller watches it.
        self.limits_memory = limits_memory

    @classmethod
    def create(cls, memory_bytes: int, processes: int, cpus: float, root: Path = ROOT) -> ControlGroup | None:
        """Make a group with these limits, or None where that is not permitted. `cpus` is limited where it can be."""
        if not os.access(root, os.W_OK) and not os.access(root / "memory", os.W_OK):
            return None
        remove_stale(root)
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        quota_us = int(cpus * _PERIOD_US)
        folders: list[Path] = []
        try:
            if (root / "cgroup.controllers").exists():
                available = set((root / "cgroup.subtree_control").read_text(encoding="ascii").split())
                if "memory" not in available:
                    return None
                folders.append(root / name)
                folders[0].mkdir()
                settings = {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes}
                settings_text = {file: str(value) for file, value in settings.items()}
                settings_text["cpu.max"] = f"{quota_us} {_PERIOD_US}"
                for file, text in settings_text.items():
                    if file == "memory.max" or (folders[0] / file).exists():
                        (folders[0] / file).write_text(text, encoding="ascii")
            else:
                for controller, file, value in (
                    ("memory", "memory.limit_in_bytes", memory_bytes),
                    ("pids", "pids.max", processes),
                    ("cpu", "cpu.cfs_quota_us", quota_us),
                ):
                    if controller == "cpu" and not (root / controller / file).exists():
                        continue
                    folders.append(root / controller / name)
                    folders[-1].mkdir()
                    (folders[-1] / file).write_text(str(value), encoding="ascii")
        except OSError:
            for folder in folders:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            return None
        return cls(folders, limits_memory=True)

    def enter_command(self) -> list[str]:
        """A command prefix that enters the group and then becomes the command that follows it."""
        files = [str(folder / "cgroup.procs") for folder in self._folders]
        script = f'for f in "${{@:1:{len(files)}}}"; do echo $$ > "$f" || exit 125; done; shift {len(files)}; exec "$@"'
        return ["bash", "-c", script, "bash", *files]

    def killed_for_memory(self) -> bool:
        """Whether the kernel has ended a process of this group because the group's own limit was reached.

        `oom_kill` alone also counts those that died for the whole machine's want of memory, which is nobody's fault
        here. `oom` (v2) and `failcnt` (v1) count only the group's own limit.
        """
        counts: dict[str, int] = {}
        for file in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self._folders[0] / file).read_text(encoding="ascii").splitlines():
                    name, _, value = line.partition(" ")
                    counts[name] = int(value)
        with contextlib.suppress(OSError):
            counts["oom"] = int((self._folders[0] / "memory.failcnt").read_text(encoding="ascii"))
        return counts.get("oom_kill", 0) > 0 and counts.get("oom", 0) > 0

    def kill(self) -> None:
        """End every process in the group, again until none is left: a fork bomb forks while it is being killed."""
        deadline = time.monotonic() + 10.0
        while processes := self._processes():
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return  # in uninterruptible sleep; `remove_stale` comes back for the folder
            time.sleep(0.002)

    def remove(self) -> None:
        """Remove the folders; one that is still busy is left to `remove_stale`."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _processes(self) -> list[int]:
        pids: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                pids |= {int(pid) for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split()}
        return sorted(pids)


def remove_stale(root: Path = ROOT) -> None:
    """Remove groups of judges that were killed before they could: empty folders whose judge no longer runs."""
    for folder in (*root.glob(f"{_PREFIX}*"), *root.glob(f"*/{_PREFIX}*")):
        judge = folder.name.removeprefix(_PREFIX).split("-")[0]
        if judge.isdigit() and not psutil.pid_exists(int(judge)):
            with contextlib.suppress(OSError):
                folder.rmdir()
