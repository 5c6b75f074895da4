"""What the Worker's sanitizer found, as a Failure. Evidence of the suspect's own making, and never marks: a finding can
only cost them."""

from __future__ import annotations

import re

from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
from warpgrade.model.findings import plain_sentence
from warpgrade.submission import Submission
from warpgrade.wire.messages import FindingKind, Location, SanitizerFinding

_MEMORY: tuple[FindingKind, ...] = (
    "out_of_bounds", "between_rows", "race", "two_lanes", "uninitialised", "input_written", "undefined",
)  # fmt: skip
_OUTCOMES: dict[FindingKind, Outcome] = dict.fromkeys(_MEMORY, Outcome.MEMORY_ERROR) | {
    "overflow": Outcome.WRONG,
    "device_assert": Outcome.CRASHED,
    "small_dot": Outcome.DOES_NOT_COMPILE,
}
#: No parentheses among the parameters: from `def f(` without an end the search would go on to the end of the cell, and
#: a cell may be made of nothing else.
_DEFINITION = re.compile(r"^[ \t]*def[ \t]+\w+[ \t]*\(([^()]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"(?:^|,)\s*(\w+)")


def failure_of_finding(finding: SanitizerFinding, submission: Submission, place: Location | None, seed: int) -> Failure:
    """`place` is the finding's line in the Judge's own copy. Sizes, indices and programs are evidence alone."""
    where = f" (cell {place.cell}, line {place.line})" if place else ""
    argument = finding.argument
    if argument is not None and argument.split("[")[0] not in _parameters(submission, place):
        argument = "an argument"  # a name made up in a call could hold inputs
    evidence = {
        "argument": finding.argument,
        "element": finding.index,
        "program": finding.program,
        "detail": finding.detail or None,
        "order of programs": f"seed {seed}",
    }
    return Failure(
        _OUTCOMES[finding.kind],
        plain_sentence(finding.kind, finding.access, argument and argument.split("[")[0], where),
        pattern=finding.kind.replace("_", " "),
        location=place,
        evidence={name: str(value) for name, value in evidence.items() if value is not None},
    )


def _parameters(submission: Submission, place: Location | None) -> list[str]:
    """Of the function above the line; none where its parameters hold parentheses."""
    cell = submission.cell(place.cell) if place else None
    if place is None or cell is None:
        return []
    definitions = _DEFINITION.findall("\n".join(cell.lines[: place.line]))
    return _PARAMETER.findall(definitions[-1]) if definitions else []
