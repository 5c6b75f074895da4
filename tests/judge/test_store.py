"""Stored verdicts: only decided ones of today's tests come back, whatever lies in the folder."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from warpgrade.judge.store import VerdictStore
from warpgrade.judge.suite import environment, suite_digest
from warpgrade.judge.verdict import UNDECIDED, ExerciseVerdict, Outcome, TestKind, Tier, Verdict

DIGEST = "d" * 64


@pytest.fixture
def store(tiny: Any) -> VerdictStore:
    return VerdictStore(tiny.course)


def judged(
    tiny: Any, outcome: Outcome = Outcome.PASSED, kind: TestKind = TestKind.HIDDEN, **changes: Any
) -> ExerciseVerdict:
    exercise = tiny.exercise()
    sentence = "" if outcome is Outcome.PASSED else "so"
    verdict = Verdict(test="t", kind=kind, outcome=outcome, points=str(Fraction(1)), sentence=sentence)
    whole = ExerciseVerdict(assignment="tiny", exercise="double", tier=Tier.MODEL, submission_digest=DIGEST,
                            suite_digest=suite_digest(tiny.course, exercise), environment=environment(), verdicts=[verdict])  # fmt: skip
    return msgspec.structs.replace(whole, **changes)


def the_file(tiny: Any) -> Path:
    (path,) = (tiny.root / "verdicts").rglob("*.json")
    return path


def test_what_was_put_comes_back(tiny: Any, store: VerdictStore) -> None:
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is None
    assert store.put(tiny.exercise(), judged(tiny))
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) == judged(tiny)
    assert [path.suffix for path in the_file(tiny).parent.iterdir()] == [".json"], "no temporary file is left"


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in Outcome if outcome.decided and outcome is not Outcome.TOO_SLOW]
)
def test_every_decided_outcome_is_stored(outcome: Outcome, tiny: Any, store: VerdictStore) -> None:
    assert store.put(tiny.exercise(), judged(tiny, outcome))


@pytest.mark.parametrize("outcome", sorted(UNDECIDED))
def test_undecided_ones_are_not_stored(outcome: Outcome, tiny: Any, store: VerdictStore) -> None:
    assert not store.put(tiny.exercise(), judged(tiny, outcome))
    assert not (tiny.root / "verdicts").exists()


def test_pending_speed_does_not_keep_the_rest_from_being_stored(tiny: Any, store: VerdictStore) -> None:
    assert store.put(tiny.exercise(), judged(tiny, Outcome.PENDING, TestKind.SPEED))


@pytest.mark.parametrize(
    ("outcome", "tier"),
    [
        (Outcome.PENDING, Tier.GPU),
        *((outcome, tier) for outcome in (Outcome.INCONCLUSIVE, Outcome.FAULT) for tier in Tier),
    ],
)
def test_speed_that_measuring_again_may_decide_is_not_stored(
    outcome: Outcome, tier: Tier, tiny: Any, store: VerdictStore
) -> None:
    assert not store.put(tiny.exercise(), judged(tiny, outcome, TestKind.SPEED, tier=tier))


@pytest.mark.parametrize(
    "changes", [{"sandboxed": False}, {"fault": "why"}, {"suite_digest": "of yesterday"}, {"suite_digest": ""}]
)
def test_what_may_not_become_marks_is_not_stored(changes: dict[str, Any], tiny: Any, store: VerdictStore) -> None:
    assert not store.put(tiny.exercise(), judged(tiny, **changes))


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b"\xff\xfe", b"{}", b"[" * 100_000])
def test_a_corrupted_file_counts_as_absent(content: bytes, tiny: Any, store: VerdictStore) -> None:
    store.put(tiny.exercise(), judged(tiny))
    the_file(tiny).write_bytes(content)
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is None
    assert store.put(tiny.exercise(), judged(tiny)), "and is written again"
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is not None


def test_every_truncation_counts_as_absent(tiny: Any, store: VerdictStore) -> None:
    store.put(tiny.exercise(), judged(tiny))
    whole = the_file(tiny).read_bytes()
    for length in range(0, len(whole) - 1, 17):
        the_file(tiny).write_bytes(whole[:length])
        assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is None


@pytest.mark.parametrize(
    "changes", [{"submission_digest": "e" * 64}, {"exercise": "fill"}, {"assignment": "other"}, {"tier": Tier.GPU}, {"suite_digest": "x"},
                {"sandboxed": False}, {"fault": "why"}]
)  # fmt: skip
def test_a_file_that_says_something_else_than_its_name_counts_as_absent(
    changes: Any, tiny: Any, store: VerdictStore
) -> None:
    store.put(tiny.exercise(), judged(tiny))
    the_file(tiny).write_bytes(msgspec.json.encode(judged(tiny, **changes)))
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is None


@pytest.mark.parametrize(
    "name", ["course_tests/tiny/test_double.py", "source/tiny/checks.py", "course_tests/tiny/reference.py", "source/tiny/baselines.py"]
)  # fmt: skip
def test_changed_tests_make_yesterdays_verdict_absent(name: str, tiny: Any, store: VerdictStore) -> None:
    store.put(tiny.exercise(), judged(tiny))
    with (tiny.root / name).open("a") as file:
        file.write("\n# changed\n")
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is None


def test_a_changed_declaration_makes_it_absent_and_another_exercises_suite_does_not(
    tiny: Any, store: VerdictStore
) -> None:
    store.put(tiny.exercise(), judged(tiny))
    (tiny.root / "course_tests/tiny/test_fill.py").write_text("# changed\n")
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is not None
    assert store.get(tiny.exercise(call_s=6.0), DIGEST, Tier.MODEL) is None


def test_another_version_of_torch_makes_it_absent(
    tiny: Any, store: VerdictStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(tiny.exercise(), judged(tiny))
    other = msgspec.structs.replace(environment(), torch="0.0.0")
    monkeypatch.setattr("warpgrade.judge.store.environment", lambda: other)
    assert store.get(tiny.exercise(), DIGEST, Tier.MODEL) is None


def test_a_write_that_fails_leaves_nothing(tiny: Any, store: VerdictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        store.put(tiny.exercise(), judged(tiny))
    assert list((tiny.root / "verdicts").rglob("*.*")) == []
