"""What the Worker's sanitizer found, as a Failure. Evidence of the suspect's own making, and never marks: a finding can
only cost them."""

from __future__ import annotations

import re

from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
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
_PARAMETERS = re.compile(r"^[ \t]*def[ \t]+\w+[ \t]*\(([^)]*)\)", re.MULTILINE)


def failure_of_finding(finding: SanitizerFinding, submission: Submission, place: Location | None, seed: int) -> Failure:
    """`place` is the finding's line in the Judge's own copy. Sizes, indices and programs are evidence alone."""
    # Imported here: `check` draws its report without it.
    from warpgrade.model.findings import Finding, sentence

    argument = _own_argument(finding.argument, submission, place)
    shown = Finding(finding.kind, finding.access, argument, None, None, "", None)
    where = f" (cell {place.cell}, line {place.line})" if place else ""
    text = sentence(shown, numbers=False)
    first, _, look = text.partition(". ")
    evidence = {
        "argument": finding.argument,
        "element": finding.index,
        "program": finding.program,
        "detail": finding.detail or None,
        "order of programs": f"seed {seed}",
    }
    return Failure(
        _OUTCOMES[finding.kind],
        f"{first}{where}. {look}",
        pattern=finding.kind.replace("_", " "),
        location=place,
        evidence={name: str(value) for name, value in evidence.items() if value is not None},
    )


def _own_argument(name: str | None, submission: Submission, place: Location | None) -> str | None:
    """The name if it is a parameter of the function above the line: one made up in a call could hold inputs."""
    cell = next((cell for cell in submission.cells if place and cell.number == place.cell), None)
    if name is None or place is None or cell is None:
        return "an argument" if name is not None else None
    above = "\n".join(re.split(r"\r\n|\r|\n", cell.source)[: place.line])
    definitions = _PARAMETERS.findall(above)
    base = name.split("[", 1)[0]
    parameters = (
        [part.split(":")[0].split("=")[0].strip(" \t\n*") for part in definitions[-1].split(",")] if definitions else []
    )
    return base if base in parameters else "an argument"
