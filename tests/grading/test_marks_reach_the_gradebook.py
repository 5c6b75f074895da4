"""From a submitted notebook to Grade rows: each kind of verdict, and what must never become a mark."""

import pytest
from nbformat.v4 import new_code_cell as cell_of
from nbgrader.converters import NbGraderException


def test_judged_cells_get_the_judges_points_and_speed_waits(classroom):
    classroom.submit("alice", classroom.answered(plus="BAD"))
    classroom.autograde()
    assert classroom.grades("alice") == {
        "relu": (4.0, False, None),
        "relu__speed": (None, True, None),
        "plus": (0.6, False, None),
        "essay": (None, True, None),
    }
    assert "Speed needs a GPU." in classroom.comments("alice")["relu__solution"]
    assert "Provisional" in classroom.comments("alice")["relu__solution"]
    assert classroom.comments("alice")["plus__solution"] is None


def test_untouched_answers_are_no_response(classroom):
    classroom.submit("alice", classroom.released())
    classroom.autograde()
    assert classroom.grades("alice")["essay"] == (0.0, False, None)
    assert classroom.comments("alice")["essay"] == "No response."
    assert classroom.comments("alice")["relu__solution"].startswith("No response.")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("PENDING", "Not decided yet"),
        ("FAULT", "caught fire"),
        ("FOREIGN", "no verdict"),
        ("UNBOXED", "without a sandbox"),
        ("DEFERRED", "no verdict"),
    ],
)
def test_what_is_not_decided_is_no_mark_and_says_why(classroom, word, reason):
    classroom.submit("alice", classroom.answered())
    classroom.autograde()
    classroom.submit("alice", classroom.answered(plus=f"GOOD {word}"))
    if word == "FAULT":
        with pytest.raises(NbGraderException):
            classroom.autograde()
    else:
        classroom.autograde()
    assert classroom.grades("alice")["plus"] == (None, True, None)
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    assert reason in classroom.comments("alice")["plus__solution"]


def test_a_judge_that_raises_gives_no_marks_leaves_none_and_the_class_goes_on(classroom):
    for student in ("alice", "bob", "carol"):
        classroom.submit(student, classroom.answered())
    classroom.autograde()
    classroom.submit("bob", classroom.answered(relu="GOOD RAISE"))
    with pytest.raises(NbGraderException, match="1 of 3 submissions were not judged wholly \\(bob\\)"):
        classroom.autograde()
    assert classroom.grades("bob")["relu"] == classroom.grades("bob")["plus"] == (None, True, None)
    assert "not your fault" in classroom.comments("bob")["relu__solution"]
    assert "a bug of the judge" not in str(classroom.comments("bob"))
    assert classroom.grades("carol")["relu"] == classroom.grades("alice")["relu"] == (4.0, False, None)


def test_a_machine_without_a_sandbox_judges_nobody_and_says_why(classroom, monkeypatch, caplog):
    from warpgrade.judge.sandbox import SandboxUnavailable

    def refuse(*unused):
        raise SandboxUnavailable("bubblewrap is not installed")

    monkeypatch.setattr("warpgrade_fake_judge.judge", refuse)
    classroom.submit("alice", classroom.answered())
    with pytest.raises(NbGraderException):
        classroom.autograde()
    assert classroom.grades("alice")["relu"] == (None, True, None)
    assert "not your fault" in classroom.comments("alice")["relu__solution"]
    assert "bubblewrap is not installed" in caplog.text


def test_nothing_of_a_students_runs_here(classroom):
    trap = classroom.root / "it-ran"
    nb = classroom.answered()
    nb.cells[0] = cell_of(f"open({str(trap)!r}, 'w')")
    nb.cells[2].source += f"\nopen({str(trap)!r}, 'w')"
    folder = classroom.submit("mallory", nb)
    for name in ("sitecustomize.py", "ipykernel_launcher.py", "nbgrader_config.py", "conftest.py"):
        (folder / name).write_text(f"open({str(trap)!r}, 'w')")
    classroom.autograde()
    classroom.feedback()
    assert not trap.exists()
    assert classroom.grades("mallory")["plus"] == (2.0, False, None)


def test_ctrl_c_leaves_a_true_gradebook(classroom):
    for student in ("alice", "bob"):
        classroom.submit(student, classroom.answered())
    classroom.autograde()
    classroom.submit("bob", classroom.answered(relu="GOOD INTERRUPT"))
    with pytest.raises(KeyboardInterrupt):
        classroom.autograde()
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    assert classroom.grades("bob")["relu"] == (None, True, None)
    assert "has not finished" in classroom.comments("bob")["relu__solution"]
    assert not (classroom.root / "autograded" / "bob" / "hw").exists()


def test_points_that_changed_since_the_release_are_not_recorded(classroom):
    toml = classroom.root / "source" / "hw" / "exercises.toml"
    toml.write_text(toml.read_text().replace("points = 2", "points = 20"))
    classroom.submit("alice", classroom.answered())
    classroom.autograde()
    assert classroom.grades("alice")["plus"] == (None, True, None)


def test_a_cell_that_no_exercise_declares_is_left_to_a_person(classroom):
    toml = classroom.root / "source" / "hw" / "exercises.toml"
    toml.write_text(toml.read_text().replace("[exercises.plus]", "[exercises.minus]"))
    classroom.submit("alice", classroom.answered())
    classroom.autograde()
    assert classroom.grades("alice")["plus"] == (None, True, None)


def test_a_broken_declaration_is_our_fault(classroom):
    classroom.submit("alice", classroom.answered())
    classroom.autograde()
    (classroom.root / "source" / "hw" / "exercises.toml").write_text("title = ")
    with pytest.raises(NbGraderException):
        classroom.autograde()
    assert {grade[0] for grade in classroom.grades("alice").values()} == {None}


def test_marks_by_hand_stay_and_come_back_to_the_queue_only_when_the_answer_changed(classroom):
    classroom.submit("alice", classroom.answered())
    classroom.autograde()
    classroom.mark_by_hand("alice", "essay", 2.5, extra_credit=0.5)
    classroom.mark_by_hand("alice", "plus", 1.0)
    classroom.autograde()
    assert classroom.grades("alice")["essay"] == (None, False, 2.5)
    assert classroom.grades("alice")["plus"] == (2.0, False, 1.0)
    classroom.submit("alice", classroom.answered(essay="Other words."))
    classroom.autograde()
    assert classroom.grades("alice")["essay"] == (None, True, 2.5)
    assert classroom.grades("alice")["plus"] == (2.0, False, 1.0)
    classroom.autograde()
    assert classroom.grades("alice")["essay"] == (None, True, 2.5), "still in the queue until a person has looked"
    with classroom.gradebook() as gradebook:
        assert gradebook.find_grade("essay", "hw", "hw", "alice").extra_credit == 0.5


def test_manual_comments_stay(classroom):
    classroom.submit("alice", classroom.answered())
    classroom.autograde()
    with classroom.gradebook() as gradebook:
        gradebook.find_comment("relu__solution", "hw", "hw", "alice").manual_comment = "Well done."
        gradebook.db.commit()
    classroom.autograde()
    with classroom.gradebook() as gradebook:
        assert gradebook.find_comment("relu__solution", "hw", "hw", "alice").comment == "Well done."
