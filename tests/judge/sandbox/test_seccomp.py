"""The system-call filter, run by a small interpreter of BPF: what it says to each call on both processors."""

from __future__ import annotations

import errno
import struct

import pytest

from warpgrade.judge.sandbox import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: From the Linux headers: unistd_64.h, and asm-generic/unistd.h for aarch64.
NUMBERS = {
    "x86_64": {
        "read": 0, "write": 1, "mmap": 9, "ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "execve": 59,
        "ptrace": 101, "syslog": 103, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "init_module": 175,
        "unshare": 272, "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
        "bpf": 321, "userfaultfd": 323, "keyctl": 250, "memfd_create": 319,
    },
    "aarch64": {
        "read": 63, "write": 64, "mmap": 222, "ioctl": 29, "socket": 198, "socketpair": 199, "clone": 220, "execve": 221,
        "ptrace": 117, "syslog": 116, "pivot_root": 41, "chroot": 51, "mount": 40, "umount2": 39, "init_module": 105,
        "unshare": 97, "perf_event_open": 241, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270,
        "bpf": 280, "userfaultfd": 282, "keyctl": 219, "memfd_create": 279,
    },
}  # fmt: skip
PROGRAMS = {machine: list(struct.iter_unpack("<HBBI", seccomp.program(machine))) for machine in ARCHITECTURES}
SHARED = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
          "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "clone3": 435}  # fmt: skip
CLONE_NEWUSER = 0x10000000


def verdict(machine: str, number: int, first: int = 0, architecture: int | None = None) -> int:
    """What the kernel would do: the return value of the program for this call."""
    data = struct.pack("<IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, first, 0, 0, 0, 0, 0)
    code = PROGRAMS[machine]
    accumulator = place = 0
    while True:
        operation, if_true, if_false, value = code[place]
        place += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x15:
            place += if_true if accumulator == value else if_false
        elif operation == 0x35:
            place += if_true if accumulator >= value else if_false
        else:
            assert operation == 0x06
            return value


def call(machine: str, name: str, first: int = 0) -> int:
    return verdict(machine, (NUMBERS[machine] | SHARED)[name], first)


pytestmark = pytest.mark.parametrize("machine", sorted(NUMBERS))


@pytest.mark.parametrize("name", ["read", "write", "mmap", "ioctl", "execve", "memfd_create"])
def test_ordinary_calls_pass(machine: str, name: str) -> None:
    assert call(machine, name) == ALLOW


@pytest.mark.parametrize(
    "name", [name for name in (NUMBERS["x86_64"] | SHARED)
             if name not in {"read", "write", "mmap", "ioctl", "socket", "clone", "clone3", "execve", "memfd_create"}]
)  # fmt: skip
def test_what_attacks_begin_with_is_refused(machine: str, name: str) -> None:
    assert call(machine, name) == EPERM


def test_threads_and_processes_pass_and_user_namespaces_do_not(machine: str) -> None:
    assert call(machine, "clone", 0x3D0F00) == ALLOW, "as pthread_create"
    assert call(machine, "clone", 17) == ALLOW, "as fork"
    assert call(machine, "clone", CLONE_NEWUSER | 17) == EPERM
    assert call(machine, "clone3") == ENOSYS, "so that libc falls back to clone"


@pytest.mark.parametrize(
    ("family", "passes"),
    [(1, False), (2, True), (10, True), (16, True), (17, False), (40, False), (38, False), (0, False)],
)
def test_families_of_sockets(machine: str, family: int, passes: bool) -> None:
    assert call(machine, "socket", family) == (ALLOW if passes else EAFNOSUPPORT)


def test_another_architecture_is_killed_and_x32_is_not_there(machine: str) -> None:
    assert verdict(machine, 0, architecture=0x40000003) == KILL, "i386, by int 0x80"
    assert verdict(machine, 0x40000000) == ENOSYS


def test_every_call_ends_in_a_return(machine: str) -> None:
    assert {verdict(machine, number) for number in range(600)} == {ALLOW, EPERM, ENOSYS, EAFNOSUPPORT}


def test_for_cuda_unix_sockets_pass_and_nothing_else_does(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = NUMBERS[machine]
    for_cuda = list(struct.iter_unpack("<HBBI", seccomp.program(machine, unix_sockets=True)))
    changed = []
    for name in numbers:
        for family in (1, 2, 40):
            before = verdict(machine, numbers[name], family)
            with monkeypatch.context() as patched:
                patched.setitem(PROGRAMS, machine, for_cuda)
                after = verdict(machine, numbers[name], family)
            if before != after:
                changed.append((name, family, after))
    assert changed == [("socket", 1, ALLOW), *(("socketpair", family, ALLOW) for family in (1, 2, 40))]
