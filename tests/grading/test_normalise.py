"""Whatever was done to cells and metadata, the release's structure comes back, and honest marks with it."""

import copy

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from warpgrade.grading.normalise import normalise, rebuild

FORGED = {"output_type": "execute_result", "data": {"text/plain": "100"}, "metadata": {}, "execution_count": 1}


def find(nb, grade_id):
    return next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def each_meta(nb):
    return [c.metadata.nbgrader for c in nb.cells if "nbgrader" in c.metadata]


def tags(nb):
    for c in nb.cells:
        c.metadata["tags"] = ["skip-execution", "raises-exception"]


def delete_tests(nb):
    nb.cells = [c for c in nb.cells if not c.metadata.get("nbgrader", {}).get("grade")]


def delete_all(nb):
    nb.cells = []


def delete_solution_and_tests(nb):
    nb.cells = [c for c in nb.cells if not c.metadata.get("nbgrader", {}).get("grade_id", "").startswith("relu")]


def retype_tests(nb):
    for grade_id in ("relu", "plus"):
        nb.cells[nb.cells.index(find(nb, grade_id))] = new_markdown_cell("hi", metadata=find(nb, grade_id).metadata)


def raw_tests(nb):
    nb.cells[nb.cells.index(find(nb, "plus"))] = new_raw_cell("hi", metadata=find(nb, "plus").metadata)


def empty_tests(nb):
    find(nb, "relu").source = ""


def replace_tests(nb):
    find(nb, "relu").source = "4"
    find(nb, "relu").outputs = [copy.deepcopy(FORGED)]


def points_100(nb):
    for meta in each_meta(nb):
        meta["points"] = 100


def points_nonsense(nb):
    find(nb, "relu").metadata.nbgrader["points"] = "many"


def grade_false(nb):
    for meta in each_meta(nb):
        meta["grade"] = False


def all_flags_on(nb):
    for meta in each_meta(nb):
        meta["grade"] = meta["solution"] = meta["locked"] = meta["task"] = True


def rename_tests(nb):
    find(nb, "relu").metadata.nbgrader["grade_id"] = "relu_too"


def swap_ids(nb):
    a, b = find(nb, "relu").metadata.nbgrader, find(nb, "contract").metadata.nbgrader
    a["grade_id"], b["grade_id"] = b["grade_id"], a["grade_id"]


def duplicate_tests(nb):
    nb.cells.append(copy.deepcopy(find(nb, "relu")))
    nb.cells[-1].source = "1"


def drop_metadata_keys(nb):
    for c in nb.cells:
        if "nbgrader" in c.metadata:
            c.metadata["nbgrader"] = {"grade_id": c.metadata["nbgrader"]["grade_id"]}


def schema(nb):
    for meta in each_meta(nb):
        meta["schema_version"] = 99


def old_schema(nb):
    for meta in each_meta(nb):
        meta["schema_version"] = 0


def nonsense(nb):
    nb["cells"] = [17, None, {"cell_type": ["code"]}, {"metadata": {"nbgrader": 3}}, *nb.cells]
    find_index = next(
        i for i, c in enumerate(nb["cells"]) if isinstance(c, dict) and c.get("source", "").startswith("check")
    )
    nb["cells"][find_index]["metadata"]["nbgrader"]["grade_id"] = {"a": [1]}
    nb["cells"][find_index]["outputs"] = "many"
    nb["metadata"] = ["not", "a", "dict"]


def extra_task(nb):
    nb.cells.append(
        new_markdown_cell("x", metadata={"nbgrader": {"grade_id": "x", "task": True, "points": 50, "grade": False}})
    )


def own_graded_cell(nb):
    meta = {"grade_id": "bonus", "grade": True, "solution": False, "points": 50, "locked": False, "schema_version": 3}
    nb.cells.append(new_code_cell("1", metadata={"nbgrader": meta}, outputs=[copy.deepcopy(FORGED)]))


def kernelspec(nb):
    nb.metadata["kernelspec"] = {"name": "evil", "display_name": "<script>"}
    nb.metadata["language_info"] = {"name": "<script>", "pygments_lexer": "<script>"}
    nb.metadata["title"] = "</title><script>"


