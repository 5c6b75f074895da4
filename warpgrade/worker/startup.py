"""The start-up assertion: looks, from inside, whether the sandbox is what it should be, before any student code runs.

The Sandbox is built outside by many flags; one wrong bind or one old bubblewrap and hidden tests are readable. So the
inside is inspected each time. A finding is our fault, never the student's: the Judge then refuses to grade.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import msgspec

#: What the root of the sandbox may hold, beside the first components of `Plan.visible`.
_ROOT_NAMES = {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "tmp", "usr", "worker"}
_CLONE_NEWUSER = 0x10000000


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the sandbox is meant to be, as the Judge tells the Worker on its command line (JSON)."""

    sandboxed: bool
    #: Paths that must not exist in here: hidden tests, solutions, the gradebook, the repository.
    secret: list[str] = []
    #: Folders bound into the sandbox; beside them, their parents must be empty.
    visible: list[str] = []
    #: Kernels are launched on the GPU, and not interpreted.
    gpu: bool = False


def problems(plan: Plan) -> list[str]:
    """What is wrong with this sandbox, as sentences; empty when all is well."""
    found = [*_identity(), *_network(), *_processes(), *_user_namespaces()]
    found += [f"{path} can be seen" for path in plan.secret if os.path.lexists(path)]
    found += _stray_files(plan.visible)
    writable = ["/", "/usr", "/etc", "/worker", *plan.visible]
    found += [f"{path} can be written to" for path in writable if os.access(path, os.W_OK)]
    return found


def _identity() -> Iterable[str]:
    if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()):
        yield "it runs as root"
    status = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if ":" in line
    )
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        if int(status.get(name, "1").strip(), 16):
            yield f"it has capabilities ({name} {status.get(name, '?').strip()})"
    if status.get("NoNewPrivs", "").strip() != "1":
        yield "it may gain privileges (NoNewPrivs is off)"
    if status.get("Seccomp", "").strip() != "2":
        yield "it has no system-call filter (Seccomp is off)"
    if set(os.getgroups()) & {0}:
        yield "it is in the group root"


def _network() -> Iterable[str]:
    lines = Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    interfaces = {line.split(":", 1)[0].strip() for line in lines} - {"lo"}
    if interfaces:
        yield f"it has network interfaces ({', '.join(sorted(interfaces))})"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address (RFC 5737); connecting UDP sends nothing
        except OSError:
            return
    yield "it has a route to a network"


def _processes() -> Iterable[str]:
    if Path("/proc/1/comm").read_text(encoding="utf-8").strip() != "bwrap":
        yield "it sees processes outside the sandbox"


def _user_namespaces() -> Iterable[str]:
    # In a child: succeeding would change this process. A user namespace hands its maker every capability inside it,
    # and with them far more of the kernel to attack.
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        yield "it can make user namespaces"


def _stray_files(visible: list[str]) -> Iterable[str]:
    allowed: dict[str, set[str]] = {"/": set(_ROOT_NAMES)}
    for path in visible:
        parts = Path(path).parts[1:]
        for depth, part in enumerate(parts):
            allowed.setdefault("/" + "/".join(parts[:depth]), set()).add(part)
    for folder, names in allowed.items():
        inside_a_bind = any(folder == path or folder.startswith(path.rstrip("/") + "/") for path in [*visible, "/usr"])
        if inside_a_bind or not Path(folder).is_dir():
            continue
        stray = sorted({path.name for path in Path(folder).iterdir()} - names)
        if stray:
            yield f"{folder} shows more than it should ({', '.join(stray[:5])})"
