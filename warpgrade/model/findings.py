"""What the sanitizer can find, as data, and the sentence that tells a student about it."""

from __future__ import annotations

import msgspec

from warpgrade.wire.messages import FindingKind

Program = tuple[int, int, int]
Line = tuple[str, int]


class Finding(msgspec.Struct, frozen=True):
    """One fault of a kernel.

    `access` is 'load', 'store', 'atomic', 'compute', or for a race both sides: 'store and store'. `argument` is the
    kernel's own name for what was touched, None where no argument is concerned. `index` counts elements from the
    argument's first one, along memory. `program` is tl.program_id(0), (1), (2). `detail` holds what has numbers in it.
    `line` is (file, line counted from 1) in the student's code.
    """

    kind: FindingKind
    access: str
    argument: str | None
    index: int | None
    program: Program | None
    detail: str
    line: Line | None


_WHAT: dict[FindingKind, tuple[str, str]] = {
    # kind: (what happened, what to look at)
    "out_of_bounds": ("{access} goes outside of {argument}", "Is the mask missing or wrong, or a stride?"),
    "between_rows": (
        "{access} lands between the rows of {argument}, in memory that its shape and strides leave out",
        "Is the mask of the columns missing or wrong, or the row stride?",
    ),
    "race": (
        "two programs touch the same element of {argument} ({access}) and nothing orders them",
        "Do the programs' blocks overlap, or does a sum over programs need tl.atomic_add?",
    ),
    "two_lanes": (
        "one store writes different values to the same element of {argument}",
        "Is the offset the same for several lanes, or does the sum need tl.sum or tl.atomic_add?",
    ),
    "uninitialised": (
        "the kernel reads {argument} before anything was written to it",
        "Does it need torch.zeros, or is the wrong argument loaded?",
    ),
    "input_written": (
        "{access} changes {argument}, which is an input",
        "Is the wrong pointer written to?",
    ),
    "undefined": (
        "a load of {argument} has a mask but no `other`, and its masked-off lanes, which hold garbage, are used",
        "Does the load need other=, or what comes after it tl.where?",
    ),
    "overflow": (
        "an integer calculation does not fit its type",
        "Does the offset need a wider integer type before it is multiplied by a stride?",
    ),
    "device_assert": ("a tl.device_assert failed", "What does the condition say about the values there?"),
    "small_dot": ("tl.dot is given a tile smaller than the GPU can multiply", "Are the block sizes large enough?"),
}


_ACCESS = {"load": "a load", "store": "a store", "atomic": "an atomic operation"}  # a race names both, without articles


def plain_sentence(kind: FindingKind, access: str, argument: str | None, where: str = "") -> str:
    """A finding in plain language for a student, ending with what to look at. `where` stands behind what happened.

    It holds no number of its own (no index, size or program): hidden tests must not tell their sizes.
    """
    what, look = _what(kind, access, argument)
    return f"{what[0].upper()}{what[1:]}{where}. {look}"


def sentence(finding: Finding) -> str:
    """The same with all numbers, for an author or a TA."""
    text, look = _what(finding.kind, finding.access, finding.argument)
    where = f"line {finding.line[1]}: " if finding.line else ""
    element = f" at element {finding.index}" if finding.index is not None else ""
    program = f" in program {finding.program}" if finding.program is not None else ""
    detail = f" ({finding.detail})" if finding.detail else ""
    return f"{where}{text}{element}{program}{detail}. {look}"


def _what(kind: FindingKind, access: str, argument: str | None) -> tuple[str, str]:
    what, look = _WHAT[kind]
    argument = argument or "memory that belongs to no argument"
    return what.format(access=_ACCESS.get(access, access), argument=argument), look


class KernelFault(RuntimeError):  # noqa: N818 - its subclasses name what happened
    """A fault after which the launch cannot go on; `finding` says what, its text is the sentence with numbers."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(sentence(finding))
        self.finding = finding


class NotInterpreted(RuntimeError):  # noqa: N818 - no fault of anyone's kernel
    """Something of Triton's language that a GPU has, and that cannot be run here: inline assembly, a rare function."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be interpreted, so only a GPU can run this kernel")


class OutOfBounds(KernelFault):
    """An access outside of its argument, raised before memory is touched.

    `elements` is how many the argument spans; `bad_lanes` of `active_lanes` are outside of it.
    """

    def __init__(self, finding: Finding, *, elements: int, bad_lanes: int, active_lanes: int) -> None:
        super().__init__(finding)
        self.elements = elements
        self.bad_lanes = bad_lanes
        self.active_lanes = active_lanes


class IntegerOverflow(KernelFault):
    """A signed integer of at most 32 bits left its range."""


class DeviceAssertion(KernelFault, AssertionError):  # noqa: N818
    """A tl.device_assert, or a tl.assume, that does not hold."""


class SmallDot(KernelFault):
    """A tl.dot with a tile that real Triton refuses to compile."""
