"""The real Sandbox: bubblewrap, in two modes.

Theory of operation. Started by root, bubblewrap makes new mount, pid, net, ipc, uts and cgroup namespaces, binds what
the Worker may see (the Python prefix may lie where only root can look), and `setpriv` drops to a *real* uid that owns
nothing, a different one for each judge, so that two sandboxes cannot even signal each other. Started by a user, a
user namespace does the same, and `--disable-userns` keeps the inside from making another one. Either way: an empty
root with read-only binds of /usr, the Python environment and the Worker's code; a private /tmp of limited size; its own
/proc; a cleared environment; no capabilities; NoNewPrivs; a system-call filter; a control group where possible,
else a watchdog. All processes die with bubblewrap, which dies with the Judge. The Worker then asserts all this from
inside (`worker/startup.py`) before it runs a line of a student's.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import msgspec
import psutil

from warpgrade.course import Limits
from warpgrade.judge.sandbox import SandboxUnavailable, seccomp
from warpgrade.judge.sandbox.cgroup import ControlGroup
from warpgrade.judge.sandbox.gpu import GpuAccess
from warpgrade.judge.sandbox.process import WorkerProcess, package_folder, socketpair
from warpgrade.worker.startup import Plan

_INSIDE = Path("/worker/warpgrade")
#: What the Worker may see of our own code.
_WORKER_PACKAGES = ("wire", "worker", "model")
#: Real uids of sandboxes started by root begin here: above every range that Debian, systemd or subuid hand out.
_FIRST_UID = 2_000_000_000
#: The user id inside a sandbox that a user started.
NOBODY = 65534
#: Few: descriptors in flight between sockets are counted for the whole user, and the Judge's own must still pass.
_OPEN_FILES = 256


class BubblewrapSandbox:
    """Implements `Sandbox`. Raises SandboxUnavailable where bubblewrap or one of its needs is missing."""

    isolated = True

    def __init__(self, gpu: GpuAccess | None = None) -> None:
        """`gpu`: what is shown of a GPU; without it there is none inside."""
        self._gpu = gpu
        self._bwrap = _tool("bwrap", "bubblewrap")
        self._prlimit = _tool("prlimit", "util-linux")
        self._root = os.geteuid() == 0
        self._setpriv = _tool("setpriv", "util-linux") if self._root else ""
        if not seccomp.available():
            raise SandboxUnavailable(
                "there is no system-call filter for this processor: only x86_64 and aarch64 have one"
            )

    def start(self, limits: Limits, environment: dict[str, str], secrets: list[Path]) -> WorkerProcess:
        """See `Sandbox.start`."""
        visible = python_folders()
        plan = Plan(
            sandboxed=True,
            secret=_hidden(secrets, visible),
            visible=[str(path) for path in visible],
            gpu=self._gpu is not None,
        )
        ends = socketpair()
        inner = [
            *self._drop(limits),
            sys.executable, "-I", str(_INSIDE / "worker/boot.py"), str(ends[1].fileno()),
            msgspec.json.encode(plan).decode(),
        ]  # fmt: skip
        filter_ = seccomp.program(unix_sockets=self._gpu is not None)
        files = [_memory_file(filter_), _memory_file(_passwd(self._uid)), _memory_file(_group(self._uid))]
        try:
            command = [self._bwrap, *self._flags(limits, visible, environment, files), "--", *inner]
            return WorkerProcess(
                command,
                ends,
                limits,
                environment={},
                descriptors=files,
                group=ControlGroup.create(limits.memory_bytes, limits.processes, limits.cpus),
            )
        finally:
            for descriptor in files:
                os.close(descriptor)

    @property
    def _uid(self) -> int:
        return _FIRST_UID + os.getpid() if self._root else NOBODY

    def _flags(self, limits: Limits, visible: list[Path], environment: dict[str, str], files: list[int]) -> list[str]:
        flags = [
            "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
            "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox",
            "--cap-drop", "ALL", "--seccomp", str(files[0]),
        ]  # fmt: skip
        if self._root:
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):  # for setpriv, which drops them
                flags += ["--cap-add", capability]
        else:
            flags += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--disable-userns"]
        # Before the binds: the course, and so the Python environment, may lie below /tmp.
        flags += ["--proc", "/proc", "--dev", "/dev"]
        if self._gpu:
            flags += self._gpu.device_flags()
            environment = {**self._gpu.environment, **environment}
        for folder in ("/dev/shm", "/tmp"):
            flags += ["--perms", "1777", "--size", str(limits.scratch_bytes), "--tmpfs", folder]
        # bubblewrap makes missing parents with mode 0700, which would shut out the uid that the Worker drops to.
        for parent in sorted({parent for path in [*visible, _INSIDE / "x", Path("/etc/x")] for parent in path.parents}):
            if parent != Path("/") and not any(parent.is_relative_to(path) for path in visible):
                flags += ["--perms", "0755", "--dir", str(parent)]
        flags += ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
            path = Path("/", name)
            if path.is_symlink():
                flags += ["--symlink", str(path.readlink()), str(path)]
            elif path.is_dir():
                flags += ["--ro-bind", str(path), str(path)]
        for name in ("ld.so.cache", "alternatives", "localtime"):
            flags += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        flags += ["--perms", "0444", "--ro-bind-data", str(files[1]), "/etc/passwd"]
        flags += ["--perms", "0444", "--ro-bind-data", str(files[2]), "/etc/group"]
        for path in visible:
            flags += ["--ro-bind", str(path), str(path)]
        installed = Path(sysconfig.get_paths()["purelib"]) / "warpgrade"
        if installed.is_dir():
            flags += ["--tmpfs", str(installed), "--remount-ro", str(installed)]
        if self._gpu:
            flags += self._gpu.library_flags()
        package = package_folder()
        flags += ["--ro-bind", str(package / "__init__.py"), str(_INSIDE / "__init__.py")]
        for name in _WORKER_PACKAGES:
            if (package / name).is_dir():
                flags += ["--ro-bind", str(package / name), str(_INSIDE / name)]
        flags += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
        inside = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "USER": "student"}
        # One thread of OpenMP: sandboxes run side by side, and torch on the CPU only carries data here.
        inside |= {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": "/tmp/triton"} | environment
        for name, value in inside.items():
            flags += ["--setenv", name, value]
        return flags

    def _drop(self, limits: Limits) -> list[str]:
        processes = limits.processes if self._root else limits.processes + _own_processes()
        cpu_s = int(2 * limits.exercise_s)  # two cores' worth; the clock on the wall is the Judge's
        command = [
            self._prlimit, "--core=0", f"--nofile={_OPEN_FILES}", f"--fsize={limits.scratch_bytes}",
            f"--nproc={processes}", f"--cpu={cpu_s}",
        ]  # fmt: skip
        if self._root:
            uid = str(self._uid)
            command += [self._setpriv, "--reuid", uid, "--regid", uid, "--clear-groups"]
            command += ["--inh-caps=-all", "--bounding-set=-all"]
        return command


def python_folders() -> list[Path]:
    """The folders of this Python environment: its prefix, the base prefix, and site-packages that lie elsewhere.

    Those below /usr are left out, because all of /usr is visible. Raises SandboxUnavailable where one is so broad that
    binding it would show more than Python.
    """
    paths = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]}
    paths |= {Path(folder) for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))}
    kept: list[Path] = []
    for path in sorted(paths, key=lambda path: len(path.parts)):
        if not path.is_dir() or any(path.is_relative_to(other) for other in [Path("/usr"), *kept]):
            continue
        if len(path.parts) < 3 and path != Path("/opt"):
            raise SandboxUnavailable(
                f"the Python environment is {path}, which holds more than Python; make a virtual environment"
            )
        kept.append(path)
    return kept


def _hidden(secrets: list[Path], visible: list[Path]) -> list[str]:
    """The secrets to look for inside. One that a bind would show is refused here, before anything starts."""
    for secret in secrets:
        for folder in visible:
            if secret.is_relative_to(folder) and secret.exists():
                raise SandboxUnavailable(f"{secret} lies inside the Python environment {folder}; move one of them")
    return [str(secret) for secret in secrets]


def _tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if not found:
        raise SandboxUnavailable(
            f"{name} is not installed, and student code runs only in a sandbox. Install it (Debian, Ubuntu: "
            f"sudo apt-get install {package}), then see `warpgrade doctor`."
        )
    return found


def _own_processes() -> int:
    """What already counts against RLIMIT_NPROC, which is threads."""
    uid = os.getuid()
    return sum(
        process.info["num_threads"] or 1
        for process in psutil.process_iter(["uids", "num_threads"])
        if process.info["uids"] and process.info["uids"].real == uid
    )


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("warpgrade-sandbox")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _passwd(uid: int) -> bytes:
    return f"student:x:{uid}:{uid}::/tmp:/bin/sh\n".encode()


def _group(uid: int) -> bytes:
    return f"student:x:{uid}:\n".encode()
