"""What the Worker's sanitizer found, or the compiler refused, as a Failure. Evidence of the suspect's own making, and
never marks: it can only cost them."""

from __future__ import annotations

import re

from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
from warpgrade.model.findings import plain_sentence
from warpgrade.submission import Submission
from warpgrade.wire.compiled import CompileProblem, ProblemKind
from warpgrade.wire.messages import MAX_KERNELS, FindingKind, Location, SanitizerFinding

_MEMORY: tuple[FindingKind, ...] = (
    "out_of_bounds", "between_rows", "race", "two_lanes", "uninitialised", "input_written", "undefined",
)  # fmt: skip
_OUTCOMES: dict[FindingKind, Outcome] = dict.fromkeys(_MEMORY, Outcome.MEMORY_ERROR) | {
    "overflow": Outcome.WRONG,
    "device_assert": Outcome.CRASHED,
    "small_dot": Outcome.DOES_NOT_COMPILE,
}
#: What happened, with a place for the line, and what to look at. Nothing of the compiler's own text: it may hold what
#: the submission put there, inputs too.
_REFUSALS: dict[ProblemKind, tuple[str, str]] = {
    "not_implemented": ("The kernel is not written yet{}", ""),
    "unsupported": (
        "The kernel does not compile{}",
        "The interpreter runs it as ordinary Python; Triton's language has not all of Python.",
    ),
    "error": ("The kernel does not compile{}", "Does a name, a type or a shape not fit?"),
    "static_assert": ("The kernel does not compile{}", "A tl.static_assert does not hold."),
    "options": (
        "The kernel cannot be launched like this{}",
        "Is num_warps a power of two, and every argument a tensor or a number?",
    ),
    "shared_memory": (
        "The kernel needs more shared memory than a block may have{}",
        "Are the tiles too large, or the stages too many?",
    ),
    "tensor_memory": ("The kernel needs more tensor memory than a GPU has{}", "Are the tiles too large?"),
    "threads": ("The kernel needs more threads than a block may have{}", "Is num_warps too large?"),
    "ptxas": ("The kernel does not compile{}", "NVIDIA's assembler refuses what Triton made of it."),
    "compiler": ("The kernel does not compile{}", "Triton's compiler gave up on it. Are the blocks very large?"),
    "refused": (
        "The kernel does not compile{}",
        "The interpreter runs it as ordinary Python; Triton's language has not all of Python.",
    ),
}  # fmt: skip
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


def failure_of_problem(problem: CompileProblem, place: Location | None) -> Failure:
    """The kernel does not run. `place` is the problem's line in the Judge's own copy."""
    if problem.kind == "unreadable":
        sentence = "What the compiler made of the kernel could not be read, which is not your fault."
        return Failure(Outcome.INCONCLUSIVE, sentence, evidence={"compiler": problem.message})
    if problem.kind == "undecided":
        # Neither a zero nor marks: a submission can make our code fail, and code that failed has not compiled it.
        sentence = (
            "Whether the kernel compiles could not be found out, because the course's own code failed on it. No mark "
            "is lost by that: a person decides. Try plain letters and digits in the names of the kernel."
        )
        return Failure(Outcome.INCONCLUSIVE, sentence, evidence={"compiler": problem.message})
    where = f" (cell {place.cell}, line {place.line})" if place else ""
    what, look = _REFUSALS[problem.kind]
    written = problem.kind != "not_implemented"
    return Failure(
        Outcome.DOES_NOT_COMPILE if written else Outcome.NOT_IMPLEMENTED,
        f"{what.format(where)}. {look}".rstrip(),
        pattern=problem.kind.replace("_", " ") if written else "",
        location=place,
        evidence={"compiler": problem.message, "architecture": f"sm_{problem.arch}"},
    )


def only_on_a_gpu(name: str, place: Location | None, text: str) -> Failure:
    """The kernel compiles, and has in it what cannot be interpreted: no marks either way until a GPU has run it."""
    where = f" (cell {place.cell}, line {place.line})" if place else ""
    return Failure(
        Outcome.PENDING,
        f"{name} uses something that only a GPU can run{where}, so without one it cannot be judged. No mark is lost by "
        "that. To see it judged here too, use what triton.language has itself.",
        location=place,
        evidence={"exception text": text} if text else {},
    )


def failure_of_many(name: str, left_out: int) -> Failure:
    """The Worker has not told of all kernels of a call, and what it did not tell of was not compiled either."""
    return Failure(
        Outcome.REFUSED,
        f"{name} launched more than {MAX_KERNELS} different versions of Triton kernels in one call, or too many in all "
        "calls. Each version is compiled by itself: pass what changes from launch to launch as an ordinary argument "
        "instead of a tl.constexpr, and define kernels outside of functions.",
        pattern="too many versions of kernels",
        evidence={"versions left out": str(left_out)},
    )


def _parameters(submission: Submission, place: Location | None) -> list[str]:
    """Of the function above the line; none where its parameters hold parentheses."""
    cell = submission.cell(place.cell) if place else None
    if place is None or cell is None:
        return []
    definitions = _DEFINITION.findall("\n".join(cell.lines[: place.line]))
    return _PARAMETER.findall(definitions[-1]) if definitions else []
