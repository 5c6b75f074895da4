"""What of a Worker's account is repeated to students."""

from __future__ import annotations

import pytest

from warpgrade.judge.repeated import own_line, own_reason
from warpgrade.submission import CodeCell, Submission
from warpgrade.wire.messages import Location

SUBMISSION = Submission((CodeCell(1, "def f(x):\n\n    # a remark\n    \f\n    return x"),), "", "", frozenset())


@pytest.mark.parametrize(("line", "shown"), [(1, True), (2, False), (3, False), (4, False), (5, True), (6, False)])
def test_a_line_without_code_is_not_named_after_a_call(line: int, shown: bool) -> None:
    place = Location(1, line, "of the Worker")
    assert (own_line(SUBMISSION, place) is not None) is shown
    assert (own_line(SUBMISSION, place, chosen=False) is not None) is (line <= 5)


def test_why_a_statement_was_skipped() -> None:
    assert own_reason("ZeroDivisionError") == "ZeroDivisionError"
    assert own_reason("Size1025") == "Exception"
    assert "too long" in own_reason("NoTimeLeft")
