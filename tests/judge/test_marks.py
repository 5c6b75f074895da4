"""Marks are derived from Verdicts: never more than possible, and none while anything is undecided."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.speed_readings import reading
from warpgrade.course import Exercise, Form, Speed
from warpgrade.judge.marks import correctness_mark, speed_mark, speed_share
from warpgrade.judge.verdict import UNDECIDED, Environment, ExerciseVerdict, Outcome, TestKind, Tier, Verdict

NOWHERE = Environment(warpgrade="", python="", torch="", triton="", numpy="")


def exercise(points: float = 10.0, speed: bool = True) -> Exercise:
    return Exercise(title="F", points=points, form=Form.FUNCTION, signature="f(x)", summary="", arguments=[], id="f",
                    speed=Speed("", {}) if speed else None)  # fmt: skip


def verdict(kind: TestKind, outcome: Outcome, points: Fraction, name: str = "t") -> Verdict:
    measured = {Outcome.PASSED: reading(0.8, 0.8), Outcome.TOO_SLOW: reading(0.3, 0.8)}
    return Verdict(
        test=name, kind=kind, outcome=outcome, points=str(points), sentence="" if outcome is Outcome.PASSED else "so",
        reading=measured.get(outcome) if kind is TestKind.SPEED else None,
    )  # fmt: skip


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


# --- speed ---------------------------------------------------------------------------------------------------------


def fast(share: float, threshold: float = 0.8) -> Verdict:
    """The verdict on a speed test worth 2 points."""
    passed = share >= threshold
    return Verdict(
        test="speed", kind=TestKind.SPEED, outcome=Outcome.PASSED if passed else Outcome.TOO_SLOW, points="2",
        sentence="" if passed else "so", reading=reading(share, threshold),
    )  # fmt: skip


def right(of: Exercise) -> list[Verdict]:
    return verdicts(of, [Outcome.PASSED], [Outcome.PASSED], [])


@pytest.mark.parametrize(
    ("share", "earned"),
    [
        (0.8, "2"), (1.3, "2"),  # at the threshold and above it: all
        (0.4, "0"), (0.1, "0"),  # at half of it and below: none
        (0.6, "1"), (0.7, "3/2"), (0.5, "1/2"),  # a straight line between
    ],
)  # fmt: skip
def test_speed_earns_along_a_straight_line(share: float, earned: str) -> None:
    of = exercise()
    assert speed_mark(of, judged([*right(of), fast(share)])).earned == Fraction(earned)


def test_all_the_points_are_for_those_who_reach_the_threshold_alone() -> None:
    assert speed_share(0.7999, 0.8) < 1
    assert speed_share(0.8, 0.8) == 1


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(0.01, 10))
def test_the_faster_never_earns_less(one: float, other: float, threshold: float) -> None:
    slow, quick = sorted([one, other])
    assert 0 <= speed_share(slow, threshold) <= speed_share(quick, threshold) <= 1


def test_speed_counts_for_nothing_while_something_is_wrong() -> None:
    of = exercise()
    wrong = verdicts(of, [Outcome.PASSED], [Outcome.WRONG], [])
    assert speed_mark(of, judged([*wrong, fast(2.0)])).earned == 0


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.CRASHED, Outcome.REFUSED, Outcome.TIMED_OUT])
def test_who_is_wrong_while_timed_earns_nothing_for_speed(outcome: Outcome) -> None:
    of = exercise()
    mark = speed_mark(of, judged([*right(of), verdict(TestKind.SPEED, outcome, Fraction(2))]))
    assert (mark.earned, mark.pending) == (0, False)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Verdict(test="t", kind=TestKind.SPEED, outcome=Outcome.PASSED, points="1"),
        lambda: Verdict(test="t", kind=TestKind.SPEED, outcome=Outcome.TOO_SLOW, points="1", sentence="so"),
        lambda: msgspec.structs.replace(fast(0.5), outcome=Outcome.PASSED, sentence=""),
        lambda: msgspec.structs.replace(fast(0.9), outcome=Outcome.TOO_SLOW, sentence="so"),
        lambda: msgspec.structs.replace(fast(0.9), outcome=Outcome.INCONCLUSIVE, sentence="so"),
        lambda: msgspec.structs.replace(fast(0.9), kind=TestKind.HIDDEN),
        lambda: reading(candidate_ms=float("nan")),
        lambda: reading(candidate_ms=float("inf")),
    ],
)
def test_a_verdict_on_speed_that_contradicts_its_measurement_cannot_be_made(made: Any) -> None:
    with pytest.raises(ValueError):
        made()


def test_a_verdict_with_its_measurement_survives_the_store() -> None:
    of = exercise()
    whole = judged([*right(of), fast(0.7)])
    assert msgspec.json.decode(msgspec.json.encode(whole), type=ExerciseVerdict) == whole
    with pytest.raises((ValueError, msgspec.ValidationError)):
        forged = msgspec.json.encode(whole).replace(b'"too_slow"', b'"passed"')
        msgspec.json.decode(forged, type=ExerciseVerdict)
