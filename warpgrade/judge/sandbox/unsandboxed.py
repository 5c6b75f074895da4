"""No sandbox: an author's own code on an author's own machine, and a student's own in `check`. It protects nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from warpgrade.course import Limits
from warpgrade.judge.sandbox.process import WorkerProcess, package_folder, socketpair
from warpgrade.worker.startup import Plan


class NoSandbox:
    """Implements `Sandbox` by a plain child process, under a memory watchdog and nothing else."""

    isolated = False

    def start(self, limits: Limits, environment: dict[str, str], secrets: list[Path]) -> WorkerProcess:
        """See `Sandbox.start`; `secrets` stay visible."""
        ends = socketpair()
        boot = package_folder() / "worker" / "boot.py"
        plan = msgspec.json.encode(Plan(sandboxed=False)).decode()
        command = [sys.executable, "-I", str(boot), str(ends[1].fileno()), plan]
        return WorkerProcess(command, ends, limits, environment={**os.environ, "OMP_NUM_THREADS": "1", **environment})
