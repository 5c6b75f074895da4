"""Text of a submission's making, as a line that it cannot leave."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel_facts import facts
from warpgrade.judge.verdict import KernelReport
from warpgrade.report.kernels import kernel_lines
from warpgrade.report.printable import block, one_line, word
from warpgrade.wire.compiled import CompileProblem
from warpgrade.wire.messages import ArgumentTraffic

BREAKS = ["\n", "\r", "\t", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\x1b", "\x00", "\u202e"]
MOVED = ArgumentTraffic(4096, 0, 128, 0)


@pytest.mark.parametrize("cut", BREAKS)
def test_one_line_has_no_breaks_and_stays_as_long(cut):
    text = one_line(f"a{cut}b")
    assert text.isprintable()
    assert len(text) == 3
    assert word(f"a{cut} b").isprintable()
    assert " " not in word(f"a{cut} b")


def test_later_lines_of_a_block_are_marked():
    assert block("one\ntwo\r  ok    forged").splitlines() == ["one", "  | two\ufffd  ok    forged"]


@pytest.mark.parametrize("cut", BREAKS)
def test_no_string_of_a_kernels_report_makes_a_line_of_its_own(cut):
    forged = f"k{cut}  ok    hidden sizes"
    problem = CompileProblem("compiler", 80, forged, "", 4, None, 2)
    evil = facts(
        90, tensor_core_instructions={forged: 1}, narrowed_by=(forged,), unaligned=(forged,), wide_integers=(forged,),
        wide_offset_lines=(3,),
    )  # fmt: skip
    evil = msgspec.structs.replace(evil, name=forged)
    plain = facts(90, tensor_core_instructions={"k": 1}, narrowed_by=("k",), unaligned=("k",), wide_integers=("k",),
                  wide_offset_lines=(3,))  # fmt: skip

    def lines(name, compiled):
        report = KernelReport(name=name, launches=1, traffic={name: MOVED}, tuned=False, compiled=compiled)
        return kernel_lines([report])

    told = lines(forged, [problem, evil])
    assert all(line.isprintable() for line in told)
    assert len(told) == len(lines("k", [msgspec.structs.replace(problem, message="k"), plain]))
    assert not any(line.strip().startswith("ok") for line in told)
