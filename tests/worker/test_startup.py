"""The start-up assertion finds planted faults. Here by its parts, in a process that is no sandbox; in one, see judge/sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpgrade.worker import startup
from warpgrade.worker.startup import Plan, problems


def test_an_ordinary_process_is_no_sandbox() -> None:
    found = problems(Plan(sandboxed=True))
    assert any("system-call filter" in sentence for sentence in found)
    assert any("NoNewPrivs" in sentence for sentence in found)
    assert any("processes outside" in sentence for sentence in found)
    assert any("shows more than it should" in sentence for sentence in found)
    if os.getuid() == 0:
        assert "it runs as root" in found
        assert any("capabilities" in sentence for sentence in found)


def test_a_visible_secret_is_found_also_as_a_dangling_link(tmp_path: Path) -> None:
    secret, link, absent = tmp_path / "course_tests", tmp_path / "link", tmp_path / "absent"
    secret.mkdir()
    link.symlink_to(absent)
    found = problems(Plan(sandboxed=True, secret=[str(secret), str(link), str(absent)]))
    assert f"{secret} can be seen" in found
    assert f"{link} can be seen" in found
    assert f"{absent} can be seen" not in found


def test_a_writable_bind_is_found(tmp_path: Path) -> None:
    assert f"{tmp_path} can be written to" in problems(Plan(sandboxed=True, visible=[str(tmp_path)]))


def test_a_neighbour_of_a_bind_is_found(tmp_path: Path) -> None:
    prefix = tmp_path / "home" / "student" / "venv"
    prefix.mkdir(parents=True)
    assert not any(str(tmp_path / "home") in s for s in startup._stray_files([str(prefix)]))
    (tmp_path / "home" / "student" / "gradebook.db").touch()
    assert any("gradebook.db" in sentence for sentence in startup._stray_files([str(prefix)]))


def test_what_lies_inside_a_bind_is_no_stray(tmp_path: Path) -> None:
    (tmp_path / "base" / "lib").mkdir(parents=True)
    (tmp_path / "base" / "anything").touch()
    visible = [str(tmp_path / "base"), str(tmp_path / "base" / "lib")]
    assert not any(f"{tmp_path}/base" in sentence for sentence in startup._stray_files(visible))


def test_a_plan_with_unknown_fields_is_no_plan() -> None:
    import msgspec

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"sandboxed":true,"secrets":[]}', type=Plan)
