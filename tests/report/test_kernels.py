"""What students read about their kernels."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel_facts import facts
from warpgrade.judge.marks import correctness_mark, speed_mark
from warpgrade.judge.suite import empty_verdict
from warpgrade.judge.verdict import KernelReport, Tier
from warpgrade.report.cell import cell_html
from warpgrade.report.kernels import kernel_lines
from warpgrade.report.text import check_report, render, table
from warpgrade.wire.compiled import CompileProblem
from warpgrade.wire.messages import ArgumentTraffic

PLAIN = ArgumentTraffic(4096, 0, 128, 0)


def report(traffic=PLAIN, compiled=None, name="add_kernel"):
    compiled = [facts(80), facts(90)] if compiled is None else compiled
    return KernelReport(name=name, launches=1, traffic={"x": traffic}, tuned=False, compiled=compiled)


def test_what_moved_is_told_with_its_share_of_use():
    (line,) = [line for line in kernel_lines([report()]) if "loaded" in line]
    assert line.strip() == "4 KB loaded from x in 128 sectors of 32 bytes: 100% used"


@pytest.mark.parametrize(
    ("traffic", "asked"),
    [
        (ArgumentTraffic(0, 4096, 0, 1024), True),  # one float32 of each sector
        (ArgumentTraffic(0, 4096, 0, 256), True),  # every other one
        (ArgumentTraffic(0, 4096, 0, 255), False),
        (ArgumentTraffic(0, 4, 0, 1), False),  # a single number fills no sector
    ],
)
def test_waste_is_asked_about_where_it_is_worth_it(traffic, asked):
    assert any("neighbouring" in line for line in kernel_lines([report(traffic)])) is asked


def test_what_holds_for_all_architectures_is_said_once_and_with_its_line():
    spilling = {"spill_store_bytes": 8, "cell": 3}
    same = kernel_lines([report(compiled=[facts(80, **spilling), facts(90, **spilling)])])
    assert sum("spilled to and from" in line for line in same) == 1
    apart = kernel_lines([report(compiled=[facts(80, **spilling), facts(90)])])
    assert next(line.strip() for line in apart if "spilled to and from" in line).startswith("sm_80: ")
    lined = {"cell": 3, "wide_offset_lines": (7,)}
    (line,) = [line for line in kernel_lines([report(compiled=[facts(80), facts(90, **lined)])]) if "int64" in line]
    assert line.strip().startswith("cell 3, line 7, sm_90: int64 offsets")


def test_a_problem_of_one_architecture_is_told_with_its_line():
    problem = CompileProblem("shared_memory", 80, "the tiles need 164 KB", "", 4, facts(80, cell=2), 2)
    lines = kernel_lines([report(compiled=[problem, facts(90)])])
    assert any("no: shared memory" in line for line in lines)
    assert any(line.strip().startswith("cell 2, line 4, sm_80: the tiles need 164 KB.") for line in lines)


def test_facts_are_in_check_in_feedback_and_on_request_on_a_terminal(tiny):
    exercise = tiny.exercise()
    blank = empty_verdict(exercise, "d" * 64, Tier.MODEL, "")
    judged = msgspec.structs.replace(blank, kernels=[report()])
    assert "kernel add_kernel" in check_report(exercise, judged)
    assert "kernel add_kernel" in cell_html(exercise, False, correctness_mark(exercise, judged), judged)
    assert "kernel add_kernel" not in cell_html(exercise, True, speed_mark(exercise, judged), judged)
    shown = {every: render(table(tiny.course.assignment("tiny"), {"double": judged}, every_test=every))
             for every in (False, True)}  # fmt: skip
    assert "kernel add_kernel" in shown[True]
    assert "kernel add_kernel" not in shown[False]


def test_names_from_a_submission_are_only_text(tiny):
    evil = report(name="\x1b[31m<script>alert(1)</script>[red]")
    lines = "\n".join(kernel_lines([evil]))
    assert "\x1b" not in lines
    exercise = tiny.exercise()
    judged = msgspec.structs.replace(empty_verdict(exercise, "d" * 64, Tier.MODEL, ""), kernels=[evil])
    assert "<script>" not in cell_html(exercise, False, correctness_mark(exercise, judged), judged)
    assert "[red]" in render(table(tiny.course.assignment("tiny"), {"double": judged}, every_test=True))
