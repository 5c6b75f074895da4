"""The course's source notebooks, from top to bottom as their author runs them: solutions, checks and hidden tests."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(ROOT.glob("source/*/*.ipynb")), ids=lambda path: path.stem)
def test_a_source_notebook_runs_and_passes_its_own_tests(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    # Patient: a busy machine is not what is tested. Raises CellExecutionError for the first cell that fails.
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    said = "".join(o.get("text", "") for c in notebook.cells if c.cell_type == "code" for o in c.outputs)
    checks = [c for c in notebook.cells if c.source.startswith("check(")]
    assert checks
    assert said.count("public tests") == 2 * len(checks), "of check, and of grade"
    assert said.count("hidden tests") >= len(checks)
