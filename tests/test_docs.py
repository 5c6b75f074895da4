"""What the documents promise is there: links, make targets, paths that "exist today", pins with reasons."""

import re
from pathlib import Path

import pytest
import typer

from warpgrade.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_that_are_named_exist(document):
    named = set(re.findall(r"`(?:\w+=\S+ )?make ([a-z-]+)", document.read_text()))
    assert named <= TARGETS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_named_exist(document):
    named = set(re.findall(r"(?:`|bin/)warpgrade ([a-z]+)", document.read_text()))
    assert named <= set(typer.main.get_command(app).commands)


def test_the_readmes_table_says_truly_what_is_there_today():
    rows = re.findall(r"^\| .* \| `(source/\S+)` \| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(rows) == 11
    for path, today in rows:
        assert (ROOT / path).exists() is (today != "planned"), path
        for exercise in re.findall(r"`(\w+)`", today):
            assert f"[exercises.{exercise}]" in (ROOT / path).with_name("exercises.toml").read_text()


def test_every_requirement_is_pinned_and_has_a_reason():
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.match(r"^[\w-]+==[\w.]+(; platform_system == \"Linux\")? +# .{10,}$", line), line


def test_what_students_install_is_a_part_of_what_the_course_pins():
    def names(file: str) -> set[str]:
        return set(re.findall(r"^([\w-]+)[=<>]", (ROOT / file).read_text(), re.MULTILINE))

    assert names("requirements-student.txt") <= names("requirements.txt")


def test_tracked_text_names_no_folder_of_one_machine():
    home = re.compile(r"(/home/[a-z]|/root/|/Users/[a-z])")
    files = [*DOCUMENTS, *ROOT.glob("requirements*.txt"), ROOT / "Makefile", *(ROOT / "tools").iterdir()]
    assert [path.name for path in files if path.is_file() and home.search(path.read_text())] == []
