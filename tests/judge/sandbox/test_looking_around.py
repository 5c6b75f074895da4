"""The real sandbox from inside: what its inmate cannot see, read, write, reach or call."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from warpgrade.judge.sandbox import bubblewrap

REPOSITORY = Path(__file__).resolve().parents[3]
#: Where `import warpgrade` finds it: the repository for its developers, site-packages for everybody else.
INSTALLED = Path(bubblewrap.__file__).resolve().parents[3]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="about the sandbox that root starts")


def test_the_course_cannot_be_seen(ask: Any, tiny: Any) -> None:
    for name in ("submitted", "gradebook.db", ".git"):
        (tiny.root / name).mkdir()
    looked = [
        REPOSITORY / name
        for name in ("source", "course_tests", ".git", "tests", "warpgrade", "gradebook.db", "pyproject.toml")
    ]
    looked += [
        *tiny.course.secrets(),
        tiny.root,
        Path.home() / ".bashrc",
        Path.home() / ".ssh",
        Path("/home"),
        Path("/var"),
        Path("/mnt"),
    ]
    code = f"say([path for path in {[str(path) for path in looked]} if os.path.lexists(path)])"
    assert ask(code, secrets=tiny.course.secrets()) == []


def test_of_the_installation_only_the_workers_side_is_there(ask: Any) -> None:
    here = ask(
        "say([sorted(os.listdir('/worker')), sorted(n for n in os.listdir('/worker/warpgrade') if n != '__pycache__')])"
    )
    assert here[0] == ["warpgrade"]
    assert set(here[1]) <= {"__init__.py", "wire", "worker", "model"}
    code = """
    import importlib.util
    say([name for name in ("judge", "course", "submission", "grading") if importlib.util.find_spec("warpgrade." + name)])
    """
    assert ask(code) == []


def test_no_secret_of_the_environment_comes_along(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_TOKEN", "tell-nobody")
    code = """
    found = dict(os.environ)
    texts = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                texts.append(open(f"/proc/{pid}/{name}").read())
            except OSError:
                pass
    say([sorted(found), "tell-" + "nobody" in "".join(texts), len(texts)])
    """
    variables, leaked, read = ask(code)
    assert "A_SECRET_TOKEN" not in variables
    assert set(variables) <= {
        "HOME",
        "LANG",
        "LC_CTYPE",
        "OMP_NUM_THREADS",
        "PATH",
        "PWD",
        "TMPDIR",
        "TRITON_CACHE_DIR",
        "USER",
    }
    assert read > 0
    assert not leaked


def test_other_processes_cannot_be_seen_or_signalled(ask: Any) -> None:
    seen, signalled = ask(f"""
    seen = [open(f"/proc/{{pid}}/comm").read().strip() for pid in os.listdir("/proc") if pid.isdigit()]
    say([seen, attempt(os.kill, {os.getpid()}, 0)])
    """)
    assert set(seen) <= {"bwrap", "python", "python3", Path(sys.executable).resolve().name}
    assert signalled == "ESRCH"


def test_descriptors_that_are_open_lead_nowhere(ask: Any) -> None:
    """Beside the wire: standard streams alone, none of them a folder or a file of the outside."""
    kinds = ask("""
    import stat
    say({fd: os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)})
    """)
    for target in kinds.values():
        assert target.startswith(("socket:", "pipe:", "/dev/null", "/proc/"))


def test_it_writes_to_its_own_temporary_folders_and_nowhere_else(ask: Any) -> None:
    code = """
    writable = []
    for folder, folders, files in os.walk("/"):
        if folder.startswith(("/proc", "/sys")) or folder.count("/") > 4:
            folders[:] = []
            continue
        if os.access(folder, os.W_OK):
            writable.append(folder)
        writable += [p for p in (os.path.join(folder, f) for f in files) if not os.path.islink(p) and os.access(p, os.W_OK)]
    say(writable)
    """
    writable = set(ask(code))
    assert {"/tmp", "/dev/shm"} <= writable
    devices = {
        f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx", "console")
    }
    assert {path for path in writable if not path.startswith(("/tmp", "/dev/shm"))} <= devices


def test_writes_are_refused_whatever_the_way(ask: Any) -> None:
    answers = ask("""
    def write(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
    paths = ["/x", "/usr/x", "/etc/passwd", "/worker/warpgrade/__init__.py", "/worker/warpgrade/worker/x.py", "/dev/x", sys.executable,
             sys.prefix + "/x", "/proc/sys/kernel/hostname", "/usr/lib/x"]
    say([attempt(write, path) for path in paths] + [attempt(os.symlink, "/tmp", "/y"), attempt(os.chmod, "/etc/passwd", 0o777)])
    """)
    assert set(answers) <= {"EROFS", "EACCES", "EPERM"}


def test_files_that_it_writes_do_not_reach_the_outside(ask: Any, tmp_path: Path) -> None:
    name = f"/tmp/warpgrade-test-{os.getpid()}"
    assert ask(f"say(attempt(os.mkdir, {name!r}))") == "done"
    assert not Path(name).exists()


def test_there_is_no_network(ask: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0warpgrade-test-{os.getpid()}")
        abstract.listen()
        answers = ask(f"""
        def connect(family, address):
            with socket.socket(family, socket.SOCK_STREAM) as s:
                s.settimeout(5.0)
                s.connect(address)
        say({{
            "loopback": attempt(connect, socket.AF_INET, ("127.0.0.1", {host.getsockname()[1]})),
            "internet": attempt(connect, socket.AF_INET, ("192.0.2.1", 80)),
            "internet6": attempt(connect, socket.AF_INET6, ("2001:db8::1", 80)),
            "abstract": attempt(connect, socket.AF_UNIX, "\\0warpgrade-test-{os.getpid()}"),
            "pair": attempt(socket.socketpair),
            "vsock": attempt(socket.socket, 40, socket.SOCK_STREAM),
            "packet": attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW),
            "alg": attempt(socket.socket, 38, 5),
            "raw": attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
            "names": [name for _, name in socket.if_nameindex()],
        }})
        """)
    assert answers.pop("names") == ["lo"]
    assert answers.pop("raw") == "EPERM"
    assert answers.pop("pair") == "EPERM"
    for family in ("abstract", "vsock", "packet", "alg"):
        assert answers.pop(family) == "EAFNOSUPPORT"
    assert set(answers.values()) <= {"ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"}


def test_calls_that_attacks_begin_with_are_refused(ask: Any) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("numbers of x86_64")
    answers = ask("""
    calls = {"unshare": (272, 0x10000000), "unshare mounts": (272, 0x20000), "setns": (308, 0, 0), "ptrace": (101, 0, 0, 0, 0),
             "mount": (165, b"x", b"/tmp", b"tmpfs", 0, 0), "umount": (166, b"/tmp", 0), "pivot_root": (155, b"/", b"/"),
             "chroot": (161, b"/tmp"), "bpf": (321, 0, 0, 0), "io_uring": (425, 8, 0), "perf": (298, 0, 0, 0, 0, 0), "userfaultfd": (323, 0),
             "keyctl": (250, 0, 0), "fsopen": (430, b"tmpfs", 0), "open_tree": (428, 0, b"/", 1), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
             "clone a user namespace": (56, 0x10000000 | 17, 0, 0, 0, 0), "open_by_handle_at": (304, 0, 0, 0), "reboot": (169, 0, 0, 0)}
    say({name: system_call(*call) for name, call in calls.items()} | {"clone3": system_call(435, 0, 0)})
    """)
    assert answers.pop("clone3") == "ENOSYS"
    assert set(answers.values()) == {"EPERM"}, answers


def test_programs_with_the_set_user_bit_gain_nothing(ask: Any) -> None:
    with_bit = [
        str(path) for path in Path("/usr/bin").iterdir() if path.is_file() and path.stat().st_mode & stat.S_ISUID
    ]
    if not with_bit:
        pytest.skip("no such program here")
    assert ask("say([line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs')])") == ["1"]


def test_it_runs_as_nobody_that_owns_anything(ask: Any, inside: Any) -> None:
    uid, groups, name = ask("import pwd\nsay([os.getuid(), os.getgroups(), pwd.getpwuid(os.getuid()).pw_name])")
    assert (uid, name) == (inside.uid, "student")
    assert set(groups) <= {uid, 65534}
    with pytest.raises(KeyError):
        __import__("pwd").getpwuid(2_000_000_000 + os.getpid())
