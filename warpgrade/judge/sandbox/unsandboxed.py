"""No sandbox: an author's own code on an author's own machine, and a student's own in `check`. It protects nothing."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from warpgrade.course import Limits
from warpgrade.judge.sandbox import SandboxUnavailable
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
        # What the notebook leaves in its temporary folder goes with the Worker: `check` runs many times a day.
        temporary = tempfile.mkdtemp(prefix="warpgrade-")
        # A notebook on a laptop sets TRITON_INTERPRET for itself. In the Worker it would be there before triton is
        # imported, which nothing in the sandbox sees; as little as it sees a GPU, on the tier that has none.
        around = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
        inside = {**around, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TMPDIR": temporary, **environment}
        try:
            return WorkerProcess(
                command,
                ends,
                limits,
                environment=inside,
                on_exit=lambda: shutil.rmtree(temporary, ignore_errors=True),
            )
        except SandboxUnavailable:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
