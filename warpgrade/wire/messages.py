"""Every message of the wire, as strict structs.

A header is JSON of at most `MAX_HEADER_BYTES`, decoded by msgspec into exactly one of these types: unknown fields,
missing fields, NaN and wrong types are errors, and no type contains itself, so nothing nests deeper than is written
here. Bulk data travels beside the header, in one sealed memfd (see `channel`), described by `TensorSpec`.

JSON has no NaN, which a student's function may return honestly, so a float travels as `float.hex()` text.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from warpgrade.wire.base import Count, Dims, Index, Message, Name, Text
from warpgrade.wire.compiled import CompiledKernel, CompileProblem

MAX_HEADER_BYTES = 64 * 1024
#: Bytes of tensors that one message may announce. Above every model-tier test (the largest moves about 32 MiB with
#: its canaries); several of it, which is what a Judge holds at once, do not hurt a grading machine.
MAX_PAYLOAD_BYTES = 128 * 1024 * 1024

#: Itemsize in bytes of each dtype that may cross. The names are PyTorch's.
ITEMSIZE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}

#: What the sanitizer of interpreted kernels can find; `model.findings` has the sentences.
FindingKind = Literal[
    "out_of_bounds", "between_rows", "race", "two_lanes", "uninitialised", "input_written", "undefined", "overflow",
    "device_assert", "small_dot",
]  # fmt: skip

# --- values -----------------------------------------------------------------------------------------------------


class TensorSpec(Message, frozen=True, tag="tensor"):
    """A tensor inside the payload: `shape` and `strides` in elements, `offset_bytes` of element 0 in the payload."""

    dtype: Name
    shape: Dims
    strides: Dims
    offset_bytes: Count


class IntValue(Message, frozen=True, tag="int"):
    """A Python int of at most 64 bits, signed, as text: JSON numbers are not trusted beyond 2**53."""

    value: Annotated[str, msgspec.Meta(max_length=20, pattern=r"^-?[0-9]{1,19}$")]


class FloatValue(Message, frozen=True, tag="float"):
    """A Python float as `float.hex()`: 'nan', 'inf', '-inf' or '0x1.8p+1'."""

    hex: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^(-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}|-?inf|nan)$")]


class BoolValue(Message, frozen=True, tag="bool"):
    """A Python bool."""

    value: bool


class TextValue(Message, frozen=True, tag="text"):
    """A short string, such as a mode; Judge to Worker only (a returned string is an `OtherValue`)."""

    value: Annotated[str, msgspec.Meta(max_length=256)]


class NoneValue(Message, frozen=True, tag="none"):
    """None, as from a function that forgot to return."""


class HandleValue(Message, frozen=True, tag="handle"):
    """An object that stays in the Worker (`train` returns `predict`), named by an integer that the Worker counted."""

    handle: Index


class OtherValue(Message, frozen=True, tag="other"):
    """Something that may not cross (a generator, a list of strings): only its type's name does."""

    type_name: Name


Leaf = TensorSpec | IntValue | FloatValue | BoolValue | TextValue | NoneValue | HandleValue | OtherValue
Leaves = Annotated[list[Leaf], msgspec.Meta(max_length=32)]
NamedLeaves = Annotated[dict[Name, Leaf], msgspec.Meta(max_length=32)]


class TupleValue(Message, frozen=True, tag="tuple"):
    """A tuple or list of leaves."""

    items: Leaves


class DictValue(Message, frozen=True, tag="dict"):
    """A dict from names to leaves."""

    items: NamedLeaves


Value = Leaf | TupleValue | DictValue
Values = Annotated[list[Value], msgspec.Meta(max_length=32)]
NamedValues = Annotated[dict[Name, Value], msgspec.Meta(max_length=32)]

# --- Judge to Worker --------------------------------------------------------------------------------------------


class Cell(Message, frozen=True, tag="cell"):
    """One code cell of the notebook. `number` counts all cells from 1, as a reader would; source is in the payload.

    `offset_bytes` and `length_bytes` say where its UTF-8 text lies in the payload, so that a long notebook does not
    have to fit a header.
    """

    number: Index
    offset_bytes: Count
    length_bytes: Count


