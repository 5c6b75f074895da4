"""From a notebook's code to a mark for speed: the course's own suite, a real Worker, the simulated GPU's clock."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import msgspec
import psutil
import pytest

from tests.judge.speed.interpreted import SMALL, InterpretedTiming
from warpgrade.course import Course
from warpgrade.judge.marks import correctness_mark, speed_mark
from warpgrade.judge.plugin import Job
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.speed.simulated import SimulatedDevice
from warpgrade.judge.suite import run_suite
from warpgrade.judge.verdict import Outcome, TestKind, Tier
from warpgrade.report.cell import cell_text
from warpgrade.submission import CodeCell, Submission

COURSE = Course(Path(__file__).parents[3])
IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"
SOLUTIONS = COURSE.root / "course_tests/triton-01-basics"
SLOW = [path for path in sorted(SOLUTIONS.glob("mutants/*.py")) if "# loses: test_speed\n" in path.read_text("utf-8")]

#: Right, and everything is read twice: 20 bytes an element, where 12 do.
TWICE = """
@triton.jit
def vector_add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    first = tl.load(x + i, keep) + tl.load(y + i, keep)
    again = tl.load(x + i, keep) + tl.load(y + i, keep)
    tl.store(z + i, tl.where(first == again, first, again), keep)
"""


def judged(code, id_):
    exercise = COURSE.exercise("triton-01-basics", id_)
    submission = Submission((CodeCell(1, IMPORTS), CodeCell(2, code)), "0" * 64, "", frozenset())
    timing = InterpretedTiming(exercise, submission, NoSandbox())
    verdict = run_suite(Job(COURSE, exercise, submission, NoSandbox(), Tier.MODEL, timing=timing))
    assert verdict.fault == "", verdict.fault_evidence
    return exercise, verdict


def speed_of(exercise, judged):
    """The verdict on speed, and the mark as if it had been judged in a sandbox."""
    sandboxed = msgspec.structs.replace(judged, sandboxed=True)
    assert correctness_mark(exercise, sandboxed).earned == exercise.correctness_points
    speed = next(verdict for verdict in judged.verdicts if verdict.kind is TestKind.SPEED)
    return speed, speed_mark(exercise, sandboxed), sandboxed


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SOLUTIONS.glob("accepted/*.py")), ids=lambda path: path.stem)
def test_every_accepted_solution_earns_all_points(path):
    exercise, verdict = judged(path.read_text("utf-8"), path.stem.split("__")[0])
    speed, mark, _ = speed_of(exercise, verdict)
    assert speed.outcome is Outcome.PASSED
    # each moves what it has to, and no more; row_sum starts at rows of 32 bytes
    assert speed.reading.share == pytest.approx(1.0, rel=0.02)
    assert mark.earned == mark.possible > 0


@pytest.mark.slow
@pytest.mark.parametrize("path", SLOW, ids=lambda path: path.stem)
def test_every_slow_mutant_is_right_and_too_slow(path):
    """By its memory traffic: what caches make of it, a GPU says."""
    exercise, verdict = judged(path.read_text("utf-8"), path.stem.split("__")[0])
    speed, mark, _ = speed_of(exercise, verdict)
    assert speed.outcome is Outcome.TOO_SLOW
    assert mark.earned <= mark.possible / 2


@pytest.mark.slow
def test_reading_everything_twice_earns_half():
    """12 bytes of 20 are 60% of the speed; on the line from 0 at 40% to all at 80% that is the half."""
    exercise, verdict = judged(TWICE, "vector_add")
    speed, mark, whole = speed_of(exercise, verdict)
    assert speed.outcome is Outcome.TOO_SLOW
    assert speed.reading.share == pytest.approx(0.6, rel=0.02)
    assert float(mark.earned / mark.possible) == pytest.approx(0.5, abs=0.03)
    assert mark.possible == Fraction(4, 5)
    text = cell_text(exercise, True, mark, whole)
    assert "of 0.8 points" in text
    assert "Full marks are from 80%" in " ".join(text.split())


class Watched(InterpretedTiming):
    """Notes how many Workers live whenever a Runner is started."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.alive = {}

    def start(self, role, message, baseline):
        commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
        self.alive[role] = sum("worker/boot.py" in command for command in commands)
        return super().start(role, message, baseline)


def test_no_student_code_runs_beside_the_baseline():
    """The Worker that answered the tests of correctness is ended before anything is started that is timed."""
    exercise = COURSE.exercise("triton-01-basics", "vector_add")
    submission = Submission((CodeCell(1, IMPORTS), CodeCell(2, TWICE)), "0" * 64, "", frozenset())
    timing = Watched(exercise, submission, NoSandbox())
    verdict = run_suite(Job(COURSE, exercise, submission, NoSandbox(), Tier.MODEL, timing=timing))
    # at last those of the no-op and of the baseline, which hold no student's code
    assert timing.alive == {"noop": 0, "baseline": 0, "candidate": 2}
    assert verdict.kernels, "what is said of the kernels was asked before"


def test_a_gpu_that_vanishes_costs_the_speed_alone():
    exercise = COURSE.exercise("triton-01-basics", "vector_add")
    submission = Submission((CodeCell(1, IMPORTS), CodeCell(2, TWICE)), "0" * 64, "", frozenset())
    timing = InterpretedTiming(exercise, submission, NoSandbox())
    timing.device = SimulatedDevice(SMALL, vanishes_s=0.3)
    verdict = run_suite(Job(COURSE, exercise, submission, NoSandbox(), Tier.MODEL, timing=timing))
    sandboxed = msgspec.structs.replace(verdict, sandboxed=True)
    assert correctness_mark(exercise, sandboxed).earned == exercise.correctness_points
    mark = speed_mark(exercise, sandboxed)
    assert (mark.earned, mark.pending) == (None, False)
    assert "not the submission's fault" in mark.reason
    assert verdict.faulty, "so it is judged again"
