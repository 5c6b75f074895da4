"""The command line: what it prints where, and with which exit code. Judging itself is replaced."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from warpgrade import cli
from warpgrade.course import CourseError
from warpgrade.judge import judging
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.speed.lock import GpuLock, Mode
from warpgrade.judge.suite import empty_verdict
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, TestKind, Tier, Verdict, VerdictFile
from warpgrade.submission import SubmissionError

RUNNER = CliRunner()


def notebook(folder: Path, *, assignment: str = "tiny", source: str = "def double(x): return 2 * x") -> Path:
    path = folder / "mine.ipynb"
    cells = [{"cell_type": "code", "metadata": {}, "source": source}]
    path.write_text(
        json.dumps({"cells": cells, "metadata": {"warpgrade": {"assignment": assignment}}}), encoding="utf-8"
    )
    return path


def judged(course, id_, outcome, *, fault=""):
    exercise = course.exercise("tiny", id_)
    blank = empty_verdict(exercise, "d" * 64, Tier.MODEL, fault)
    if fault:
        return blank
    sentence = "" if outcome is Outcome.PASSED else "It is wrong."
    tests = [
        Verdict(test=f"{kind} one", kind=kind, outcome=outcome, points=points, sentence=sentence)
        for kind, points in (
            (TestKind.PUBLIC, str(exercise.public_points)),
            (TestKind.HIDDEN, str(exercise.hidden_points)),
        )
    ]
    return msgspec.structs.replace(blank, verdicts=tests)


@pytest.fixture
def answers(monkeypatch, tiny):
    """What the replaced Judge says, by exercise; the options that it was called with are kept in "options"."""
    said: dict[str, object] = {
        "double": judged(tiny.course, "double", Outcome.PASSED),
        "fill": judged(tiny.course, "fill", Outcome.WRONG),
    }

    def judge(course, assignment, submission, options, progress, exercises):
        said["options"] = options
        found = {id_: said[id_] for id_ in exercises}
        for verdict in found.values():
            assert isinstance(verdict, ExerciseVerdict)
            progress(verdict)
        return found

    monkeypatch.setattr(judging, "judge_submission", judge)
    return said


def run(tiny, *arguments: object):
    return RUNNER.invoke(cli.app, [*map(str, arguments), "--course", str(tiny.root)])


def test_a_table_and_exit_code_0_where_everything_is_decided(tiny, answers, tmp_path):
    result = run(tiny, "judge", notebook(tmp_path))
    assert result.exit_code == 0
    assert "judged 10/17" in result.stdout
    assert "It is wrong." in result.stdout


def test_a_fault_is_exit_code_1(tiny, answers, tmp_path):
    answers["fill"] = judged(tiny.course, "fill", Outcome.PASSED, fault="The disk was full.")
    result = run(tiny, "judge", notebook(tmp_path))
    assert result.exit_code == 1
    assert "not your fault: The disk was full." in " ".join(result.stdout.split())
    assert "not decided 7" in result.stdout


def test_json_goes_to_stdout_and_nothing_else_does(tiny, answers, tmp_path):
    result = run(tiny, "judge", notebook(tmp_path), "--json")
    file = msgspec.json.decode(result.stdout, type=VerdictFile)
    assert [verdict.exercise for verdict in file.exercises] == ["double", "fill"]


def test_out_writes_what_record_reads(tiny, answers, tmp_path):
    target = tmp_path / "verdicts.json"
    result = run(tiny, "judge", notebook(tmp_path), "--out", target)
    assert result.exit_code == 0
    file = msgspec.json.decode(target.read_bytes(), type=VerdictFile)
    assert (file.assignment, file.notebook, file.format_version) == ("tiny", "mine.ipynb", 1)


def test_without_a_sandbox_it_says_so(tiny, answers, tmp_path):
    result = run(tiny, "judge", notebook(tmp_path), "--no-sandbox")
    assert "WITHOUT a sandbox" in result.stderr
    assert answers["options"].sandbox is False


def test_one_exercise_only(tiny, answers, tmp_path):
    result = run(tiny, "judge", notebook(tmp_path), "--exercise", "double")
    assert "fill" not in result.stdout
    unknown = run(tiny, "judge", notebook(tmp_path), "--exercise", "dubble")
    assert unknown.exit_code == 2
    assert "no exercise dubble in tiny; it has double, fill" in " ".join(unknown.stderr.split())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SandboxUnavailable("bwrap is not installed"), "bwrap is not installed"),
        (CourseError("exercises.toml: no"), "exercises.toml: no"),
        (SubmissionError("mine.ipynb is not a notebook"), "is not a notebook"),
    ],
)
def test_what_cannot_be_judged_is_a_message_and_exit_code_2(tiny, monkeypatch, tmp_path, error, words):
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(judging, "judge_submission", refuse)
    result = run(tiny, "judge", notebook(tmp_path))
    assert result.exit_code == 2
    assert words in result.stderr
    assert not result.stdout
    assert "Traceback" not in result.stderr


def test_ctrl_c_says_how_to_go_on(tiny, monkeypatch, tmp_path):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "judge_submission", interrupt)
    result = run(tiny, "judge", notebook(tmp_path))
    assert result.exit_code == 130
    assert "the same command continues" in result.stderr


def test_a_notebook_that_is_not_there(tiny, tmp_path):
    result = run(tiny, "judge", tmp_path / "none.ipynb")
    assert result.exit_code == 2
    assert "there is no file none.ipynb" in result.stderr


def test_the_assignment_is_found_by_its_cells_where_the_notebook_does_not_name_it(tiny, tmp_path):
    cells = [
        {
            "cell_type": "code",
            "source": "check('double')",
            "metadata": {"nbgrader": {"grade_id": "double", "grade": True}},
        }
    ]
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}}), encoding="utf-8")
    submission = cli.read_submission(path)
    assert cli.assignment_of(tiny.course, submission, path) == "tiny"


def test_an_assignment_that_cannot_be_told_is_asked_for(tiny, tmp_path):
    result = run(tiny, "judge", notebook(tmp_path, assignment="no such"))
    assert result.exit_code == 2
    assert "--assignment" in result.stderr


def test_usage_errors_name_what_is_missing():
    result = RUNNER.invoke(cli.app, ["judge"])
    assert result.exit_code == 2
    assert "notebook" in result.stderr.lower()


@pytest.mark.parametrize("command", ["judge", "grade", "record", "demo", "doctor", "gpu"])
def test_every_command_has_help(command):
    result = RUNNER.invoke(cli.app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_without_nbgrader_grading_says_what_to_install():
    with pytest.raises(CourseError, match="make setup"), cli.needs_nbgrader():
        raise ModuleNotFoundError("No module named 'nbgrader'", name="nbgrader")


def test_another_missing_module_is_not_hidden():
    with pytest.raises(ModuleNotFoundError), cli.needs_nbgrader():
        raise ModuleNotFoundError("No module named 'nothing'", name="nothing")


def test_what_nbgrader_refuses_is_a_message_and_exit_code_2(tiny, monkeypatch):
    from nbgrader.converters import NbGraderException

    from warpgrade.grading import pipeline

    def refuse(*_, **__):
        raise NbGraderException("the gradebook knows no assignment 'tiny'. Run: nbgrader generate_assignment tiny")

    monkeypatch.setattr(pipeline, "grade_class", refuse)
    result = run(tiny, "grade", "tiny")
    assert result.exit_code == 2
    assert "Run: nbgrader generate_assignment tiny" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_grading_found_as_json(tiny, monkeypatch):
    from warpgrade.grading import pipeline
    from warpgrade.grading.autograde import Graded
    from warpgrade.grading.record import Need

    graded = [Graded("alice"), Graded("bob", (Need("relu", "the machine caught fire"),), "relu: caught fire")]
    monkeypatch.setattr(pipeline, "grade_class", lambda *_, **__: pipeline.Summary(graded))
    result = run(tiny, "grade", "tiny", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["done"], [student["student"] for student in found["students"]]) == (1, ["alice", "bob"])
    assert found["students"][1]["needs"][0]["cell"] == "relu"


def test_gpu_says_who_holds_which(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGRADE_GPU_LOCKS", str(tmp_path / "locks"))
    assert "nobody has asked" in RUNNER.invoke(cli.app, ["gpu"]).stdout
    with GpuLock("GPU-1234").hold(Mode.EXCLUSIVE, "timing relu", 5.0):
        shown = RUNNER.invoke(cli.app, ["gpu"])
        assert shown.exit_code == 0
        assert "GPU-1234: timing relu" in shown.stdout
        (queue,) = json.loads(RUNNER.invoke(cli.app, ["gpu", "--json"]).stdout)
        assert (queue["gpu"], queue["tickets"][0]["mode"]) == ("GPU-1234", "exclusive")
    assert "GPU-1234: free" in RUNNER.invoke(cli.app, ["gpu"]).stdout


def test_gpu_says_what_is_wrong_with_the_folder(tmp_path, monkeypatch):
    (tmp_path / "locks").write_text("")
    monkeypatch.setenv("WARPGRADE_GPU_LOCKS", str(tmp_path / "locks"))
    result = RUNNER.invoke(cli.app, ["gpu"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "WARPGRADE_GPU_LOCKS" in result.stderr
