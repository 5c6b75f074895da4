"""Control groups in a folder that plays /sys/fs/cgroup: v1, v2, and where it may not be written to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from warpgrade.judge.sandbox.cgroup import ControlGroup, remove_stale


def v1(root: Path, *controllers: str) -> Path:
    for controller in controllers:
        (root / controller).mkdir(parents=True)
    return root


def v2(root: Path, available: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "cgroup.controllers").write_text("cpu memory pids io")
    (root / "cgroup.subtree_control").write_text(available)
    return root


def values(root: Path) -> dict[str, str]:
    return {
        path.name: path.read_text()
        for path in root.rglob("*")
        if path.is_file() and path.parent.name.startswith("warpgrade-")
    }


def test_limits_are_written_on_v1(tmp_path: Path) -> None:
    (v1(tmp_path, "memory", "pids", "cpu") / "cpu/cpu.cfs_quota_us").write_text("-1")
    group = ControlGroup.create(1000, 7, 1.5, tmp_path)
    assert group is not None
    assert group.limits_memory
    written = values(tmp_path)
    assert written == {"memory.limit_in_bytes": "1000", "pids.max": "7", "cpu.cfs_quota_us": "150000"}


def test_limits_are_written_on_v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel puts the files into a new group; here `mkdir` does, and leaves one out."""
    mkdir = Path.mkdir

    def as_the_kernel(self: Path, *arguments: Any, **keywords: Any) -> None:
        mkdir(self, *arguments, **keywords)
        for file in ("memory.max", "pids.max", "cpu.max"):
            (self / file).write_text("max")

    monkeypatch.setattr(Path, "mkdir", as_the_kernel)
    assert ControlGroup.create(1000, 7, 1.5, v2(tmp_path, "cpu memory pids")) is not None
    assert values(tmp_path) == {"memory.max": "1000", "pids.max": "7", "cpu.max": "150000 100000"}


def test_without_the_memory_controller_there_is_no_group_and_nothing_is_left(tmp_path: Path) -> None:
    assert ControlGroup.create(1000, 7, 1.5, v2(tmp_path / "two", "cpu pids")) is None
    assert ControlGroup.create(1000, 7, 1.5, v1(tmp_path / "one", "memory")) is None
    assert ControlGroup.create(1000, 7, 1.5, tmp_path / "nowhere") is None
    assert [path for path in tmp_path.rglob("warpgrade-*") if path.is_dir() and not list(path.iterdir())] == []


def test_whether_the_kernel_killed_for_memory(tmp_path: Path) -> None:
    cases = (
        ({"memory.events": "low 0\noom 1\noom_kill 0\n"}, False),
        ({"memory.events": "low 0\noom 1\noom_kill 2\n"}, True),
        ({"memory.events": "low 0\noom 0\noom_kill 2\n"}, False),  # the whole machine's want of memory
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.failcnt": "7\n"}, True),
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.failcnt": "0\n"}, False),
        ({"memory.oom_control": "under_oom 0\noom_kill 0\n", "memory.failcnt": "7\n"}, False),
    )
    for number, (files, killed) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        assert ControlGroup([folder], limits_memory=True).killed_for_memory() is killed, files
    assert not ControlGroup([tmp_path / "gone"], limits_memory=True).killed_for_memory()


def test_the_command_that_enters_passes_arguments_on_unharmed(tmp_path: Path) -> None:
    folders = [tmp_path / "a b", tmp_path / "c"]
    for folder in folders:
        folder.mkdir()
    command = [*ControlGroup(folders, limits_memory=True).enter_command(), "printf", "%s|", "x y", "$(id)", "", "*"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "x y|$(id)||*|"
    assert all((folder / "cgroup.procs").read_text().strip().isdigit() for folder in folders)


def test_a_group_that_cannot_be_entered_runs_nothing(tmp_path: Path) -> None:
    command = ControlGroup([tmp_path / "gone"], limits_memory=True).enter_command()
    done = subprocess.run([*command, "echo", "ran"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 125)


def test_groups_of_judges_that_are_gone_are_removed_and_others_stay(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for root in (tmp_path, tmp_path / "memory"):
        for name in (f"warpgrade-{gone.pid}-0", f"warpgrade-{os.getpid()}-0", "warpgrade-other", "elsewhere"):
            (root / name).mkdir(parents=True)
    remove_stale(tmp_path)
    for root in (tmp_path, tmp_path / "memory"):
        assert {path.name for path in root.iterdir()} - {"memory"} == {
            f"warpgrade-{os.getpid()}-0",
            "warpgrade-other",
            "elsewhere",
        }
