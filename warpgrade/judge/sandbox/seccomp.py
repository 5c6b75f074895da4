"""A system-call filter: what no kernel of a student ever needs, and what attacks on the operating system begin with.

A deny-list, because CUDA, torch and compilers use much of the rest. Denied: other namespaces, mounts, tracing, keys,
bpf, perf, io_uring, userfaultfd, modules, clocks, and sockets other than IP and netlink: AF_VSOCK reaches the host of
a virtual machine and is not covered by a network namespace; descriptors in flight in Unix sockets are counted for the
whole user, so one submission's could keep the answers of another from being sent. `clone3` answers ENOSYS, so that
libc falls back to `clone`, whose flags a filter can read: CLONE_NEWUSER is refused there.

CUDA's driver does not start without Unix sockets (error 304 on an H200, driver 580.159), so the sandbox of the GPU
tier lets them pass. Their names lie in a network namespace and a file system of its own.

Numbers are from the Linux headers (asm/unistd_64.h; asm-generic/unistd.h for aarch64).
"""

from __future__ import annotations

import errno
import platform
import struct

_LOAD_WORD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_CLONE_NEWUSER = 0x10000000
_X32_BIT = 0x40000000
_AF_UNIX = 1
_SOCKET_FAMILIES = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK

#: From 424 on, all architectures share their numbers: mounts (428 to 433, 442), io_uring (425 to 427), memfd_secret.
_DENIED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 447)

_MACHINES = {
    "x86_64": {
        "architecture": 0xC000003E,
        "clone": 56, "clone3": 435, "socket": 41, "socketpair": 53,
        "denied": (
            272, 308,  # unshare, setns
            165, 166, 155, 161,  # mount, umount2, pivot_root, chroot
            101, 310, 311,  # ptrace, process_vm_readv, process_vm_writev
            248, 249, 250,  # add_key, request_key, keyctl
            321, 298, 323,  # bpf, perf_event_open, userfaultfd
            175, 313, 176, 246, 320,  # init_module, finit_module, delete_module, kexec_load, kexec_file_load
            169, 167, 168, 163, 179,  # reboot, swapon, swapoff, acct, quotactl
            164, 227, 159, 305,  # settimeofday, clock_settime, adjtimex, clock_adjtime
            303, 304, 103, 212,  # name_to_handle_at, open_by_handle_at, syslog, lookup_dcookie
        ),
    },
    "aarch64": {
        "architecture": 0xC00000B7,
        "clone": 220, "clone3": 435, "socket": 198, "socketpair": 199,
        "denied": (
            97, 268, 40, 39, 41, 51, 117, 270, 271, 217, 218, 219, 280, 241, 282,
            105, 273, 106, 104, 294, 142, 224, 225, 89, 60, 170, 112, 171, 266, 264, 265, 116, 18,
        ),
    },
}  # fmt: skip


def available() -> bool:
    """Whether there is a filter for this machine's architecture."""
    return platform.machine() in _MACHINES


def program(machine: str | None = None, *, unix_sockets: bool = False) -> bytes:
    """The filter as BPF, for bubblewrap's `--seccomp`; `unix_sockets` lets them pass, for CUDA.

    Raises KeyError for an architecture without one.
    """
    table = _MACHINES[machine or platform.machine()]
    denied = table["denied"]
    assert isinstance(denied, tuple)
    if not unix_sockets:
        denied = (*denied, table["socketpair"])
    code = [
        _op(_LOAD_WORD, _ARCHITECTURE),
        _op(_JUMP_EQUAL, table["architecture"], 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD_WORD, _NUMBER),
        _op(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        _op(_RETURN, _ERRNO | errno.ENOSYS),
        _op(_JUMP_EQUAL, table["clone3"], 0, 1),
        _op(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for number in (*denied, *_DENIED_EVERYWHERE):
        code += [_op(_JUMP_EQUAL, number, 0, 1), _op(_RETURN, _ERRNO | errno.EPERM)]
    code += [
        _op(_JUMP_EQUAL, table["clone"], 0, 4),
        _op(_LOAD_WORD, _FIRST_ARGUMENT),
        _op(_AND, _CLONE_NEWUSER),
        _op(_JUMP_EQUAL, 0, 0, 1),
        _op(_RETURN, _ALLOW),
        # Reached by a clone with CLONE_NEWUSER, and jumped over by every other call but that one.
    ]
    code += [
        _op(_LOAD_WORD, _NUMBER),
        _op(_JUMP_EQUAL, table["clone"], 0, 1),
        _op(_RETURN, _ERRNO | errno.EPERM),
        _op(_JUMP_EQUAL, table["socket"], 1, 0),
        _op(_RETURN, _ALLOW),
        _op(_LOAD_WORD, _FIRST_ARGUMENT),
    ]
    for family in (*_SOCKET_FAMILIES, *([_AF_UNIX] if unix_sockets else [])):
        code += [_op(_JUMP_EQUAL, family, 0, 1), _op(_RETURN, _ALLOW)]
    code += [_op(_RETURN, _ERRNO | errno.EAFNOSUPPORT)]
    return b"".join(code)


def _op(code: int, value: object, if_true: int = 0, if_false: int = 0) -> bytes:
    assert isinstance(value, int)
    return struct.pack("<HBBI", code, if_true, if_false, value)
