"""The real sandbox: tight as built, loose when a flag is missing, and a wall to whoever runs inside."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpgrade.course import Course, Limits
from warpgrade.judge.sandbox import SandboxUnavailable, bubblewrap, seccomp
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox, python_folders
from warpgrade.judge.sandbox.cgroup import ControlGroup
from warpgrade.judge.sandbox.process import wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
#: Where `import warpgrade` finds it: the repository for its developers, site-packages for everybody else.
INSTALLED = Path(bubblewrap.__file__).resolve().parents[3]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="about the sandbox that root starts")


# --- the start-up assertion -----------------------------------------------------------------------------------------


def test_as_built_it_is_tight(ask: Any) -> None:
    secrets = Course(REPOSITORY).secrets()
    assert ask("say(problems())", secrets=secrets) == []


def before_sealing(*more: str) -> Callable[[list[str]], list[str]]:
    """Flags with `more` put in where the root can still be written to, and /tmp is there."""

    def change(flags: list[str]) -> list[str]:
        place = flags.index("--remount-ro", flags.index("--proc"))
        return [*flags[:place], *more, *flags[place:]]

    return change


def without(*gone: str) -> Callable[[list[str]], list[str]]:
    """Flags without this run of them."""

    def change(flags: list[str]) -> list[str]:
        place = next(i for i in range(len(flags)) if tuple(flags[i : i + len(gone)]) == gone)
        return flags[:place] + flags[place + len(gone) :]

    return change


def without_filter(flags: list[str]) -> list[str]:
    place = flags.index("--seccomp")
    return flags[:place] + flags[place + 2 :]


def as_root(command: list[str]) -> list[str]:
    return command[: next(i for i, word in enumerate(command) if word.endswith("setpriv"))]


def with_inherited_capability(command: list[str]) -> list[str]:
    return [word for word in command if not word.startswith("--inh") and not word.startswith("--bounding")] + [
        "--inh-caps=+setuid"
    ]


PLANTED = {
    "network": ({"flags": without("--unshare-net")}, "network"),
    "other processes": ({"flags": without("--unshare-pid")}, "processes outside"),
    "no filter": ({"flags": without_filter}, "no system-call filter"),
    "a folder too many": ({"flags": before_sealing("--dir", "/gradebooks")}, "/ shows more than it should (gradebooks)"),
    "a writable root": ({"flags": lambda flags: [*without("--remount-ro", "/")(flags), "--chmod", "0777", "/"]}, "/ can be written to"),
    "root": ({"drop": as_root}, "it runs as root"),
    "capabilities": ({"drop": as_root}, "capabilities (CapEff"),
    "an inherited capability": ({"drop": with_inherited_capability}, "capabilities (CapInh"),
}  # fmt: skip


@only_root
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, ask: Any) -> None:
    changes, words = PLANTED[name]
    if name == "network" and len(os.listdir("/sys/class/net")) < 2:  # noqa: PTH208
        pytest.skip("this machine has no network to show")
    found = ask("say(problems())", **changes)
    assert any(words in sentence for sentence in found), found


def test_a_visible_secret_is_found(ask: Any, tmp_path: Path) -> None:
    secret = tmp_path / "course_tests"
    secret.mkdir()
    parents = [flag for folder in reversed(secret.parents[:-1]) for flag in ("--perms", "0755", "--dir", str(folder))]
    found = ask(
        "say(problems())", secrets=[secret], flags=before_sealing(*parents, "--ro-bind", str(secret), str(secret))
    )
    assert f"{secret} can be seen" in found


@only_root
def test_user_namespaces_are_found_where_the_filter_lets_them_pass(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "program", lambda: struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))
    found = ask("say(problems())")
    assert found == ["it can make user namespaces"]


def test_a_secret_inside_the_python_environment_is_refused_before_anything_starts() -> None:
    with pytest.raises(SandboxUnavailable, match="inside the Python environment"):
        BubblewrapSandbox().start(Limits(), {}, [Path(sys.prefix) / "bin"])


@pytest.mark.parametrize("prefix", ["/", "/home", "/root"])
def test_an_environment_that_is_more_than_python_is_refused(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    if Path(prefix).is_dir():
        with pytest.raises(SandboxUnavailable, match="more than Python"):
            python_folders()


@pytest.mark.parametrize("tool", ["bwrap", "prlimit"])
def test_a_missing_tool_is_named_with_its_package(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else which(name))
    with pytest.raises(SandboxUnavailable, match=rf"{tool} is not installed.*apt-get install"):
        BubblewrapSandbox()


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "available", lambda: False)
    with pytest.raises(SandboxUnavailable, match="filter"):
        BubblewrapSandbox()


# --- looking around -------------------------------------------------------------------------------------------------


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
            "vsock": attempt(socket.socket, 40, socket.SOCK_STREAM),
            "packet": attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW),
            "alg": attempt(socket.socket, 38, 5),
            "raw": attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
            "names": [name for _, name in socket.if_nameindex()],
        }})
        """)
    assert answers.pop("names") == ["lo"]
    assert answers.pop("raw") == "EPERM"
    assert (answers.pop("vsock"), answers.pop("packet"), answers.pop("alg")) == ("EAFNOSUPPORT",) * 3
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