class Load(Message, frozen=True, tag="load"):
    """Build the submission's module from these cells. Answered by `Loaded`."""

    cells: Annotated[list[Cell], msgspec.Meta(max_length=500)]
    #: Seconds that one top-level statement may take before the Worker interrupts it. Courtesy to the honest: the
    #: Judge has a clock of its own.
    statement_limit_s: float


class Call(Message, frozen=True, tag="call"):
    """Call `function(*arguments, **keywords)`; with a `grid`, launch it as a Triton kernel.

    Answered by `Returned` or `Raised`.
    """

    function: Name
    arguments: Values
    keywords: NamedValues
    grid: Annotated[list[Count], msgspec.Meta(min_length=1, max_length=3)] | None = None
    #: Call the object behind this handle instead of a function of the module.
    handle: Index | None = None
    #: Where kernels are interpreted, the order of a launch's programs is shuffled by this.
    seed: Count = 0


class Compile(Message, frozen=True, tag="compile"):
    """Compile a kernel for one architecture, as the largest launch of it so far would. Nothing of it runs.

    Answered by a `CompiledKernel` or a `CompileProblem`.
    """

    #: A `KernelUse.number`.
    kernel: Index
    arch: Count
    #: Find out which arguments make accesses narrow, by compiling again.
    explain: bool = False


class Share(Message, frozen=True, tag="share"):
    """Map two blocks of memory that the Judge shares for timed messages: one of inputs, one of outputs.

    Their descriptors come with the frame, in this order. Answered by `Shared`.
    """

    sizes_bytes: Annotated[list[Count], msgspec.Meta(min_length=2, max_length=2)]


class Launch(Message, frozen=True, tag="launch"):
    """Where the tensors of one launch lie: `inputs` in the first shared block, `outputs` in the second.

    Outputs are arguments of a bare kernel, and of a function the places of the tensors that it returns.
    """

    inputs: Annotated[dict[Name, TensorSpec], msgspec.Meta(max_length=16)]
    outputs: Annotated[dict[Name, TensorSpec], msgspec.Meta(min_length=1, max_length=16)]


class Run(Message, frozen=True, tag="run"):
    """A timed message: call `function` once for each launch, and answer when all of its work is done.

    Arguments are passed by position, in the order of `signature`, from a launch's tensors and from `scalars`. With a
    `grid`, `function` is launched as a Triton kernel. Answered by `Ran` or `Raised`.
    """

    function: Name
    signature: Annotated[list[Name], msgspec.Meta(max_length=32)]
    scalars: NamedLeaves
    launches: Annotated[list[Launch], msgspec.Meta(min_length=1, max_length=64)]
    grid: Annotated[list[Count], msgspec.Meta(min_length=1, max_length=3)] | None = None
    #: As in `Call`.
    seed: Count = 0


class Move(Message, frozen=True, tag="move"):
    """Copy `size_bytes` from one place to another in the Worker's own memory, `times` times: what timed messages are
    compared with. A few bytes once are the no-op. Answered by `Ran`; needs no submission.
    """

    size_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    times: Annotated[int, msgspec.Meta(ge=1, le=64)]


# --- Worker to Judge --------------------------------------------------------------------------------------------


class Location(Message, frozen=True, tag="location"):
    """A line of the student's own code: cell and line both count from 1."""

    cell: Index
    line: Index
    text: Annotated[str, msgspec.Meta(max_length=200)]


class Problem(Message, frozen=True, tag="problem"):
    """Something that went wrong in the student's code. `exception` is a type's name, such as 'IndexError'."""

    exception: Name
    text: Text
    location: Location | None = None


class SanitizerFinding(Message, frozen=True, tag="finding"):
    """A fault of an interpreted kernel: `model.findings.Finding`, with the line as the notebook counts it."""

    kind: FindingKind
    #: One access, or for a race both.
    access: Annotated[str, msgspec.Meta(pattern=r"^(compute|(load|store|atomic)( and (load|store|atomic))?)$")]
    argument: Name | None
    index: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None
    program: tuple[Count, Count, Count] | None
    detail: Annotated[str, msgspec.Meta(max_length=500)]
    location: Location | None


