"""Notebooks that nbgrader gives up on: the batch goes on, the student is flagged, no mark is stale and none is free."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from nbgrader.converters import NbGraderException


def broken(kind, classroom):
    good = json.dumps(classroom.answered())
    return {
        "not_json": "this is {",
        "empty": "",
        "no_notebook": "[1, 2]",
        "cells_missing": "{}",
        "half": good[: len(good) // 2],
        "deep": "[" * 100_000,
        "cells": json.dumps({"cells": [{"cell_type": "code", "source": "1", "metadata": {}}] * 2000}),
        "language": json.dumps({**classroom.answered(), "metadata": {"kernelspec": {"language": "R"}}}),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["not_json", "empty", "no_notebook", "cells_missing", "half", "deep", "cells", "language"]
)
def test_a_broken_notebook_is_for_a_person_and_takes_the_old_marks_with_it(classroom, kind):
    classroom.submit("alice", classroom.answered())
    classroom.submit("zoe", classroom.answered())
    classroom.autograde()
    classroom.submit("alice", broken(kind, classroom))
    classroom.autograde()
    assert set(classroom.grades("alice").values()) == {(None, True, None)}
    assert all("hw.ipynb" in comment for comment in classroom.comments("alice").values())
    assert classroom.grades("zoe")["relu"][0] == 4.0
    assert "hw.ipynb" in classroom.autograded("alice").cells[0].source.replace("\\", "")


def test_a_huge_notebook_is_not_even_read(classroom):
    classroom.submit("alice", classroom.answered())
    os.truncate(classroom.root / "submitted" / "alice" / "hw" / "hw.ipynb", 200 * 1024 * 1024)
    classroom.autograde()
    assert set(classroom.grades("alice").values()) == {(None, True, None)}
    assert "210 MB" in classroom.comments("alice")["essay"]


def test_a_link_to_the_solution_is_not_followed(classroom):
    folder = classroom.submit("mallory", classroom.answered())
    (folder / "hw.ipynb").unlink()
    (folder / "hw.ipynb").symlink_to(classroom.root / "source" / "hw" / "hw.ipynb")
    classroom.autograde()
    assert set(classroom.grades("mallory").values()) == {(None, True, None)}


def test_bytes_that_are_no_text(classroom):
    folder = classroom.submit("alice", "")
    (folder / "hw.ipynb").write_bytes(b"\xff\xfe\x00PK\x03\x04")
    classroom.autograde()
    assert set(classroom.grades("alice").values()) == {(None, True, None)}


def test_a_renamed_notebook_is_taken_and_noted(classroom):
    classroom.submit("alice", classroom.answered(), name="hw (1) final.ipynb")
    classroom.autograde()
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    assert "handed in as" in classroom.autograded("alice").cells[0].source


def test_two_unknown_notebooks_are_for_a_person(classroom):
    classroom.submit("alice", classroom.answered(), name="a.ipynb")
    classroom.submit("alice", classroom.answered(), name="b.ipynb")
    classroom.autograde()
    assert set(classroom.grades("alice").values()) == {(None, True, None)}
    assert "Rename the right one" in classroom.comments("alice")["essay"]


def test_a_missing_notebook_is_zero_as_in_nbgrader(classroom):
    folder = classroom.submit("alice", classroom.answered())
    classroom.autograde()
    (folder / "hw.ipynb").unlink()
    classroom.autograde()
    assert set(classroom.grades("alice").values()) == {(0.0, False, None)}


def test_a_timestamp_that_is_none_stops_nobody(classroom):
    folder = classroom.submit("alice", classroom.answered())
    (folder / "timestamp.txt").write_text("yesterday, I think")
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0


def test_files_of_students_do_not_reach_autograded_unless_they_are_pictures(classroom):
    folder = classroom.submit("mallory", classroom.answered())
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    (folder / "plot.png").write_bytes(png)
    (folder / "evil.png").write_text("<script>")
    (folder / "evil.html").write_text("<script>")
    (folder / "evil.svg").write_text("<svg onload=alert(1)>")
    (folder / "ipykernel_launcher.py").write_text("")
    (folder / "checks.py").write_text("hacked")
    (folder / "key.png").symlink_to(classroom.root / "gradebook.db")
    (folder / "up").symlink_to(classroom.root)
    classroom.autograde()
    names = {p.name for p in (classroom.root / "autograded" / "mallory" / "hw").rglob("*")}
    assert names == {"hw.ipynb", "plot.png", "checks.py", "exercises.toml"}
    assert (classroom.root / "autograded" / "mallory" / "hw" / "checks.py").read_text() == ""


def test_without_force_what_is_graded_is_skipped_and_what_changed_is_not(classroom, judge):
    for student in ("alice", "bob", "carol"):
        classroom.submit(student, classroom.answered())
    classroom.autograde(force=False)
    assert len(judge.submissions) == 3
    classroom.submit("bob", classroom.answered(essay="Something else."))
    classroom.submit("carol", "{")
    classroom.autograde(force=False)
    assert len(judge.submissions) == 4
    assert set(classroom.grades("carol").values()) == {(None, True, None)}
    classroom.autograde(force=False)
    assert len(judge.submissions) == 4


def test_no_submission_at_all_is_an_error_as_in_nbgrader(classroom):
    with pytest.raises(NbGraderException):
        classroom.autograde()


# --- what must not pass for a fault of ours: the student would get a free retry, and the batch an error each time ------


def test_a_byte_order_mark_is_no_harm(classroom):
    folder = classroom.submit("alice", classroom.answered())
    path = folder / "hw.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0


def nested(depth):
    value = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "outputs",
    [
        [{"output_type": "foo"}],
        [7, None, "x"],
        {"0": "x"},
        [{"output_type": "display_data", "data": {"text/plain": nested(600)}, "metadata": nested(600)}],
        [{"output_type": "error", "traceback": [nested(600)], "ename": 7, "evalue": None}],
        [{"output_type": "stream", "name": 7, "text": {"a": 1}}],
    ],
    ids=range(6),
)
def test_outputs_of_any_shape_are_no_harm(classroom, outputs):
    nb = json.loads(json.dumps(classroom.answered()))
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = outputs
    classroom.submit("alice", json.dumps(nb))
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0


@pytest.mark.parametrize("attachments", [{"a.png": 7}, {"a.png": {"image/png": nested(600)}}, {"": {}}], ids=range(3))
def test_attachments_of_any_shape_are_no_harm(classroom, attachments):
    nb = json.loads(json.dumps(classroom.answered()))
    nb["cells"].insert(0, {"cell_type": "markdown", "source": "x", "metadata": {}, "attachments": attachments})
    classroom.submit("alice", json.dumps(nb))
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0


PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\1\0\0\0\1\x08\0\0\0\0" + b"\0" * 20


def test_folders_by_the_names_of_our_files_are_no_harm(classroom):
    folder = classroom.submit("alice", classroom.answered())
    for name in ("checks.py", "exercises.toml", "timestamp.txt"):
        (folder / name).mkdir()
        (folder / name / "a.png").write_bytes(PNG)
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0


def test_a_thousand_nested_folders_are_no_harm(classroom):
    folder = here = classroom.submit("alice", classroom.answered())
    before = Path.cwd()
    try:
        os.chdir(here)
        for _ in range(1200):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(before)
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0
    # pytest's own clean-up would go down recursively
    subprocess.run(["rm", "-rf", folder / "d"], check=True)


def test_a_name_in_another_encoding_is_only_a_name(classroom):
    folder = classroom.submit("alice", classroom.answered())
    (folder / "hw.ipynb").rename(os.fsdecode(os.fsencode(folder) + b"/l\xf6sung.ipynb"))
    classroom.autograde()
    assert classroom.grades("alice")["relu"][0] == 4.0
    assert "l?sung.ipynb" in classroom.autograded("alice").cells[0].source.replace("\\", "")


@pytest.mark.parametrize("kind", ["pipe", "folder", "words", "link"])
def test_a_timestamp_that_is_no_time_goes_to_a_person(classroom, kind):
    folder = classroom.submit("alice", classroom.answered())
    path = folder / "timestamp.txt"
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)  # reading it would wait for ever
    elif kind == "folder":
        path.mkdir()
    elif kind == "words":
        path.write_text("yesterday, honestly", encoding="utf-8")
    else:
        path.symlink_to("/etc/hostname")
    (graded,) = classroom.autograde().graded
    assert classroom.grades("alice")["relu"][0] == 4.0
    assert next(need.cell for need in graded.needs) == "timestamp.txt"