# --- breaking things ------------------------------------------------------------------------------------------------


@only_root
def test_a_fork_bomb_is_bounded_and_gone_after_kill(start: Any, inside: Any) -> None:
    worker = start(
        """
        count = 0
        while True:
            try:
                if os.fork() == 0:
                    os.setsid()
                    while True:
                        try: os.fork()
                        except OSError: pass
                count += 1
            except OSError:
                break
        say(count)
        while True:
            try: os.fork()
            except OSError: pass
        """,
        Limits(processes=40),
    )
    assert inside.hear(worker) < 40
    assert len(inside.processes_of(inside.uid)) <= 40
    worker.kill()
    assert inside.gone(inside.uid)


@only_root
def test_threads_are_bounded_too(ask: Any) -> None:
    count = ask(
        """
        import threading
        stop, count = threading.Event(), 0
        try:
            while count < 500:
                threading.Thread(target=stop.wait, daemon=True).start()
                count += 1
        except RuntimeError:
            pass
        stop.set()
        say(count)
        """,
        Limits(processes=40),
    )
    assert count < 40


HOG = """
say("ready")
blocks = []
while True:
    blocks.append(b"x" * (8 << 20))
"""


def test_memory_is_limited_and_named(start: Any, inside: Any) -> None:
    worker = start(HOG, Limits(memory_bytes=200 << 20))
    assert inside.hear(worker) == "ready"
    assert inside.ended(worker)
    end = worker.kill()
    assert end.out_of_memory
    assert "memory" in end.description


def test_memory_of_a_child_counts(start: Any, inside: Any) -> None:
    worker = start(
        "if os.fork(): os.wait(); say('child ended'); time.sleep(60)\n" + HOG, Limits(memory_bytes=200 << 20)
    )
    assert inside.hear(worker) == "ready"
    inside.hear(worker)
    assert worker.kill().out_of_memory


def test_without_a_control_group_a_watchdog_limits_memory(
    start: Any, inside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlGroup, "create", classmethod(lambda cls, *arguments: None))
    worker = start(HOG, Limits(memory_bytes=300 << 20))
    assert inside.hear(worker) == "ready"
    assert inside.ended(worker)
    assert worker.kill().out_of_memory
    assert inside.gone(inside.uid) or not inside.root


def test_disk_is_limited(ask: Any) -> None:
    one, errors, total = ask(
        """
        def fill(path):
            size = 0
            with open(path, "wb", buffering=0) as file:
                while True:
                    size += file.write(b"x" * (1 << 20))
        answers = [attempt(fill, f"/tmp/{i}") for i in range(4)]
        say([answers[0], answers, sum(os.path.getsize(f"/tmp/{i}") for i in range(4) if os.path.exists(f"/tmp/{i}"))])
        """,
        Limits(scratch_bytes=8 << 20),
    )
    assert one in ("EFBIG", "ENOSPC")
    assert set(errors) <= {"EFBIG", "ENOSPC"}
    assert total <= 8 << 20


def test_a_flood_of_prints_neither_blocks_nor_fills_the_judge(ask: Any, start: Any, inside: Any) -> None:
    worker = start(
        "for i in range(100): os.write(1, b'x' * 500_000); os.write(2, b'y' * 500_000)\nsay('done')\nwire.recv(1)"
    )
    assert inside.hear(worker) == "done"
    worker.kill()
    assert len(worker.output()) < 40_000
    assert "more bytes, not kept" in worker.output()


def test_output_that_is_no_text_can_be_read(start: Any, inside: Any) -> None:
    worker = start("os.write(1, bytes(range(256)))\nsay('done')\nwire.recv(1)")
    assert inside.hear(worker) == "done"
    assert wait_until(lambda: len(worker.output()) >= 200, 10.0)
    worker.output().encode("utf-8")