class ArgumentTraffic(Message, frozen=True, tag="traffic"):
    """What moved between memory and one argument of a kernel; see `model.traffic`. Useful bytes, 32-byte sectors."""

    bytes_loaded: Count
    bytes_stored: Count
    sectors_loaded: Count
    sectors_stored: Count

    @property
    def useful_bytes(self) -> int:
        """Loaded and stored, in bytes."""
        return self.bytes_loaded + self.bytes_stored


class KernelUse(Message, frozen=True, tag="kernel"):
    """One Triton kernel that ran in a call, with arguments of certain types; `number` belongs to both for the Worker's
    life. Launches made by an autotuner to compare configurations do not count. `traffic` sums over `launches`, by the
    kernel's own argument names."""

    number: Index
    name: Name
    launches: Count
    traffic: Annotated[dict[Name, ArgumentTraffic], msgspec.Meta(max_length=32)]
    #: Whether an autotuner chooses among several configurations.
    tuned: bool

    @property
    def useful_bytes(self) -> int:
        """Moved to and from all arguments, in bytes."""
        return sum(traffic.useful_bytes for traffic in self.traffic.values())


#: Of one call. Findings beyond are not told; of kernels it is told how many there were (`kernels_left_out`).
MAX_FINDINGS, MAX_KERNELS = 20, 32
Findings = Annotated[tuple[SanitizerFinding, ...], msgspec.Meta(max_length=MAX_FINDINGS)]
Kernels = Annotated[tuple[KernelUse, ...], msgspec.Meta(max_length=MAX_KERNELS)]


class Ready(Message, frozen=True, tag="ready"):
    """Sent once, when the start-up assertion has passed and before any student code runs."""


class Unsafe(Message, frozen=True, tag="unsafe"):
    """Sent instead of `Ready`: the sandbox shows or permits something that it must not, or nothing can be judged in it.
    No student code has run."""

    reasons: Annotated[list[Text], msgspec.Meta(min_length=1, max_length=50)]


class Loaded(Message, frozen=True, tag="loaded"):
    """The module is built. `problems` are the statements that raised and were skipped."""

    problems: Annotated[list[Problem], msgspec.Meta(max_length=20)]


class Returned(Message, frozen=True, tag="returned"):
    """The call returned. The payload is the Call's own, as the call left it, so that the Judge sees in-out arguments,
    canaries and inputs there; from `arguments_offset_bytes` on, the tensors of `value`, contiguous.

    `torch_operations`, `kernel_launches`, `elements_read` (of tensors, as Python numbers) and `result_stored` (whether
    a kernel stored to the memory of a tensor of `value`; true where there is none, or none but arguments) are what the
    Worker saw happen; made by the suspect, so a lint, not a wall.
    """

    value: Value
    arguments_offset_bytes: Count
    torch_operations: Annotated[list[Name], msgspec.Meta(max_length=64)]
    kernel_launches: Count
    kernels: Kernels = ()
    findings: Findings = ()
    kernels_left_out: Count = 0
    elements_read: Count = 0
    result_stored: bool = True


class Raised(Message, frozen=True, tag="raised"):
    """The call raised. `during` says whether the student's code ran at all: 'lookup', 'signature' or 'call'."""

    problem: Problem
    during: Annotated[str, msgspec.Meta(pattern="^(lookup|signature|call)$")]
    kernels: Kernels = ()
    findings: Findings = ()
    kernels_left_out: Count = 0


class Shared(Message, frozen=True, tag="shared"):
    """The blocks are mapped."""


class Ran(Message, frozen=True, tag="ran"):
    """All launches are done, and the results lie where they belong. What is said of kernels is as in `Returned`."""

    kernels: Kernels = ()
    findings: Findings = ()
    kernels_left_out: Count = 0


JudgeMessage = Load | Call | Compile | Share | Run | Move
WorkerMessage = Ready | Unsafe | Loaded | Returned | Raised | CompiledKernel | CompileProblem | Shared | Ran
