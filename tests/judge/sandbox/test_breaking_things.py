"""The real sandbox against whoever wants to exhaust the machine, or outlive the Judge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from warpgrade.course import Limits
from warpgrade.judge.sandbox import bubblewrap
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox
from warpgrade.judge.sandbox.cgroup import ControlGroup
from warpgrade.judge.sandbox.process import wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
#: Where `import warpgrade` finds it: the repository for its developers, site-packages for everybody else.
INSTALLED = Path(bubblewrap.__file__).resolve().parents[3]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="about the sandbox that root starts")


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


def test_memory_is_limited_and_named(start: Any, inside: Any) -> None:
    worker = start(inside.hog, Limits(memory_bytes=200 << 20))
    assert inside.hear(worker) == "ready"
    assert inside.ended(worker)
    end = worker.kill()
    assert end.out_of_memory
    assert "memory" in end.description


def test_memory_of_a_child_counts(start: Any, inside: Any) -> None:
    worker = start(
        "if os.fork(): os.wait(); say('child ended'); time.sleep(60)\n" + inside.hog, Limits(memory_bytes=200 << 20)
    )
    assert inside.hear(worker) == "ready"
    inside.hear(worker)
    assert worker.kill().out_of_memory


#: Memory that is no process's: it counts as soon as a descriptor holds it.
MEMORY_FILES = """
say("ready")
block = b"x" * (8 << 20)
kept = []
while True:
    kept.append(os.memfd_create("hoard"))
    os.write(kept[-1], block)
"""


@pytest.mark.parametrize("memory_files", [False, True])
def test_without_a_control_group_a_watchdog_limits_memory(
    memory_files: bool, start: Any, inside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlGroup, "create", classmethod(lambda cls, *arguments: None))
    worker = start(MEMORY_FILES if memory_files else inside.hog, Limits(memory_bytes=300 << 20))
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


@only_root
@pytest.mark.parametrize("rest", ["time.sleep(99)", "os._exit(0)"], ids=["parent lives", "parent ends"])
def test_a_daemon_is_gone_after_kill(rest: str, start: Any, inside: Any) -> None:
    worker = start(inside.daemon + rest)
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
        worker = helper.Probe({inside.daemon + "time.sleep(99)"!r}).start(Limits(), {{}}, [])
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
