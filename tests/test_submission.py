"""Reading a notebook that anybody may have written: a Submission, or a sentence for the student."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpgrade.submission import (
    MAX_CELLS,
    MAX_CODE_BYTES,
    MAX_NOTEBOOK_BYTES,
    Submission,
    SubmissionError,
    parse_submission,
    read_submission,
)


def cell(source: Any, kind: str = "code", **nbgrader: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "metadata": {"nbgrader": nbgrader} if nbgrader else {}}


def parse(*cells: Any, metadata: Any = None) -> Submission:
    return parse_submission(
        json.dumps({"cells": list(cells), "metadata": {} if metadata is None else metadata}), "x.ipynb"
    )


def sources(submission: Submission) -> list[tuple[int, str]]:
    return [(code.number, code.source) for code in submission.cells]


def test_code_cells_are_numbered_as_jupyter_does_after_restart_and_run_all() -> None:
    submission = parse(cell("# Title", "markdown"), cell("a = 1"), cell("raw", "raw"), cell(["b = 2\n", "c = 3"]))
    assert sources(submission) == [(1, "a = 1"), (2, "b = 2\nc = 3")]


def test_judged_cells_are_left_out_and_solutions_kept() -> None:
    submission = parse(
        cell("check('x')", grade_id="x", grade=True, solution=False),
        cell("def x(): pass", grade_id="x__solution", grade=False, solution=True),
        cell("by hand", grade_id="essay", grade=True, solution=True),
        cell("locked", grade_id="locked", grade=False, solution=False),
    )
    assert [code.grade_id for code in submission.cells] == ["x__solution", "essay", "locked"]
    assert submission.grade_ids == {"x", "x__solution", "essay", "locked"}


def test_the_digest_is_of_the_code_and_of_nothing_else() -> None:
    plain = parse(cell("a = 1"), cell("b = 2"))
    other_outputs = parse(
        cell("a = 1") | {"outputs": [{"text": "PASS"}], "execution_count": 7}, cell("b = 2"), metadata={"x": 1}
    )
    assert plain.digest == other_outputs.digest
    assert len(plain.digest) == 64
    for different in (parse(cell("a = 1")), parse(cell("a = 1"), cell("b = 3")), parse(cell("a = 1b = 2")), parse(cell("b = 2"), cell("a = 1")),
                      parse(cell("a = 1"), cell(""), cell("b = 2"))):  # fmt: skip
        assert different.digest != plain.digest
    assert parse(cell("a = 1"), cell("my notes", "markdown"), cell("b = 2")).digest == plain.digest


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "1", '"cells"', "{}", '{"cells": {}}', '{"cells": null}', "[" * 100_000, "{" + '"a":{' * 50_000, "\0", "<html>", "9" * 10_000]
)  # fmt: skip
def test_what_is_no_notebook_is_said_so(text: str) -> None:
    with pytest.raises(SubmissionError, match=r"x\.ipynb"):
        parse_submission(text, "x.ipynb")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["cells", "metadata", "source", "cell_type", "nbgrader", "grade", "solution", "grade_id", "kernelspec", "language",
                         "warpgrade", "assignment"]), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(json_values, max_size=5), json_values)
def test_any_json_is_a_submission_or_an_error_for_the_student(cells: list[Any], metadata: Any) -> None:
    try:
        submission = parse(*cells, metadata=metadata)
    except SubmissionError:
        return
    assert msgspec.json.decode(msgspec.json.encode(submission), type=Submission) == submission, (
        "it crosses to a judge whole"
    )


@pytest.mark.parametrize("place", ["source", "grade_id", "assignment"])
def test_lone_surrogates_stop_nobody(place: str) -> None:
    """Legal in JSON, and without UTF-8: encoding one raises, which would end the judging of everybody."""
    bad = "\ud800x"
    submission = parse(
        cell(
            bad if place == "source" else "a = 1",
            grade_id=bad if place == "grade_id" else "g",
            grade=False,
            solution=True,
        ),
        metadata={"warpgrade": {"assignment": bad if place == "assignment" else "a"}},
    )
    msgspec.json.encode(submission)
    json.dumps([submission.digest, *submission.grade_ids]).encode("utf-8")


def test_limits_are_named() -> None:
    with pytest.raises(SubmissionError, match=f"at most {MAX_CELLS}"):
        parse(*[cell("a = 1")] * (MAX_CELLS + 1))
    with pytest.raises(SubmissionError, match="more than 2 MB of code"):
        parse(cell("x" * (MAX_CODE_BYTES + 1)))
    parse(*[cell("a = 1")] * MAX_CELLS)


@pytest.mark.parametrize("language", ["R", "julia", ["python"], 3])
def test_another_language_is_refused(language: Any) -> None:
    with pytest.raises(SubmissionError, match="language"):
        parse(cell("a = 1"), metadata={"kernelspec": {"language": language}})


@pytest.mark.parametrize("language", ["python", "Python", None, ""])
def test_python_is_python(language: Any) -> None:
    assert sources(parse(cell("a = 1"), metadata={"kernelspec": {"language": language}})) == [(1, "a = 1")]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


GOOD = json.dumps({"cells": [cell("a = 'é'")], "metadata": {}}, ensure_ascii=False)


def test_files_are_read_with_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    for number, encoding in enumerate(("utf-8", "utf-8-sig")):
        submission = read_submission(write(tmp_path / f"{number}.ipynb", GOOD.encode(encoding)))
        assert sources(submission) == [(1, "a = 'é'")]


def test_files_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder.ipynb", tmp_path / "pipe.ipynb"
    folder.mkdir()
    os.mkfifo(pipe)
    dangling = tmp_path / "link.ipynb"
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "absent.ipynb", folder, pipe, dangling, write(tmp_path / "latin.ipynb", GOOD.encode("latin-1")),
                 write(tmp_path / "wide.ipynb", GOOD.encode("utf-16"))):  # fmt: skip
        with pytest.raises(SubmissionError) as caught:
            read_submission(path)
        assert path.name in str(caught.value)
        assert str(tmp_path) not in str(caught.value), "a student reads this"


def test_a_notebook_of_200_megabytes_is_not_even_opened(tmp_path: Path) -> None:
    path = tmp_path / "big.ipynb"
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    with pytest.raises(SubmissionError, match="Clear its outputs"):
        read_submission(path)
    assert MAX_NOTEBOOK_BYTES < 200 * 1024 * 1024


def test_code_is_only_text(tmp_path: Path) -> None:
    """Reading runs nothing and imports nothing of it."""
    flag = tmp_path / "flag"
    parse(cell(f"import pathlib\npathlib.Path({str(flag)!r}).touch()"), cell("def broken(:"))
    assert not flag.exists()
