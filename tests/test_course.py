"""The course on disk: declarations are strict, errors name file and key, and secrets are all there is to hide."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from warpgrade.course import TAKEN_IDS, Course, CourseError, Form, Limits
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.verdict import Tier


def test_a_declaration_is_read_with_ids_and_defaults(tiny: Any) -> None:
    assert tiny.course.assignments == ["tiny"]
    assignment = tiny.course.assignment("tiny")
    assert list(assignment.exercises) == ["double", "fill"]
    double = assignment.exercises["double"]
    assert (double.id, double.assignment, double.form) == ("double", "tiny", Form.PLAIN)
    assert (double.limits.call_s, double.limits.exercise_s) == (5.0, Limits().exercise_s)
    assert double.argument("x") is not None
    assert double.argument("y") is None
    assert tiny.course.exercise("tiny", "fill").argument("out").output


def test_points_are_shared_exactly(tiny: Any) -> None:
    fill = tiny.exercise("fill")
    assert (fill.public_points, fill.hidden_points, fill.speed_points) == (Fraction(21, 10), Fraction(49, 10), 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [(("points = 10", "points = 0"), "points"), (("points = 10", "points = -1"), "points"), (("points = 10", ""), "points"),
     (("points = 10", "points = 10\npiont = 3"), "piont"), (("points = 10", "points = '10'"), "points"), (('form = "plain"', 'form = "magic"'), "form"),
     (('title = "Tiny"', "title = "), "exercises.toml"),
     (("call_s = 5.0", "call_s = 5.0\nmemory = 1"), "memory"), ],
)  # fmt: skip
def test_a_wrong_declaration_names_file_and_key(change: tuple[str, str], words: str, tiny: Any) -> None:
    path = tiny.root / "source/tiny/exercises.toml"
    before = path.read_text()
    assert change[0] in before
    path.write_text(before.replace(*change, 1))
    with pytest.raises(CourseError) as caught:
        tiny.course.assignment("tiny")
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "id_", ["Double-It", "../x", "a__speed", "double\\n", "_x", "x_", "", "1x", "é", "launch", "close"]
)
def test_ids_are_words_and_mean_one_thing(id_: str, tiny: Any) -> None:
    path = tiny.root / "source/tiny/exercises.toml"
    path.write_text(path.read_text().replace("exercises.double", f'exercises."{id_}"'))
    with pytest.raises(CourseError, match=r"exercises\.toml.*id"):
        tiny.course.assignment("tiny")


def test_ids_that_a_submission_has_of_its_own_are_taken(tiny: Any, notebook: Any, workers: Any) -> None:
    remote = RemoteSubmission(tiny.exercise(), notebook(""), workers.honest(), Tier.MODEL, [])
    own = {name for name in [*dir(RemoteSubmission), *vars(remote)] if not name.startswith("_")}
    assert own == TAKEN_IDS


def test_a_declaration_that_is_no_text_is_an_error_of_the_course(tiny: Any) -> None:
    (tiny.root / "source/tiny/exercises.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(CourseError):
        tiny.course.assignment("tiny")


def test_what_is_not_there_is_named_with_what_is(tiny: Any) -> None:
    with pytest.raises(CourseError, match="Assignments here: tiny"):
        tiny.course.assignment("other")
    with pytest.raises(CourseError, match="double, fill"):
        tiny.course.exercise("tiny", "other")
    (tiny.root / "course_tests/tiny/test_fill.py").unlink()
    with pytest.raises(CourseError, match=r"course_tests/tiny/test_fill\.py does not exist"):
        tiny.course.suite("tiny", "fill")


def test_a_course_is_found_from_below(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPGRADE_OVERLAY", raising=False)
    assert Course.find(tiny.root / "source" / "tiny").root == tiny.root
    monkeypatch.chdir(tiny.root)
    assert Course.find().root == tiny.root
    with pytest.raises(CourseError, match="no course"):
        Course.find(tmp_path)


def test_an_overlay_comes_first_and_is_a_secret(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overlay = tmp_path / "private"
    (overlay / "tiny").mkdir(parents=True)
    mine = overlay / "tiny" / "test_double.py"
    mine.write_text("def test_it(): pass\n")
    monkeypatch.setenv("WARPGRADE_OVERLAY", str(overlay))
    course = Course.find(tiny.root)
    assert course.suite("tiny", "double") == mine
    assert course.suite("tiny", "fill") == tiny.root / "course_tests/tiny/test_fill.py"
    assert overlay in course.secrets()


def test_secrets_are_all_that_holds_answers_or_marks(tiny: Any) -> None:
    secrets = {path.name for path in tiny.course.secrets()}
    assert {
        "course_tests",
        "source",
        "submitted",
        "autograded",
        "feedback",
        "gradebook.db",
        "verdicts",
        ".git",
        "nbgrader_config.py",
    } <= secrets
    assert all(path.is_absolute() for path in tiny.course.secrets())
    assert tiny.course.public_tests("tiny") == tiny.root / "source/tiny/checks.py"


def test_a_course_behind_a_link_has_one_root(tiny: Any, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tiny.root)
    assert Course(link).root == tiny.root


@pytest.mark.parametrize("overlay", ["/nonexistent/private", "private", ""])
def test_an_overlay_that_is_not_there_is_never_passed_over(
    overlay: str, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class would be judged by tests that it can read."""
    (tmp_path / "private").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARPGRADE_OVERLAY", overlay)
    if overlay:
        with pytest.raises(CourseError, match="WARPGRADE_OVERLAY names"):
            Course.find(tiny.root)
    else:
        assert Course.find(tiny.root).overlay is None


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('kind = "tensor"', 'kind = "tensr"'),
        ('dtypes = ["float32"]', 'dtypes = ["fp32"]'),
        ('kind = "tensor"', 'kind = "tensor"\nlayout = "contigous"'),
    ],
)
def test_a_word_that_means_nothing_is_refused(right: str, wrong: str, tiny: Any) -> None:
    path = tiny.root / "source/tiny/exercises.toml"
    path.write_text(path.read_text().replace(right, wrong, 1))
    with pytest.raises(CourseError, match="Invalid enum value"):
        tiny.course.assignment("tiny")


def test_the_dtypes_of_a_declaration_are_those_of_the_wire() -> None:
    from typing import get_args

    from warpgrade.course import Dtype
    from warpgrade.wire.messages import ITEMSIZE_BYTES

    assert set(get_args(Dtype)) == set(ITEMSIZE_BYTES)
