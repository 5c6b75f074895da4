"""What this machine can do: each protection and each tier, on or off, with the command that turns it on.

`examine` looks at one Machine and returns Findings. Nothing is changed beyond an empty control group that is made and
removed again, and nothing is guessed from versions where a program can be started instead. The Machine is the seam:
tests hand in one that says what they like.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from warpgrade.course import Course, CourseError, Limits
from warpgrade.judge.sandbox import START_LIMIT_S, SandboxUnavailable, seccomp
from warpgrade.judge.sandbox.bubblewrap import NOBODY, BubblewrapSandbox
from warpgrade.judge.sandbox.cgroup import ControlGroup
from warpgrade.wire import Channel, TimedOut, WireError
from warpgrade.wire.messages import Ready, Unsafe, WorkerMessage

_GIB = 1024**3
_NEEDED_DISK_BYTES = 2 * _GIB
_SYSCTL = Path("/proc/sys")

#: Without a profile of its own, Ubuntu 24.04 gives an unprivileged bwrap a user namespace in which it may do nothing.
APPARMOR_REMEDY = """\
sudo tee /etc/apparmor.d/bwrap >/dev/null <<'PROFILE'
abi <abi/4.0>,
include <tunables/global>
profile bwrap /usr/bin/bwrap flags=(unconfined) {
  userns,
  include if exists <local/bwrap>
}
PROFILE
sudo apparmor_parser -r /etc/apparmor.d/bwrap"""


@dataclass(frozen=True)
class Finding:
    """One thing that is on, off, or (None) neither: it does not matter here, or nobody has tried it.

    `needed`: grading on the CPU does not work without it. `remedy` is a command, or a sentence where no command
    helps; empty when there is nothing to do.
    """

    name: str
    on: bool | None
    detail: str
    remedy: str = ""
    needed: bool = False

    @property
    def blocks(self) -> bool:
        """Nothing can be graded on the CPU until this is mended."""
        return self.needed and self.on is False


@dataclass(frozen=True)
class Ran:
    """How a program ended: its exit status, and what it wrote to both outputs."""

    status: int
    output: str


class Machine:
    """The real machine. Every look that `examine` takes goes through here."""

    system = platform.system()
    release = platform.release()
    python = platform.python_version_tuple()

    def uid(self) -> int:
        """The effective user id."""
        return os.geteuid()

    def which(self, program: str) -> str | None:
        """Where a program is, or None."""
        return shutil.which(program)

    def run(self, *command: str) -> Ran:
        """Run a short command without input. One that cannot start or does not end has status 127."""
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=20
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Ran(127, str(error))
        return Ran(done.returncode, (done.stdout + done.stderr).strip())

    def read(self, path: Path) -> str | None:
        """The text of a small file, or None where it cannot be read."""
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def can_make_control_groups(self) -> bool:
        """Whether the Sandbox gets its control group, tried out: permissions alone do not tell."""
        group = ControlGroup.create(memory_bytes=64 * 1024**2, processes=16, cpus=1.0)
        if group is None:
            return False
        group.remove()
        return True

    def has_system_call_filter(self) -> bool:
        """Whether there is a filter for this processor."""
        return seccomp.available()

    def sandbox_problem(self) -> str:
        """Start a Worker in the real Sandbox and let it look around; "" if it is ready, else what is wrong."""
        try:
            running = BubblewrapSandbox().start(Limits(), {}, _secrets())
        except SandboxUnavailable as error:
            return str(error)
        try:
            channel: Channel[WorkerMessage] = Channel(running.socket, WorkerMessage)
            message = channel.receive(timeout_s=START_LIMIT_S).message
        except (TimedOut, WireError):
            return f"the worker did not start: {running.output()[-500:].strip() or running.kill().description}"
        finally:
            running.kill()
        if isinstance(message, Unsafe):
            return "it is not tight: " + "; ".join(message.reasons)
        return "" if isinstance(message, Ready) else "the worker did not say that it is ready"

    def version(self, package: str) -> str | None:
        """The installed version of a Python package, or None."""
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def own_folder(self) -> Path:
        """Where the warpgrade that runs now lies."""
        return Path(__file__).resolve().parent

    def free_bytes(self, path: Path) -> int:
        """Free space where `path` lies."""
        return shutil.disk_usage(path).free

    def temporary(self) -> Path:
        """Where sandboxes get their scratch folders."""
        return Path(tempfile.gettempdir())


def examine(machine: Machine | None = None) -> list[Finding]:
    """Look at everything, in the order in which a person would mend it."""
    machine = machine or Machine()
    findings = [
        _linux(machine),
        _python(machine),
        _installed_as_wheel(machine),
        *_sandbox(machine),
        _cgroups(machine),
        *_packages(machine),
        _disk(machine),
    ]
    findings.append(_sandbox_as_a_whole(machine, [finding.name for finding in findings if finding.blocks]))
    return [*findings, _compiler(machine), _nvcc(machine), _gpu(machine)]


def report(findings: Sequence[Finding]) -> str:
    """The findings as text for a terminal."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        mark = {True: "on ", False: "off", None: "-  "}[finding.on]
        lines.append(f"{mark}  {finding.name:<{width}}  {finding.detail}")
        if finding.remedy:
            lines += [" " * (width + 7) + line for line in finding.remedy.splitlines()]
    blocking = [finding.name for finding in findings if finding.blocks]
    lines.append("")
    if blocking:
        lines.append(f"Nothing can be graded here until this is on: {', '.join(blocking)}.")
    else:
        lines.append("Everything that grading on the CPU needs is on.")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """The findings for a program: `{"model_tier": bool, "findings": [...]}`."""
    ready = not any(finding.blocks for finding in findings)
    document = {"model_tier": ready, "findings": [asdict(finding) for finding in findings]}
    return json.dumps(document, indent=2)


