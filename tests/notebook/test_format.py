import json
import subprocess
import sys

import nbformat
import pytest

from warpgrade.course import Course
from warpgrade.notebook.format import FormatError, normalise, normalised

COURSE = Course.find()


def nbgrader(grade_id, **more):
    return {"nbgrader": {"grade_id": grade_id, "grade": True, "solution": False, "locked": True, **more}}


def notebook(*cells) -> str:
    messy = nbformat.v4.new_notebook(cells=list(cells))
    messy.metadata = nbformat.from_dict(
        {
            "kernelspec": {"name": "my-env", "display_name": "mine", "language": "python"},
            "language_info": {"name": "python", "version": "3.12.1", "codemirror_mode": {"name": "ipython"}},
            "toc": {"base_numbering": 1},
            "warpgrade": {"assignment": "some"},
        }
    )
    return nbformat.writes(messy)


def code(source, **metadata):
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def markdown(source, **metadata):
    return nbformat.v4.new_markdown_cell(source, metadata=metadata)


def ids(text):
    return [cell["id"] for cell in json.loads(text)["cells"]]


def test_outputs_counts_and_stray_metadata_go_and_the_rest_stays():
    cell = code("print(1)  \n", collapsed=True, tags=["keep"], **nbgrader("relu", points=2.4))
    cell.outputs = [nbformat.v4.new_output("stream", text="1\n")]
    cell.execution_count = 7
    result = json.loads(normalised(notebook(cell), "n"))
    (after,) = result["cells"]
    assert after["outputs"] == []
    assert after["execution_count"] is None
    assert after["source"] == ["print(1)"]
    assert set(after["metadata"]) == {"tags", "nbgrader"}
    assert after["metadata"]["nbgrader"]["points"] == 2.4
    assert set(result["metadata"]) == {"kernelspec", "language_info", "warpgrade"}
    assert result["metadata"]["kernelspec"]["name"] == "python3"
    assert "version" not in result["metadata"]["language_info"]


def test_ids_come_from_grade_ids_and_headings():
    text = notebook(
        code("import torch"),
        markdown("# First *kernels* — café"),
        code("a"),
        markdown("no heading"),
        code("b", **nbgrader("vector_add__solution")),
        markdown("## Sum of each row"),
    )
    assert ids(normalised(text, "n")) == [
        "start-1",
        "first-kernels-cafe",
        "first-kernels-cafe-2",
        "first-kernels-cafe-3",
        "vector_add__solution",
        "sum-of-each-row",
    ]


def test_equal_headings_and_a_heading_like_a_grade_id_get_ids_of_their_own():
    text = notebook(markdown("# relu"), markdown("# Again"), markdown("# Again"), code("x", **nbgrader("relu")))
    found = ids(normalised(text, "n"))
    assert len(set(found)) == 4
    assert found[-1] == "relu"


def test_very_long_headings_stay_within_what_nbformat_allows():
    text = notebook(*(markdown("# " + "very long words " * 20) for _ in range(3)), markdown("# 行の和"))
    found = ids(normalised(text, "n"))
    assert len(set(found)) == 4
    assert max(map(len, found)) <= 64


def test_an_edit_elsewhere_moves_no_id():
    before = ids(normalised(notebook(markdown("# A"), markdown("# B"), code("b")), "n"))
    after = ids(normalised(notebook(markdown("# A"), code("new"), markdown("# B"), code("b")), "n"))
    assert after[-2:] == before[-2:]


def test_doing_it_twice_changes_nothing(tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(notebook(markdown("# A"), code("x\n\n")), encoding="utf-8")
    assert not normalise(path)
    once = path.read_text(encoding="utf-8")
    assert normalise(path)
    assert path.read_text(encoding="utf-8") == once


def test_check_reports_and_leaves_the_file_alone(tmp_path):
    path = tmp_path / "n.ipynb"
    messy = notebook(code("x\n\n"))
    path.write_text(messy, encoding="utf-8")
    assert not normalise(path, check=True)
    assert path.read_text(encoding="utf-8") == messy


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"nbformat": 4}'])
def test_what_is_no_notebook_is_named(text, tmp_path):
    path = tmp_path / "broken.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=r"broken\.ipynb"):
        normalise(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_grade_id_used_twice_is_an_error():
    with pytest.raises(FormatError, match="'relu' twice"):
        normalised(notebook(code("a", **nbgrader("relu")), code("b", **nbgrader("relu"))), "n")


def run(*arguments):
    command = [sys.executable, "-m", "warpgrade.notebook.format", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_checks_then_rewrites(tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(notebook(code("x")), encoding="utf-8")
    checked = run("--check", path)
    assert (checked.returncode, "not in the normal form" in checked.stderr) == (1, True)
    assert run(path).returncode == 0
    assert run("--check", path).returncode == 0
    assert run().returncode == 2
    assert run(tmp_path / "missing.ipynb").returncode == 2


@pytest.mark.parametrize("name", COURSE.assignments)
def test_every_notebook_of_the_course_is_in_the_normal_form(name):
    path = COURSE.source(name) / COURSE.assignment(name).notebook
    assert normalise(path, check=True), f"run: python -m warpgrade.notebook.format {path}"


DECLARATION = """
title = "T"
notebook = "n.ipynb"
[exercises.twice]
title = "Twice"
points = 5
form = "function"
signature = "twice(x)"
summary = "Doubles."
arguments = []
"""


def with_boxes(folder, *sources):
    path = folder / "n.ipynb"
    cells = [nbformat.v4.new_markdown_cell(source) for source in sources]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    return path


def test_contract_boxes_follow_the_declaration(tmp_path):
    (tmp_path / "exercises.toml").write_text(DECLARATION, encoding="utf-8")
    old = "#### Contract of `twice`\n\nWhat it said last year."
    path = with_boxes(
        tmp_path, old, "Text about #### Contract of `twice`", "#### Contract of `thrice`\n\nNot declared."
    )
    assert not normalise(path)
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    assert "Doubles." in sources[0]
    assert "last year" not in sources[0]
    assert sources[1:] == ["Text about #### Contract of `twice`", "#### Contract of `thrice`\n\nNot declared."]
    assert normalise(path, check=True)


def test_without_a_declaration_boxes_stay(tmp_path):
    path = with_boxes(tmp_path, "#### Contract of `twice`\n\nAs it was.")
    normalise(path)
    assert "As it was." in path.read_text(encoding="utf-8")


def test_a_declaration_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "exercises.toml").write_text("title = 3", encoding="utf-8")
    with pytest.raises(FormatError, match=r"exercises\.toml"):
        normalise(with_boxes(tmp_path, "text"))
