"""The demo's own arithmetic and its care with folders. The demo as a whole runs in one slow test."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from warpgrade import demo
from warpgrade.course import Course, CourseError
from warpgrade.judge.suite import empty_verdict
from warpgrade.judge.verdict import Outcome, TestKind, Tier, Verdict

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def judged(tiny):
    """Ten points: two public tests share 3, four hidden ones share 7."""
    tests = [
        Verdict(test=f"{kind} {number}", kind=kind, outcome=Outcome.PASSED, points="1")
        for kind, count in ((TestKind.PUBLIC, 2), (TestKind.HIDDEN, 4))
        for number in range(count)
    ]
    blank = empty_verdict(tiny.exercise(), "d" * 64, Tier.MODEL, "")
    return msgspec.structs.replace(blank, verdicts=tests)


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ([], Fraction(10)),
        (["all"], Fraction(0)),
        (["public 0"], Fraction(17, 2)),
        (["public 1", "hidden 2", "hidden 3"], Fraction(5)),
    ],
)
def test_expected_points_follow_from_the_tests_that_are_lost(tiny, judged, lost, expected):
    student = demo.Student(story="", loses={"double": lost})
    assert demo.expected_points(tiny.exercise(), student, judged) == expected


def test_a_lost_test_that_does_not_exist_is_an_error(tiny, judged):
    student = demo.Student(story="", loses={"double": ["no such test"]})
    with pytest.raises(CourseError, match="no such test"):
        demo.expected_points(tiny.exercise(), student, judged)


def test_what_was_not_judged_has_no_expected_mark(tiny, judged):
    with pytest.raises(CourseError, match="no disk"):
        demo.expected_points(
            tiny.exercise(), demo.Student(story=""), msgspec.structs.replace(judged, fault="no disk", verdicts=[])
        )


@pytest.mark.parametrize(
    ("expected", "found", "agrees"),
    [
        (Fraction(16, 5), Fraction(3.2), True),
        (Fraction(16, 5), Fraction(3.1), False),
        (None, None, True),
        (None, Fraction(0), False),
        (Fraction(0), None, False),
    ],
)
def test_a_mark_that_is_missing_is_not_a_zero(expected, found, agrees):
    assert demo.Row("student", "exercise", expected, found).agrees is agrees


def test_a_folder_that_is_somebody_elses_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(CourseError, match="left alone"):
        demo.make_course(Course(REPOSITORY), tmp_path)
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "years of work"


def test_every_answer_of_the_invented_class_exists():
    course = Course(REPOSITORY)
    invented = demo.read_class(course)
    declared = course.assignment(invented.assignment)
    assert len(invented.students) == 8
    for student in invented.students.values():
        assert set(student.answers) | set(student.loses) >= set(declared.exercises)
        for file in student.answers.values():
            assert demo.answer(course, declared, file).strip()


@pytest.mark.slow
def test_the_demo_ends_with_the_expected_marks(tmp_path, capsys):
    # two students of the eight: the whole class is `make demo`
    root = tmp_path / "repository"
    root.mkdir()
    for name in ("source", "course_tests", "examples"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "nbgrader_config.py", root)
    path = root / "examples" / "class" / "class.toml"
    text = path.read_text(encoding="utf-8")
    head, *students = text.split("\n[students.")
    kept = [student for student in students if student.startswith(("other_style]", "forged]"))]
    assert len(kept) == 2
    path.write_text("\n[students.".join([head, *kept]), encoding="utf-8")
    assert demo.run(Course(root), tmp_path / "demo")
    printed = capsys.readouterr().out
    assert "All 12 marks are the expected ones" in printed
    feedback = (tmp_path / "demo/feedback/other_style/triton-01-basics/01_basics.html").read_text(encoding="utf-8")
    assert "HIDDEN TESTS" not in feedback