def exit_code(findings: Sequence[Finding]) -> int:
    """0 if everything that grading on the CPU needs is on, else 1."""
    return int(any(finding.blocks for finding in findings))


# --- the machine -------------------------------------------------------------------------------------------------


def _linux(machine: Machine) -> Finding:
    if machine.system != "Linux":
        return Finding(
            "Linux",
            False,
            f"this is {machine.system}: no sandbox and no Triton, so submissions of others cannot be graded",
            "Grade on Linux, or in WSL2 on Windows (wsl --install).",
            needed=True,
        )
    wsl = " (WSL2)" if "microsoft" in machine.release.lower() else ""
    return Finding("Linux", True, machine.release + wsl, needed=True)


def _python(machine: Machine) -> Finding:
    version = ".".join(machine.python)
    minor = (int(machine.python[0]), int(machine.python[1]))
    if minor < (3, 11):
        return Finding("Python", False, f"{version} is too old", "Install Python 3.11, then: make setup", needed=True)
    if minor > (3, 13):
        return Finding("Python", None, f"{version} has not been tried; 3.11 to 3.13 have", needed=True)
    return Finding("Python", True, version, needed=True)


def _installed_as_wheel(machine: Machine) -> Finding:
    folder = machine.own_folder()
    if {"site-packages", "dist-packages"} & set(folder.parts):
        return Finding("own wheel", True, "warpgrade is installed apart from the course folder")
    return Finding(
        "own wheel", None, f"warpgrade runs from {folder}: for its developers, not for a class", "make setup"
    )


def _disk(machine: Machine) -> Finding:
    folder = machine.temporary()
    free = machine.free_bytes(folder)
    enough = free >= _NEEDED_DISK_BYTES
    remedy = "" if enough else "Free some space, or name another folder: export TMPDIR=/path/with/space"
    return Finding("disk space", enough, f"{free / _GIB:.1f} GiB free in {folder}, 2 are needed", remedy, needed=True)


# --- the sandbox -------------------------------------------------------------------------------------------------


def _sandbox(machine: Machine) -> Iterable[Finding]:
    if machine.system != "Linux":
        return
    root = machine.uid() == 0
    yield Finding("started by", None, "root: real user ids inside" if root else "a user: a user namespace inside")
    namespaces = _user_namespaces(machine, root)
    apparmor = _apparmor(machine, root)
    yield namespaces
    yield apparmor
    yield _setpriv(machine, root)
    yield _seccomp(machine)
    yield _bubblewrap(machine, root, [finding.remedy for finding in (namespaces, apparmor) if finding.remedy])


