"""A whole class at once, verdicts from elsewhere, a gradebook that somebody else holds."""

import os
import sqlite3
import subprocess
import sys
import time

import msgspec
import pytest

from warpgrade.course import CourseError
from warpgrade.grading import gradebook as db
from warpgrade.grading.pipeline import grade_class, record_file
from warpgrade.judge import suite
from warpgrade.judge.verdict import VerdictFile
from warpgrade.submission import read_submission


def test_a_class_is_judged_first_and_recorded_afterwards_with_the_same_marks(classroom, judge):
    classroom.submit("alice", classroom.answered())
    classroom.submit("bob", classroom.answered(plus="BAD"))
    classroom.submit("carol", "{")
    recorded = []
    summary = grade_class(classroom.course, "hw", judge=judge.many, recorded=recorded.append)
    assert recorded == ["alice", "bob", "carol"]
    assert len(judge.submissions) == 2, "nothing is judged again for recording"
    by_pipeline = {student: classroom.grades(student) for student in recorded}
    classroom.autograde()
    assert {student: classroom.grades(student) for student in recorded} == by_pipeline
    assert by_pipeline["bob"]["plus"] == (0.6, False, None)
    assert summary.done == 0
    assert not summary.failed
    assert "0 done, 3 need you, because" in summary.text()
    assert "  2  " in summary.text()


def test_summary_says_done_when_nobody_needs_to_act(classroom, judge):
    classroom.submit("alice", classroom.answered(relu="BAD", essay=None))
    classroom.submit("bob", classroom.answered(relu="BAD", essay=None, plus="GOOD FAULT"))
    summary = grade_class(classroom.course, "hw", judge=judge.many)
    assert summary.text().splitlines() == ["1 done, 1 need you, because", "    1  plus: the machine caught fire"]
    assert summary.failed


def test_one_student_alone(classroom, judge):
    for student in ("alice", "a[b]*"):
        classroom.submit(student, classroom.answered())
    grade_class(classroom.course, "hw", students=["a[b]*"], judge=judge.many)
    assert classroom.grades("a[b]*")["plus"] == (2.0, False, None)
    with pytest.raises(db.MissingEntry):
        classroom.grades("alice")
    with pytest.raises(CourseError, match="nobody"):
        grade_class(classroom.course, "hw", students=["nobody"], judge=judge.many)


def test_ctrl_c_while_judging_leaves_marks_of_unchanged_submissions_alone(classroom, judge):
    for student in ("alice", "bob", "carol"):
        classroom.submit(student, classroom.answered())
    grade_class(classroom.course, "hw", judge=judge.many)
    before = classroom.grades("alice")
    classroom.mark_by_hand("bob", "essay", 1.0)
    classroom.submit("bob", classroom.answered(relu="INTERRUPT"))
    classroom.submit("carol", "{")
    with pytest.raises(KeyboardInterrupt):
        grade_class(classroom.course, "hw", judge=judge.many)
    assert classroom.grades("alice") == before
    assert classroom.grades("bob")["relu"] == (None, True, None)
    assert classroom.grades("bob")["essay"] == (None, False, 1.0)
    assert set(classroom.grades("carol").values()) == {(None, True, None)}
    assert "has not finished" in classroom.comments("bob")["relu__solution"]


def test_progress_knows_the_totals(classroom, judge):
    for student in ("alice", "bob"):
        classroom.submit(student, classroom.answered())
    classroom.submit("carol", "{")
    totals = []
    grade_class(classroom.course, "hw", judge=judge.many, expect=lambda *numbers: totals.append(numbers))
    assert totals == [(2, 3)], "equal code is judged once"


def verdict_file(classroom, judge, path, **changes):
    course = classroom.course
    submission = read_submission(classroom.root / "submitted" / "alice" / "hw" / "hw.ipynb")
    assignment = course.assignment("hw")
    judged = [
        msgspec.structs.replace(
            v,
            suite_digest=suite.suite_digest(course, assignment.exercises[v.exercise]),
            environment=suite.environment(),
        )
        for v in judge.judge(course, assignment, submission).values()
    ]
    fields = {"format_version": 1, "assignment": "hw", "notebook": "hw.ipynb", "exercises": judged}
    fields["submission_digest"] = submission.digest
    path.write_bytes(msgspec.json.encode(VerdictFile(**{**fields, **changes})))
    return path


def test_verdicts_from_elsewhere_are_recorded_for_the_same_code_only(classroom, judge, tmp_path):
    classroom.submit("alice", classroom.answered())
    classroom.submit("bob", classroom.answered(plus="BAD"))
    path = verdict_file(classroom, judge, tmp_path / "alice.json")
    record_file(classroom.course, path)
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    with pytest.raises(db.MissingEntry):
        classroom.grades("bob")
    assert list((classroom.root / "verdicts" / "hw" / "relu").glob("*.json"))
    classroom.submit("alice", classroom.answered(relu="GOOD, but changed"))
    with pytest.raises(CourseError, match="no submission of hw"):
        record_file(classroom.course, path)


