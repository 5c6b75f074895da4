"""The committed release/ is what nbgrader makes of source/ today, and holds nothing that students must not see."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

COURSE = Path(__file__).parents[1]
SECRET = re.compile(r"(BEGIN|END) (HIDDEN TESTS|SOLUTION)|\bgrade\(")

_spec = importlib.util.spec_from_file_location("release_tool", COURSE / "tools" / "release.py")
release = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(release)


def test_every_assignment_with_a_notebook_is_released_and_no_other():
    released = sorted(path.name for path in (COURSE / "release").iterdir() if path.is_dir())
    assert released == release.assignments() != []


@pytest.mark.parametrize("assignment", release.assignments())
def test_release_is_current(assignment, tmp_path):
    expected = release.files(release.make(assignment, tmp_path))
    actual = release.files(COURSE / "release" / assignment)
    differ = [name for name in sorted({*expected, *actual}) if expected.get(name) != actual.get(name)]
    assert not differ, f"release/{assignment} is not what source/{assignment} makes today; run: make release"


@pytest.mark.parametrize("assignment", release.assignments())
def test_release_holds_no_solution_no_hidden_test_and_no_output(assignment):
    for name, content in release.files(COURSE / "release" / assignment).items():
        found = SECRET.search(content.decode("utf-8", "replace")) if not name.endswith((".png", ".jpg")) else None
        assert not found, f"release/{assignment}/{name} says {found.group() if found else ''!r}"
        if name.endswith(".ipynb"):
            cells = json.loads(content)["cells"]
            assert not [cell.get("id") for cell in cells if cell.get("outputs") or cell.get("execution_count")]