ATTACKS = [
    tags, delete_tests, retype_tests, raw_tests, empty_tests, replace_tests, points_100, points_nonsense, grade_false,
    all_flags_on, rename_tests, swap_ids, duplicate_tests, drop_metadata_keys, schema, old_schema, nonsense, extra_task,
    own_graded_cell, kernelspec,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_tampering_with_cells_of_tests_changes_no_mark(classroom, attack):
    nb = classroom.answered(relu="BAD", plus="GOOD")
    attack(nb)
    classroom.submit("mallory", nb)
    classroom.autograde()
    grades = classroom.grades("mallory")
    assert set(grades) == {"relu", "relu__speed", "plus", "essay"}
    assert grades["relu"][0] == 1.5
    assert grades["relu__speed"][0] == 0
    assert grades["plus"][0] == 2.0
    assert grades["essay"][:2] == (None, True)


def test_a_notebook_without_any_cell_earns_nothing_and_its_essay_is_looked_for(classroom):
    classroom.submit("mallory", {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    classroom.autograde()
    grades = classroom.grades("mallory")
    assert (grades["relu"][0], grades["plus"][0]) == (1.5, 0.6)  # the fake fails the hidden test alone
    assert grades["essay"] == (None, True, None)


def test_the_answer_in_a_cell_turned_into_markdown_by_a_slip_is_judged(classroom, judge):
    nb = classroom.answered()
    index = nb.cells.index(find(nb, "relu__solution"))
    nb.cells[index] = new_markdown_cell(nb.cells[index].source, metadata=nb.cells[index].metadata)
    classroom.submit("alice", nb)
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0


def test_an_answer_in_a_cell_of_ones_own_is_not_overwritten_by_the_starter(classroom, judge):
    nb = classroom.answered()
    answer = find(nb, "relu__solution")
    del answer.metadata["nbgrader"]
    classroom.submit("alice", nb)
    classroom.autograde()
    assert [c.source for c in judge.submissions[0].cells if "relu" in c.source] == ["def relu(x):\n    return 'GOOD'"]
    assert classroom.grades("alice")["relu"][0] == 4.0


def test_an_unharmed_notebook_is_judged_under_the_digest_of_the_file(classroom, judge):
    from warpgrade.submission import read_submission

    folder = classroom.submit("alice", classroom.answered())
    classroom.autograde()
    assert judge.submissions[0] == read_submission(folder / "hw.ipynb")


def test_of_copied_answers_the_last_that_was_worked_on_keeps_the_id(classroom):
    nb = classroom.answered()
    starter = copy.deepcopy(find(classroom.released(), "relu__solution"))
    nb.cells.append(starter)
    put_right, notes = normalise(nb, classroom.cells())
    assert "GOOD" in find(put_right, "relu__solution").source
    assert "Cell relu__solution was there more than once." in notes.sentences


def test_a_renamed_essay_gets_its_id_back(classroom):
    nb = classroom.answered(essay="Mine.")
    find(nb, "essay").metadata.nbgrader["grade_id"] = "my_essay"
    put_right, notes = normalise(nb, classroom.cells())
    assert find(put_right, "essay").source == "Mine."
    assert notes.added == set()


def test_normalising_an_unharmed_notebook_changes_no_source_and_is_idempotent(classroom):
    nb = classroom.answered()
    once, notes = normalise(nb, classroom.cells())
    twice, _ = normalise(once, classroom.cells())
    assert notes.sentences == []
    sources = ["check('relu')", "check('plus')"]
    assert [c.source for c in once.cells if "HIDDEN" not in c.source] == [
        c.source for c in nb.cells if c.source.strip() not in sources
    ]
    assert once == twice


def test_rebuild_survives_anything():
    for document in (
        None,
        [],
        3,
        {"cells": 1},
        {"cells": [[[]]]},
        {"cells": [{"cell_type": "code", "source": {"a": 1}}]},
    ):
        rebuild(document)
    assert rebuild({"cells": [{"cell_type": "raw", "source": "<script>``` x"}]}).cells[0].cell_type == "markdown"
