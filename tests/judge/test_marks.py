"""Marks are derived from Verdicts: never more than possible, and none while anything is undecided."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpgrade.course import Exercise, Form, Speed
from warpgrade.judge.marks import correctness_mark, speed_mark
from warpgrade.judge.verdict import UNDECIDED, Environment, ExerciseVerdict, Outcome, TestKind, Tier, Verdict

NOWHERE = Environment(warpgrade="", python="", torch="", triton="", numpy="")


def exercise(points: float = 10.0, speed: bool = True) -> Exercise:
    return Exercise(title="F", points=points, form=Form.FUNCTION, signature="f(x)", summary="", arguments=[], id="f",
                    speed=Speed("", {}) if speed else None)  # fmt: skip


def verdict(kind: TestKind, outcome: Outcome, points: Fraction, name: str = "t") -> Verdict:
    return Verdict(
        test=name, kind=kind, outcome=outcome, points=str(points), sentence="" if outcome is Outcome.PASSED else "so"
    )


def judged(verdicts: list[Verdict], **changes: Any) -> ExerciseVerdict:
    whole = ExerciseVerdict(assignment="a", exercise="f", tier=Tier.MODEL, submission_digest="", suite_digest="",
                            environment=NOWHERE, verdicts=verdicts)  # fmt: skip
    return msgspec.structs.replace(whole, **changes)


def verdicts(of: Exercise, public: list[Outcome], hidden: list[Outcome], speed: list[Outcome]) -> list[Verdict]:
    groups = (
        (TestKind.PUBLIC, public, of.public_points),
        (TestKind.HIDDEN, hidden, of.hidden_points),
        (TestKind.SPEED, speed, of.speed_points),
    )
    return [verdict(kind, outcome, points / len(group)) for kind, group, points in groups for outcome in group]


correctness = st.sampled_from([outcome for outcome in Outcome if outcome is not Outcome.TOO_SLOW])
likely = st.sampled_from([Outcome.PASSED, Outcome.PASSED, Outcome.PASSED, Outcome.WRONG]) | correctness
some = st.lists(likely, min_size=1, max_size=7)
points_of = st.floats(0.25, 100).map(lambda value: round(value, 2))


@settings(max_examples=300, deadline=None)
@given(
    points_of,
    some,
    some,
    st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_never_more_than_possible_and_none_while_undecided(
    points: float, public: list[Outcome], hidden: list[Outcome], speed: list[Outcome], sandboxed: bool, faulty: bool
) -> None:
    of = exercise(points)
    whole = judged(verdicts(of, public, hidden, speed), sandboxed=sandboxed, fault="why" if faulty else "")
    right, fast = correctness_mark(of, whole), speed_mark(of, whole)
    assert right.possible + fast.possible == Fraction(str(points))
    undecided = not sandboxed or faulty or bool(UNDECIDED & {*public, *hidden})
    assert (right.earned is None) == undecided
    for mark in (right, fast):
        assert mark.earned is None or 0 <= mark.earned <= mark.possible
        assert mark.earned is not None or mark.reason
    passed = {*public, *hidden} == {Outcome.PASSED}
    if not undecided:
        assert (right.earned == right.possible) == passed
        assert passed or fast.earned == 0
        assert not passed or (fast.earned is None) == bool(UNDECIDED & set(speed))
    else:
        assert fast.earned is None


@given(points_of)
def test_shares_add_up_exactly(points: float) -> None:
    for speed in (True, False):
        of = exercise(points, speed)
        assert of.public_points + of.hidden_points + of.speed_points == Fraction(str(points))


@pytest.mark.parametrize("outcome", sorted(UNDECIDED))
def test_an_undecided_test_leaves_the_cell_without_a_mark(outcome: Outcome) -> None:
    of = exercise()
    whole = judged(verdicts(of, [Outcome.PASSED], [Outcome.PASSED, outcome], [Outcome.PASSED]))
    assert correctness_mark(of, whole).earned is None
    assert speed_mark(of, whole).earned is None


def test_points_that_do_not_add_up_are_not_recorded() -> None:
    of = exercise()
    full = verdicts(of, [Outcome.PASSED], [Outcome.PASSED], [Outcome.PASSED])
    for wrong in (full[1:], [*full, full[0]], [], [*full, verdict(TestKind.PUBLIC, Outcome.PASSED, Fraction(90))]):
        assert correctness_mark(of, judged(wrong)).earned is None
    for wrong in (full[:2], [*full, full[2]], [*full[:2], verdict(TestKind.SPEED, Outcome.PASSED, Fraction(90))]):
        assert speed_mark(of, judged(wrong)).earned is None


@pytest.mark.parametrize("points", ["1/0", "-1", "1.5", "", "nan", "1/2/3", "٣"])
def test_points_are_a_fraction_or_no_verdict_at_all(points: str) -> None:
    good = msgspec.json.encode(verdict(TestKind.PUBLIC, Outcome.PASSED, Fraction(1, 3)))
    assert msgspec.json.decode(good, type=Verdict).points == "1/3"
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(good.replace(b'"1/3"', f'"{points}"'.encode()), type=Verdict)


@pytest.mark.parametrize(
    "changes",
    [{"outcome": Outcome.PASSED, "pattern": "it is a copy"}, {"outcome": Outcome.PASSED, "exception": "E"}, {"outcome": Outcome.WRONG},
     {"outcome": Outcome.TOO_SLOW, "sentence": "slow"}, {"outcome": Outcome.PENDING}],
)  # fmt: skip
def test_a_verdict_that_contradicts_itself_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="t:"):
        Verdict(test="t", kind=TestKind.PUBLIC, points="1", **changes)