def _user_namespaces(machine: Machine, root: bool) -> Finding:
    name = "user namespaces"
    if root:
        return Finding(name, None, "not used when started by root")
    if machine.read(_SYSCTL / "kernel/unprivileged_userns_clone") == "0":
        remedy = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
        return Finding(name, False, "closed to users by kernel.unprivileged_userns_clone", remedy, needed=True)
    limit = machine.read(_SYSCTL / "user/max_user_namespaces")
    if limit is None or limit == "0":
        said = "the kernel has none" if limit is None else "user.max_user_namespaces is 0"
        return Finding(name, False, said, "sudo sysctl -w user.max_user_namespaces=10000", needed=True)
    return Finding(name, True, f"up to {limit}", needed=True)


def _apparmor(machine: Machine, root: bool) -> Finding:
    """Ubuntu 24.04's rule. With it on, only the trial start of bubblewrap tells whether a profile lets it through."""
    name = "AppArmor's rule for user namespaces"
    if machine.read(_SYSCTL / "kernel/apparmor_restrict_unprivileged_userns") != "1":
        return Finding(name, None, "not in force here")
    if root:
        return Finding(name, None, "in force, but not for root")
    if _start(machine, root).status == 0:
        return Finding(name, None, "in force, and bubblewrap has a profile that lets it through")
    return Finding(name, False, "in force (Ubuntu 24.04 and newer), and bubblewrap has no profile", APPARMOR_REMEDY)


def _setpriv(machine: Machine, root: bool) -> Finding:
    if not root:
        return Finding("setpriv", None, "not used when started by a user")
    if machine.which("setpriv"):
        return Finding("setpriv", True, "drops root before student code runs", needed=True)
    return Finding("setpriv", False, "missing: root cannot be dropped", "apt-get install util-linux", needed=True)


def _seccomp(machine: Machine) -> Finding:
    name = "system-call filter"
    if not machine.has_system_call_filter():
        return Finding(name, False, "none for this processor", "Grade on x86_64 or aarch64.", needed=True)
    actions = machine.read(_SYSCTL / "kernel/seccomp/actions_avail") or ""
    if "errno" in actions.split():
        return Finding(name, True, "seccomp is in the kernel", needed=True)
    remedy = "Use a kernel with CONFIG_SECCOMP_FILTER: every distribution's has it."
    return Finding(name, False, "no seccomp in this kernel", remedy, needed=True)


def _bubblewrap(machine: Machine, root: bool, remedies: list[str]) -> Finding:
    name = "bubblewrap"
    if machine.which("bwrap") is None:
        install = "apt-get install bubblewrap" if root else "sudo apt-get install bubblewrap"
        return Finding(name, False, "missing: it is what the sandbox is made of", install, needed=True)
    version = machine.run("bwrap", "--version").output.removeprefix("bubblewrap").strip() or "of unknown version"
    trial = _start(machine, root)
    if trial.status == 0:
        return Finding(name, True, f"{version}, and it starts", needed=True)
    said = trial.output.splitlines()[-1] if trial.output else f"exit status {trial.status}"
    # What stands above already has its own remedy; a container is the usual reason that is left.
    remedy = (
        "First mend what stands above."
        if remedies
        else "In a container: start it with --security-opt seccomp=unconfined --cap-add SYS_ADMIN, or grade outside."
    )
    return Finding(name, False, f"{version} does not start: {said}", remedy, needed=True)


def _start(machine: Machine, root: bool) -> Ran:
    """Start `true` in the same kinds of namespaces, and with the same drop of privileges, as a Worker gets."""
    kinds = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    kinds += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    binds = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--"]
    if not root:
        return machine.run("bwrap", *kinds, "--unshare-user", "--disable-userns", *binds, "true")
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
        kinds += ["--cap-add", capability]
    drop = [
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]
    return machine.run("bwrap", *kinds, *binds, "setpriv", *drop, "true")


def _sandbox_as_a_whole(machine: Machine, blocking: list[str]) -> Finding:
    """The proof of all that stands above it."""
    name = "sandbox as a whole"
    if blocking:
        return Finding(name, None, f"not tried, because this is off: {', '.join(blocking)}", needed=True)
    if problem := machine.sandbox_problem():
        remedy = "The reason is in that message; docs/running-a-class.md has the usual ones."
        return Finding(name, False, problem, remedy, needed=True)
    return Finding(name, True, "a worker started in it, looked around, and found it tight", needed=True)


