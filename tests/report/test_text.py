"""What people read: nothing secret for students, nothing that hides what is undecided."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from warpgrade.judge.suite import empty_verdict
from warpgrade.judge.verdict import Outcome, TestKind, Tier, Verdict
from warpgrade.report import text
from warpgrade.wire.messages import Location

SECRET = {"shape": "(1025,)", "exception text": "the reference is 42", "seed": "123456789"}


def verdict(kind=TestKind.HIDDEN, outcome=Outcome.WRONG, points="7", name="rows of any length", **more):
    sentence = "" if outcome is Outcome.PASSED else "The result is wrong."
    return Verdict(test=name, kind=kind, outcome=outcome, points=points, sentence=sentence, **more)


@pytest.fixture
def judged(tiny):
    blank = empty_verdict(tiny.exercise(), "d" * 64, Tier.MODEL, "")

    def with_tests(*tests: Verdict, **more):
        return msgspec.structs.replace(blank, verdicts=list(tests), **more)

    return with_tests


def rendered(tiny, judged, **options):
    return text.render(text.table(tiny.course.assignment("tiny"), {"double": judged}, **options))


def test_evidence_of_a_hidden_test_stays_with_those_who_ask_for_it(tiny, judged):
    found = judged(verdict(evidence=SECRET), verdict(TestKind.PUBLIC, Outcome.PASSED, "3", "two"))
    for_students, for_authors = rendered(tiny, found), rendered(tiny, found, evidence=True)
    for value in SECRET.values():
        assert value not in for_students
        assert value in for_authors


def test_evidence_of_a_public_test_is_shown_but_for_the_seed(tiny, judged):
    found = judged(verdict(TestKind.PUBLIC, points="3", evidence=SECRET), verdict(outcome=Outcome.PASSED))
    shown = rendered(tiny, found)
    assert "(1025,)" in shown
    assert SECRET["seed"] not in shown


def test_tests_that_say_the_same_stand_together(tiny, judged):
    found = judged(verdict(points="3", name="first"), verdict(points="4", name="second"))
    assert rendered(tiny, found).count("The result is wrong.") == 1


def test_the_students_own_line_is_named(judged):
    test = verdict(location=Location(7, 3, "y = x[5000]"), exception="IndexError")
    assert "cell 7, line 3: y = x[5000]" in text.student_text(test)


def test_markup_in_a_submission_is_only_text(tiny, judged):
    found = judged(verdict(location=Location(1, 1, "[link=https://example.org]click[/link] [red]")))
    assert "[link=https://example.org]click[/link] [red]" in " ".join(rendered(tiny, found).split())


def test_the_summary_never_adds_what_is_not_decided(tiny, judged):
    assignment = tiny.course.assignment("tiny")
    right = judged(verdict(TestKind.PUBLIC, Outcome.PASSED, "3"), verdict(outcome=Outcome.PASSED))
    unknown = msgspec.structs.replace(right, exercise="fill", fault="no disk", verdicts=[])
    assert text.summary(assignment, {"double": right, "fill": unknown}) == "judged 10/10, not decided 7"


@pytest.mark.parametrize(
    ("points", "shown"), [(Fraction(16, 5), "3.2"), (Fraction(4), "4"), (Fraction(1, 3), "0.3333")]
)
def test_points_are_written_as_people_write_them(points, shown):
    assert text.points_text(points) == shown


def test_check_speaks_of_public_tests_only(tiny, judged):
    report = text.check_report(tiny.exercise(), judged(verdict(TestKind.PUBLIC, Outcome.PASSED, "3", "two")))
    assert "public tests 1/1 with the cells that you have run" in report
    assert "all tests" not in report


def test_check_says_when_it_failed_itself(tiny, judged):
    report = text.check_report(tiny.exercise(), judged(fault="checks.py cannot be collected"))
    assert "not your fault: checks.py cannot be collected" in report