def test_open_files_are_limited(ask: Any) -> None:
    assert ask("import resource\nsay(resource.getrlimit(resource.RLIMIT_NOFILE))")[1] <= 1024
    assert (
        ask("kept = []\nsay(attempt(lambda: [kept.append(os.open('/dev/null', 0)) for _ in range(10**5)]))") == "EMFILE"
    )


def test_no_core_files_and_a_limit_on_processor_time(ask: Any) -> None:
    core, cpu = ask(
        "import resource as r\nsay([r.getrlimit(r.RLIMIT_CORE)[1], r.getrlimit(r.RLIMIT_CPU)[1]])",
        Limits(exercise_s=7.0),
    )
    assert (core, cpu) == (0, 14)


def test_limits_cannot_be_raised(ask: Any) -> None:
    code = "import resource as r\ntry:\n    r.setrlimit(r.RLIMIT_NOFILE, (10**6, 10**6))\nexcept (ValueError, OSError):\n    say('refused')\nsay('raised')"
    assert ask(code) == "refused"


@pytest.mark.parametrize(
    ("code", "words"),
    [("os._exit(3)", "status 3"), ("os._exit(0)", "status 0"), ("raise SystemExit(5)", "status 5"), ("os.kill(os.getpid(), 11)", "SIGSEGV"),
     ("os.abort()", "SIGABRT"), ("ctypes.string_at(0)", "SIGSEGV"), ("os.kill(os.getpid(), 9)", "SIGKILL")],
)  # fmt: skip
def test_how_it_ended_is_said(code: str, words: str, start: Any, inside: Any) -> None:
    worker = start(code)
    assert inside.ended(worker)
    assert wait_until(lambda: worker._process.poll() is not None, 20.0)
    end = worker.kill()
    assert words in end.description
    assert not end.out_of_memory
    assert worker.kill() == end, "asked again it says the same"


@pytest.mark.parametrize(
    "code",
    ["say('on')\nos.kill(os.getpid(), 19)", "import signal\nfor s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\nsay('on')\nwhile True: time.sleep(1)",
     "say('on')\nwhile True: pass", "os.closerange(0, 3)\nsay('on')\nwhile True: time.sleep(1)", "os.setsid() if os.fork() == 0 else 0\nsay('on')\ntime.sleep(99)"],
    ids=["stops itself", "ignores SIGTERM", "busy", "closes its output", "new session"],
)  # fmt: skip
def test_whatever_it_does_it_is_gone_after_kill(code: str, start: Any, inside: Any) -> None:
    worker = start(code)
    assert inside.hear(worker) == "on"
    assert "ended by the judge" in worker.kill().description
    assert not inside.root or inside.gone(inside.uid)


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        say("daemon")
        while True:
            time.sleep(1)
    os._exit(0)
"""


@only_root
@pytest.mark.parametrize("rest", ["time.sleep(99)", "os._exit(0)"], ids=["parent lives", "parent ends"])
def test_a_daemon_is_gone_after_kill(rest: str, start: Any, inside: Any) -> None:
    worker = start(DAEMON + rest)
    assert inside.hear(worker) in ("daemon", None)
    worker.kill()
    assert inside.gone(inside.uid)


@only_root
def test_two_sandboxes_of_two_judges_have_two_uids_and_do_not_meet(ask: Any, start: Any, inside: Any) -> None:
    assert BubblewrapSandbox()._uid == 2_000_000_000 + os.getpid()


@only_root
def test_a_judge_that_is_killed_leaves_nobody_behind(tmp_path: Path, inside: Any) -> None:
    """kill -9: no code of the judge's runs any more. What is left must die by itself, daemons included."""
    script = tmp_path / "judge.py"
    helper = Path(__file__).with_name("conftest.py")
    script.write_text(
        textwrap.dedent(f"""
        import importlib.util, time
        from warpgrade.course import Limits
        spec = importlib.util.spec_from_file_location("helper", {str(helper)!r})
        helper = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(helper)
        worker = helper.Probe({DAEMON + "time.sleep(99)"!r}).start(Limits(), {{}}, [])
        print(helper.hear(worker), flush=True)
        time.sleep(99)
    """)
    )
    with subprocess.Popen([sys.executable, "-B", str(script)], stdout=subprocess.PIPE, cwd="/", text=True) as judge:
        assert judge.stdout is not None
        assert judge.stdout.readline().strip() == "daemon"
        uid = 2_000_000_000 + judge.pid
        assert inside.processes_of(uid)
        judge.send_signal(signal.SIGKILL)
        judge.wait()
        assert inside.gone(uid)