def test_verdict_files_that_may_not_become_marks_are_refused(classroom, judge, tmp_path):
    path = tmp_path / "v.json"
    classroom.submit("alice", classroom.answered(plus="GOOD UNBOXED"))
    with pytest.raises(CourseError, match="sandbox"):
        record_file(classroom.course, verdict_file(classroom, judge, path))
    classroom.submit("alice", classroom.answered())
    with pytest.raises(CourseError, match="format"):
        record_file(classroom.course, verdict_file(classroom, judge, path, format_version=9))
    verdict_file(classroom, judge, path)
    (classroom.root / "course_tests" / "hw" / "test_plus.py").write_text("def test_other(): ...\n")
    with pytest.raises(CourseError, match="other tests"):
        record_file(classroom.course, path)
    path.write_text("{}")
    with pytest.raises(CourseError, match="no file of verdicts"):
        record_file(classroom.course, path)
    with pytest.raises(CourseError, match="no file of verdicts"):
        record_file(classroom.course, tmp_path / "not_there.json")


def test_a_locked_gradebook_is_a_clear_error_and_marks_stay_true(classroom, judge, monkeypatch):
    monkeypatch.setattr(db, "BUSY_MS", 200)
    classroom.submit("alice", classroom.answered())
    grade_class(classroom.course, "hw", judge=judge.many)
    before = classroom.grades("alice")
    classroom.submit("alice", classroom.answered(relu="BAD"))
    other = sqlite3.connect(classroom.root / "gradebook.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    with pytest.raises(db.GradebookLockedError, match="Close what is writing"):
        grade_class(classroom.course, "hw", judge=judge.many)
    assert time.monotonic() - start < 20
    other.execute("ROLLBACK")
    other.close()
    assert classroom.grades("alice") == before, "nothing was written"
    grade_class(classroom.course, "hw", judge=judge.many)
    assert classroom.grades("alice")["relu"] == (1.5, False, None)


def test_a_gradebook_locked_for_a_moment_is_waited_for(classroom, judge):
    classroom.submit("alice", classroom.answered())
    locker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
            "c.execute('BEGIN IMMEDIATE'); print('held', flush=True); time.sleep(2); c.execute('ROLLBACK')",
            str(classroom.root / "gradebook.db"),
        ],
        stdout=subprocess.PIPE,
    )
    assert locker.stdout.readline() == b"held\n"
    grade_class(classroom.course, "hw", judge=judge.many)
    locker.wait()
    locker.stdout.close()
    assert classroom.grades("alice")["relu"] == (4.0, False, None)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_something_else_by_the_name_of_a_notebook_stops_nobody(classroom, judge, make):
    for student in ("alice", "bob"):
        classroom.submit(student, classroom.answered())
    grade_class(classroom.course, "hw", judge=judge.many)
    place = classroom.root / "submitted" / "bob" / "hw" / "hw.ipynb"
    place.unlink()
    make(place)
    summary = grade_class(classroom.course, "hw", judge=judge.many)
    assert [graded.student for graded in summary.graded] == ["alice", "bob"]
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    assert classroom.grades("bob")["relu"] == (None, True, None)


def test_a_file_with_some_exercises_leaves_the_marks_of_the_others(classroom, judge, tmp_path):
    classroom.submit("alice", classroom.answered())
    whole = verdict_file(classroom, judge, tmp_path / "whole.json")
    content = msgspec.json.decode(whole.read_bytes(), type=VerdictFile)
    part = tmp_path / "part.json"
    relu = [verdict for verdict in content.exercises if verdict.exercise == "relu"]
    part.write_bytes(msgspec.json.encode(msgspec.structs.replace(content, exercises=relu)))
    with pytest.raises(CourseError, match="no verdict on plus"):
        record_file(classroom.course, part)
    record_file(classroom.course, whole)
    record_file(classroom.course, part)
    assert classroom.grades("alice")["plus"] == (2.0, False, None)


def test_a_fault_in_one_exercise_does_not_refuse_the_others(classroom, judge, tmp_path):
    classroom.submit("alice", classroom.answered())
    path = verdict_file(classroom, judge, tmp_path / "v.json")
    content = msgspec.json.decode(path.read_bytes(), type=VerdictFile)
    broken = [
        msgspec.structs.replace(verdict, verdicts=[], fault="the judge ended early", suite_digest="")
        if verdict.exercise == "plus"
        else verdict
        for verdict in content.exercises
    ]
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(content, exercises=broken)))
    record_file(classroom.course, path)
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    assert classroom.grades("alice")["plus"] == (None, True, None)


def test_feedback_on_what_was_graded_before_goes(classroom, judge):
    """nbgrader skips a student who has some, and the student would read old marks."""
    classroom.submit("alice", classroom.answered())
    old = classroom.root / "feedback/alice/hw/hw.html"
    old.parent.mkdir(parents=True)
    old.write_text("9 of 9 points")
    grade_class(classroom.course, "hw", judge=judge.many)
    assert not old.parent.exists()


def test_an_assignment_that_is_not_there_is_said_so(classroom, judge):
    with pytest.raises(CourseError, match=r"no assignment 'hv'.*Assignments here: hw"):
        grade_class(classroom.course, "hv", judge=judge.many)


def test_a_mark_by_hand_on_another_answer_says_what_to_look_at(classroom, judge):
    classroom.submit("alice", classroom.answered())
    grade_class(classroom.course, "hw", judge=judge.many)
    classroom.mark_by_hand("alice", "relu", 1.0)
    classroom.submit("alice", classroom.answered(relu="GOOD, but changed"))
    summary = grade_class(classroom.course, "hw", judge=judge.many)
    assert "the mark by hand (1) stands" in summary.text()
