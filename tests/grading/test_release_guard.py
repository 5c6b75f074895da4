"""The release guard: each way to leak or to disagree is refused, by cell, and nothing is written."""

import nbformat
import pytest
from nbgrader.converters import NbGraderException

from warpgrade.grading.release import ReleaseRefused


def find(nb, grade_id):
    return next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def no_begin(nb):
    answer = find(nb, "plus__solution")
    answer.source = answer.source.replace("### BEGIN SOLUTION", "")


def no_markers(nb):
    find(nb, "plus__solution").source = "def plus(a, b):\n    return a + b"


def wrong_marker(nb):
    answer = find(nb, "plus__solution")
    answer.source = answer.source.replace("BEGIN SOLUTION", "BEGIN SOLUTIONS").replace("END SOLUTION", "END")


def answer_shown_in_text(nb):
    nb.cells.append(nbformat.v4.new_markdown_cell("For instance\n```\n    return secret_relu(x)\n```"))


def answer_shown_in_metadata(nb):
    nb.cells[0].metadata["note"] = "return secret_relu(x)"


def hidden_test_shown(nb):
    nb.cells.append(nbformat.v4.new_code_cell("grade('relu')"))


def hidden_test_in_free_cell(nb):
    nb.cells.append(nbformat.v4.new_code_cell("### BEGIN HIDDEN TESTS\nx()\n### END HIDDEN TESTS"))


def points_differ(nb):
    find(nb, "relu").metadata.nbgrader["points"] = 5


def no_tests(nb):
    nb.cells.remove(find(nb, "plus"))


def no_speed_cell(nb):
    nb.cells.remove(find(nb, "relu__speed"))


def no_answer(nb):
    nb.cells.remove(find(nb, "plus__solution"))


def undeclared_tests(nb):
    made = nbformat.v4.new_code_cell("check('more')")
    made.metadata["nbgrader"] = {**find(nb, "relu").metadata.nbgrader, "grade_id": "more"}
    nb.cells.append(made)


def same_id_twice(nb):
    nb.cells.append(find(nb, "plus").copy())


@pytest.mark.parametrize(
    ("mistake", "names"),
    [
        (no_begin, "plus__solution"), (no_markers, "plus__solution"), (wrong_marker, "plus__solution"),
        (answer_shown_in_text, "secret_relu"), (answer_shown_in_metadata, "secret_relu"),
        (hidden_test_shown, "grade('relu')"), (hidden_test_in_free_cell, "idden"), (points_differ, "relu"),
        (no_tests, "plus"), (no_speed_cell, "relu__speed"), (no_answer, "plus__solution"), (undeclared_tests, "more"),
        (same_id_twice, "plus"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_source_is_refused_by_name_and_nothing_is_written(classroom, notebook, caplog, mistake, names):
    mistake(notebook)
    nbformat.write(notebook, classroom.root / "source" / "hw" / "hw.ipynb")
    before = classroom.cells()
    with pytest.raises(NbGraderException):
        classroom.release()
    assert names in caplog.text
    assert not (classroom.root / "release" / "hw" / "hw.ipynb").exists()
    if mistake not in (answer_shown_in_text, answer_shown_in_metadata, hidden_test_shown, hidden_test_in_free_cell):
        assert classroom.cells() == before, "refused before the gradebook was touched"


def test_a_missing_suite_or_declaration_is_refused(classroom):
    suite = classroom.root / "course_tests" / "hw" / "test_plus.py"
    suite.rename(suite.with_suffix(".off"))
    with pytest.raises(NbGraderException):
        classroom.release()
    suite.with_suffix(".off").rename(suite)
    (classroom.root / "source" / "hw" / "exercises.toml").unlink()
    with pytest.raises(NbGraderException):
        classroom.release()


def test_the_last_guard_refuses_alone(classroom):
    from warpgrade.grading.release import GuardRelease

    with pytest.raises(ReleaseRefused, match="CheckDeclaration"):
        GuardRelease().preprocess(classroom.released(), {"nbgrader": {"assignment": "hw", "notebook": "hw"}})


def test_a_good_source_is_released_without_a_trace_of_the_answer(classroom):
    text = (classroom.root / "release" / "hw" / "hw.ipynb").read_text()
    for secret in ("secret_relu", "a + b", "forty-two", "grade(", "HIDDEN", "SOLUTION"):
        assert secret not in text
    assert "raise NotImplementedError()" in text


@pytest.mark.parametrize("name", ["test_plus.py", "reference.py", "data/test_more.py"])
def test_a_hidden_test_that_strayed_into_the_source_is_refused(classroom, name, caplog):
    """All that lies there goes to students."""
    (classroom.root / "course_tests/hw/reference.py").write_text("EXPECTED = 1\n")
    stray = classroom.root / "source/hw" / name
    stray.parent.mkdir(exist_ok=True)
    stray.write_text("EXPECTED = 1\n")
    with pytest.raises(NbGraderException):
        classroom.release()
    assert f"source/hw/{name}" in caplog.text