def test_starting_and_killing_leaks_no_descriptor(start: Any, inside: Any, no_leaks: None) -> None:
    for _ in range(3):
        worker = start("say('on')\ntime.sleep(99)")
        assert inside.hear(worker) == "on"
        worker.kill()


# --- started by a user ----------------------------------------------------------------------------------------------

AS_USER = """
import importlib.util, json, os, sys
assert os.getuid() == {uid}
from pathlib import Path
from warpgrade.course import Limits
spec = importlib.util.spec_from_file_location("helper", {helper!r})
helper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helper)
def ask(code, limits=Limits(), secrets=()):
    worker = helper.Probe(code).start(limits, {{}}, list(secrets))
    answer = helper.hear(worker)
    return answer, worker
answer, worker = ask("say(problems())", secrets=[Path({secret!r})])
assert answer == [], (answer, worker.kill(), worker.output())
worker.kill()
answer, worker = ask("say([os.getuid(), system_call(272, 0x10000000), attempt(os.mkdir, '/x'), os.path.exists({secret!r})])")
assert answer[0] == 65534 and answer[1] == "EPERM" and answer[2] in ("EROFS", "EACCES") and answer[3] is False, answer
worker.kill()
answer, worker = ask({hog!r}, Limits(memory_bytes=300 << 20))
assert answer == "ready", worker.output()
assert helper.hear(worker) is None
assert worker.kill().out_of_memory
answer, worker = ask({daemon!r})
inside = helper.psutil.Process(worker._process.pid).children(recursive=True)
worker.kill()
assert helper.wait_until(lambda: not any(p.is_running() and p.status() != "zombie" for p in inside), 20)
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox
from warpgrade.judge.verdict import Tier
from warpgrade.course import Exercise, Form
from warpgrade.submission import CodeCell, Submission
import torch
exercise = Exercise(title="d", points=1.0, form=Form.PLAIN, signature="double(x)", summary="", arguments=[], id="other")
submission = Submission((CodeCell(1, "def double(x):\\n    return x + x\\n"),), "", "", frozenset())
remote = RemoteSubmission(exercise, submission, BubblewrapSandbox(), Tier.MODEL, [])
assert remote.double(torch.ones(3)).tensor.tolist() == [2.0, 2.0, 2.0]
remote.close()
print("all well")
"""


@only_root
@pytest.mark.slow
def test_started_by_a_user_it_is_as_tight(inside: Any) -> None:
    """A user that owns nothing, with the system's Python: the one that runs these tests may lie where only root looks."""
    packages = Path(next(path for path in sys.path if path.endswith("site-packages")))
    system = Path("/usr/bin/python3")
    uid = 54321
    wanted = f"{sys.version_info[0]}.{sys.version_info[1]}"
    version = subprocess.run(
        [system, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    if version.stdout.strip() != wanted:
        pytest.skip(f"needs {system} of version {wanted}, for which the compiled packages here are")
    reachable = all(
        path.stat().st_mode & stat.S_IXOTH for path in (packages, *packages.parents, INSTALLED, *INSTALLED.parents)
    )
    if not reachable:
        pytest.skip("the packages here lie where only root can look")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        secret = root / "secret"
        secret.mkdir()
        made = subprocess.run([system, "-m", "venv", "--without-pip", root / "venv"], capture_output=True, check=False)
        if made.returncode:
            pytest.skip(f"{system} has no venv")
        (root / f"venv/lib/python{wanted}/site-packages/more.pth").write_text(f"{packages}\n")
        script = root / "judge.py"
        helper = root / "helper.py"
        helper.write_text(Path(__file__).with_name("conftest.py").read_text())
        script.write_text(
            AS_USER.format(uid=uid, helper=str(helper), secret=str(secret), hog=HOG, daemon=DAEMON + "time.sleep(99)")
        )
        done = subprocess.run(
            [root / "venv/bin/python", "-B", script], user=uid, group=uid, extra_groups=[], capture_output=True, text=True, cwd="/",
            env={"PYTHONPATH": str(INSTALLED), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, timeout=120, check=False,
        )  # fmt: skip
    assert done.stdout.strip() == "all well", done.stderr[-3000:]
