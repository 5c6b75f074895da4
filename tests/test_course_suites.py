"""The course's own suites: every accepted solution gets everything, every wrong one loses just what its header says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from warpgrade.course import Course, Exercise
from warpgrade.judge.plugin import Job
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.suite import run_suite
from warpgrade.judge.verdict import ExerciseVerdict, Outcome, Tier
from warpgrade.submission import CodeCell, Submission

COURSE = Course(Path(__file__).parents[1])
#: What the notebooks have imported before an exercise's cell.
IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


def solutions(kind: str) -> list[object]:
    return [
        pytest.param(path, id=f"{path.parents[1].name}-{path.stem}")
        for path in sorted(COURSE.root.glob(f"course_tests/*/{kind}/*.py"))
    ]


def judged(path: Path) -> ExerciseVerdict:
    exercise: Exercise = COURSE.exercise(path.parents[1].name, path.stem.split("__")[0])
    # Two solutions at once, on a machine that others use too: here nobody waits for a kernel that never ends.
    patient = msgspec.structs.replace(exercise.limits, call_s=120.0, compile_s=120.0, exercise_s=600.0)
    cells = (CodeCell(1, IMPORTS), CodeCell(2, path.read_text("utf-8")))
    submission = Submission(cells, "0" * 64, "", frozenset())
    result = run_suite(
        Job(COURSE, msgspec.structs.replace(exercise, limits=patient), submission, NoSandbox(), Tier.MODEL)
    )
    assert result.fault == "", result.fault_evidence
    return result


def lost(result: ExerciseVerdict) -> dict[str, str]:
    return {
        verdict.test: verdict.sentence
        for verdict in result.verdicts
        if verdict.outcome not in (Outcome.PASSED, Outcome.PENDING)
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", solutions("accepted"))
def test_an_accepted_solution_passes_every_test(path: Path) -> None:
    result = judged(path)
    assert lost(result) == {}
    assert result.kernels, "what is said of its kernels"
    assert result.notices == []


@pytest.mark.slow
@pytest.mark.parametrize("path", solutions("mutants"))
def test_a_wrong_solution_loses_just_the_tests_that_its_header_names(path: Path) -> None:
    header = re.match(r"# loses: ((?:.*\n)(?:#   .*\n)*)# tiers: (.*)\n", path.read_text("utf-8"))
    assert header, f"{path.name} does not begin with what it loses, and on which tiers"
    names = {re.sub(r"^test_(\w+?__)?", "", name) for name in re.findall(r"\w+", header[1])}
    result = judged(path)
    if "model" not in header[2]:
        assert names == {"speed"}, "what only a GPU finds"
        names = set()
    every = {verdict.test for verdict in result.verdicts if verdict.outcome is not Outcome.PENDING}
    assert set(lost(result)) == (every if names == {"all"} else {name.replace("_", " ") for name in names})
