"""The sandbox asserts itself: tight as built, found out when a flag is missing, whoever starts it."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warpgrade.course import Course, Limits
from warpgrade.judge.sandbox import SandboxUnavailable, bubblewrap, seccomp
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox, python_folders

REPOSITORY = Path(__file__).resolve().parents[3]
#: Where `import warpgrade` finds it: the repository for its developers, site-packages for everybody else.
INSTALLED = Path(bubblewrap.__file__).resolve().parents[3]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="about the sandbox that root starts")


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
    monkeypatch.setattr(seccomp, "program", lambda **options: struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))
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
            AS_USER.format(
                uid=uid, helper=str(helper), secret=str(secret), hog=inside.hog, daemon=inside.daemon + "time.sleep(99)"
            )
        )
        done = subprocess.run(
            [root / "venv/bin/python", "-B", script], user=uid, group=uid, extra_groups=[], capture_output=True, text=True, cwd="/",
            env={"PYTHONPATH": str(INSTALLED), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, timeout=120, check=False,
        )  # fmt: skip
    assert done.stdout.strip() == "all well", done.stderr[-3000:]
