"""`check`, `hint` and `grade` in a real kernel, on a tiny released folder."""

from __future__ import annotations

import shutil

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

IMPORT = "from warpgrade.notebook import check, grade, hint"


def execute(folder, *cells, allow_errors=True):
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(nb, timeout=120, allow_errors=allow_errors, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return nb.cells


def printed(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def errors(cell) -> list[str]:
    return [output.ename for output in cell.outputs if output.output_type == "error"]


@pytest.fixture
def released(tiny, tmp_path):
    """What a student has: declaration and public tests, and nothing else of the course."""
    return shutil.copytree(tiny.root / "source" / "tiny", tmp_path / "home" / "tiny")


@pytest.mark.slow
def test_check_reports_raises_and_starts_clean(released):
    cells = execute(
        released,
        IMPORT,
        "check('double')",  # nothing is defined yet
        "import torch\nhelper = lambda x: 2 * x\ndef double(x):\n    return helper(x)",
        "check('double')",
        "def double(x):\n    return 3 * x",
        "check('double')",
        "def double(x):\n    return only_in_the_kernel(x)",
        "exec('def only_in_the_kernel(x): return 2 * x')\nassert double(1) == 2",  # unknown to a clean start
        "check('double')",
    )
    undefined, right, wrong, stale = cells[1], cells[3], cells[5], cells[8]
    assert errors(undefined) == ["CheckFailed"]
    assert "not_implemented" in printed(undefined)
    assert errors(right) == []
    assert "public tests 1/1 with the cells that you have run" in printed(right)
    assert errors(wrong) == ["CheckFailed"]
    assert "got" in printed(wrong)
    assert "expected" in printed(wrong)
    assert errors(cells[7]) == []
    assert errors(stale) == ["CheckFailed"]
    assert "NameError" in printed(stale)


def test_a_failed_check_fails_nbgraders_validate(released):
    # Validate executes the notebook and looks for errors; a report without an exception would be "Success"
    with pytest.raises(CellExecutionError, match="CheckFailed"):
        execute(released, IMPORT, "check('double')", allow_errors=False)


@pytest.mark.slow
def test_grade_runs_the_hidden_tests_for_an_author(tiny):
    cells = execute(
        tiny.root / "source" / "tiny",
        IMPORT,
        "def double(x):\n    return 2 * x if x.numel() != 3 else x",
        "check('double')",
        "grade('double')",
    )
    assert errors(cells[2]) == []
    assert errors(cells[3]) == ["CheckFailed"]


def test_hints_come_one_after_another(released):
    text = (released / "exercises.toml").read_text(encoding="utf-8")
    hints = 'hints = ["first", "second"]\n    [[exercises.double.arguments]]'
    (released / "exercises.toml").write_text(text.replace("[[exercises.double.arguments]]", hints, 1), encoding="utf-8")
    cells = execute(released, IMPORT, "hint('double')", "hint('double')", "hint('double')", "hint('fill')")
    first, second, again, none = map(printed, cells[1:])
    assert "first" in first
    assert "second" not in first
    assert "second" in second
    assert again == second
    assert "no hint for fill" in none


def test_a_notebook_moved_out_of_its_folder_says_where_to_open_it(tmp_path):
    cells = execute(tmp_path, IMPORT, "check('double')")
    assert errors(cells[1]) == ["CheckFailed"]
    assert "Open the notebook in the folder that it was released in" in cells[1].outputs[-1].evalue