def _cgroups(machine: Machine) -> Finding:
    """Not needed: elsewhere memory is polled and the Worker killed, and processes are limited by RLIMIT_NPROC."""
    name = "memory and process limits by the kernel"
    if machine.can_make_control_groups():
        return Finding(name, True, "control groups")
    said = "no control groups that may be written to: a watchdog polls memory instead"
    return Finding(name, False, said, "Grade as root (sudo), outside a container, where this must not be missed.")


# --- packages and tiers --------------------------------------------------------------------------------------------


def _packages(machine: Machine) -> Iterable[Finding]:
    for package, oldest, beyond in (("torch", (2, 11), (2, 15)), ("triton", (3, 6), (3, 9)), ("numpy", (2, 1), (2, 5))):
        yield _package(machine, package, oldest, beyond)
    yield _interpreter(machine)
    yield _nbgrader(machine)


def _package(machine: Machine, name: str, oldest: tuple[int, int], beyond: tuple[int, int]) -> Finding:
    version = machine.version(name)
    if version is None:
        return Finding(name, False, "not installed", "make setup", needed=True)
    if oldest <= _minor(version) < beyond:
        return Finding(name, True, version, needed=True)
    tried = f"{_dotted(oldest)} up to, not including, {_dotted(beyond)}"
    return Finding(name, None, f"{version} has not been tried; tried were {tried}", "make setup", needed=True)


def _nbgrader(machine: Machine) -> Finding:
    if machine.version("nbgrader") is None:
        detail = "not installed: this machine judges (`judge --out`), and one with a gradebook records"
        return Finding("nbgrader", False, detail, "make setup")
    return replace(_package(machine, "nbgrader", (0, 9), (0, 10)), needed=False)


def _interpreter(machine: Machine) -> Finding:
    name = "Triton's interpreter"
    triton, numpy = machine.version("triton"), machine.version("numpy")
    if not triton or not numpy:
        return Finding(name, False, "needs triton and numpy", "make setup", needed=True)
    if _minor(triton) <= (3, 6) and _minor(numpy) >= (2, 4):
        detail = f"triton {triton} cannot interpret with numpy {numpy}: it breaks from numpy 2.4 on"
        return Finding(name, False, detail, "pip install 'numpy<2.4'      (or triton 3.7 or newer)", needed=True)
    return Finding(name, True, f"triton {triton} with numpy {numpy}", needed=True)


def _compiler(machine: Machine) -> Finding:
    said = machine.run("g++", "--version").output.splitlines() if machine.which("g++") else []
    if said:
        return Finding("C++ compiler", True, said[0])
    return Finding(
        "C++ compiler", False, "no g++: no CUDA exercises, and no Triton on a GPU", "sudo apt-get install g++"
    )


def _nvcc(machine: Machine) -> Finding:
    if machine.which("nvcc") and (ran := machine.run("nvcc", "--version")).status == 0:
        release = next((line for line in ran.output.splitlines() if "release" in line), "present")
        return Finding("nvcc", True, release.removeprefix("Cuda compilation tools, "))
    return Finding("nvcc", False, "none: CUDA C++ cannot be compiled for a GPU", "pip install nvidia-cuda-nvcc")


def _gpu(machine: Machine) -> Finding:
    name = "NVIDIA GPU"
    pending = "speed stays pending, and correctness is judged on the CPU"
    if machine.which("nvidia-smi") is None:
        return Finding(name, False, f"no driver found: {pending}")
    query = ("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    ran = machine.run("nvidia-smi", *query)
    if ran.status != 0 or not ran.output:
        said = ran.output.splitlines()[-1] if ran.output else f"exit status {ran.status}"
        return Finding(name, False, f"nvidia-smi says: {said}; {pending}", "nvidia-smi")
    return Finding(name, True, "; ".join(line.strip() for line in ran.output.splitlines()))


def _secrets() -> list[Path]:
    """What must not show inside: the course around the current folder, if there is one."""
    try:
        return Course.find().secrets()
    except CourseError:
        return []


def _minor(version: str) -> tuple[int, int]:
    """(major, minor) of a version such as 2.14.1, 2.11.0+cu130 or 3.8.0rc1; (0, 0) for what is not one."""
    numbers = []
    for part in version.split("+")[0].split(".")[:2]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
