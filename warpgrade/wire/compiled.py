"""What the compiler says of a kernel, as strict structs: the Worker compiles, the Judge and its Reports read.

Made in the student's process, so evidence and not proof. Which of it a student may read is the Judge's to decide.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from warpgrade.wire.base import Count, Index, Message, Name, Text

AccessKind = Literal["load", "store", "async_copy"]
#: not_implemented: the stub that the release leaves. unsupported: Python that Triton's language has not. error: a
#: wrong name, type or shape. static_assert: the kernel's own assertion. options: num_warps and the like.
#: shared_memory, tensor_memory, threads: more than a block may have. ptxas, compiler: the tools below Triton's
#: language refused. refused: the allow-list's. unreadable: it compiles, and what came out could not be read: our fault.
#: undecided: our own code failed on the kernel, so whether it compiles is not known.
ProblemKind = Literal[
    "not_implemented", "unsupported", "error", "static_assert", "options", "shared_memory", "tensor_memory", "threads",
    "ptxas", "compiler", "refused", "unreadable", "undecided",
]  # fmt: skip
#: Where a kernel compiles, and one architecture has too little for it. A tuner passes over such configurations.
RESOURCE_PROBLEMS = frozenset[ProblemKind]({"shared_memory", "tensor_memory", "threads"})

#: Places named in the facts. Totals are of all; a kernel that touches memory in more places is no exercise of ours.
MAX_PLACES = 256
MAX_DOTS, MAX_NAMES = 64, 64
#: Bits of an instruction. Bounded, because a key of a thousand digits would be an int as well.
Width = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Widths = Annotated[dict[Width, Count], msgspec.Meta(max_length=16)]
Lines = Annotated[tuple[Count, ...], msgspec.Meta(max_length=MAX_PLACES)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_NAMES)]


class Access(Message, frozen=True, tag="access"):
    """Instructions of one kind, width and place: `count` of them, each moving `bits` for one thread.

    `widest_bits` is what an instruction could move, given the tile and the number of threads; 0 where unknown.
    `line` and `column` count from 1 in the kernel's own file; 0 where the place is elsewhere or unknown.
    """

    kind: AccessKind
    bits: Count
    count: Count
    line: Count
    column: Count
    widest_bits: Count

    @property
    def narrow(self) -> bool:
        """Whether each thread has elements enough for a wider instruction."""
        return self.bits < self.widest_bits


class Dot(Message, frozen=True, tag="dot"):
    """A `tl.dot` of blocks (m, k) and (k, n). `precision` concerns float32 operands: "tf32", "ieee", "tf32x3", ..."""

    m: Count
    n: Count
    k: Count
    operand: Name
    accumulator: Name
    precision: Name
    line: Count


class CompiledKernel(Message, frozen=True, tag="compiled"):
    """What one version of a kernel became for one architecture. Counts are of instructions in the code, not executed.

    Lines count from 1 in the kernel's file; 0 means unknown.
    """

    name: Name
    arch: Count
    registers_per_thread: Count
    #: Bytes that a thread keeps in local memory because registers ran out (`ptxas -v`).
    spill_store_bytes: Count
    spill_load_bytes: Count
    #: All local memory of a thread, spills included, in bytes.
    stack_bytes: Count
    #: Of a block, static and dynamic together, in bytes.
    shared_memory_bytes: Count
    shared_memory_limit_bytes: Count
    tensor_memory_columns: Count
    warps: Count
    stages: Count
    #: The launch's limit on registers of a thread; 0 without one.
    maxnreg: Count
    #: Blocks of a cluster.
    ctas: Count
    dots: Annotated[tuple[Dot, ...], msgspec.Meta(max_length=MAX_DOTS)]
    #: Instructions by name: "mma.sync f16", "wgmma tf32", "tcgen05 kind::f16".
    tensor_core_instructions: Annotated[dict[Name, Count], msgspec.Meta(max_length=32)]
    #: Global memory, by place; at most `MAX_PLACES`.
    accesses: Annotated[tuple[Access, ...], msgspec.Meta(max_length=MAX_PLACES)]
    #: Loads from global memory (asynchronous copies included) and stores to it: instructions by width in bits.
    loads_by_bits: Widths
    stores_by_bits: Widths
    #: Bulk copies by the tensor memory accelerator.
    bulk_copies: Count
    async_copies: Count
    atomics: Count
    shuffles: Count
    barriers: Count
    #: Resident warps as a fraction of what the multiprocessor holds; an upper bound, see `architectures.occupancy`.
    occupancy: Annotated[float, msgspec.Meta(ge=0, le=1)]
    #: Lines where a pointer is moved by a tensor of 64-bit offsets.
    wide_offset_lines: Lines
    #: Lines that compute in float64.
    float64_lines: Lines
    #: Arguments not known to divide by 16 (bytes, for a pointer) ...
    unaligned: Names
    #: Those of them that are pointers.
    unaligned_pointers: Names
    #: ... whether it was tried what they cost (a large kernel is not compiled again) ...
    explained: bool
    #: ... and those of them that together made accesses narrower, as few as `model.compiled.trials` permits to find, by
    #: compiling again as if they did divide; empty where it would not help. Then there would be
    #: `accesses_if_aligned` instructions instead.
    narrowed_by: Names
    accesses_if_aligned: Count
    #: Arguments passed as 64-bit integers.
    wide_integers: Names
    #: Wall time of the compilation, of `narrowed_by` too.
    compile_s: Annotated[float, msgspec.Meta(ge=0)]
    #: The notebook's cell in which lines are counted; 0 where they are counted in the kernel's file.
    cell: Index = 0

    @property
    def uses_tensor_cores(self) -> bool:
        """Whether any instruction runs on the tensor cores."""
        return bool(self.tensor_core_instructions)

    @property
    def uses_tf32(self) -> bool:
        """Whether a dot of float32 operands is rounded to TF32 (10 bits of mantissa) on the tensor cores.

        "tf32x3" uses the same instructions, three times, and keeps nearly all of float32's precision: not counted.
        """
        return any("tf32" in name for name in self.tensor_core_instructions) and any(
            dot.operand == "float32" and dot.precision == "tf32" for dot in self.dots
        )

    @property
    def spills(self) -> bool:
        """Whether registers ran out, so that values go to local memory and back."""
        return self.spill_store_bytes + self.spill_load_bytes > 0

    @property
    def fits_shared_memory(self) -> bool:
        """Whether a block may have the shared memory that it needs; if not, a launch fails."""
        return self.shared_memory_bytes <= self.shared_memory_limit_bytes

    @property
    def vectorised_loads(self) -> bool:
        """Whether more than half of what loads name moves in instructions as wide as the tile permits, or by bulk copy.

        128 bits where each thread has as much to load; 32 where a tile has one float32 for each thread. True too
        where nothing is loaded.
        """
        loads = [access for access in self.accesses if access.kind != "store"]
        bits = sum(access.bits * access.count for access in loads)
        return 2 * sum(access.bits * access.count for access in loads if access.narrow) < bits or bits == 0

    @property
    def access_count(self) -> int:
        """Instructions that load from, copy from or store to global memory."""
        return sum(self.loads_by_bits.values()) + sum(self.stores_by_bits.values())


class CompileProblem(Message, frozen=True, tag="compile_problem"):
    """Why a kernel cannot run on `arch`. `message` names no path of this machine.

    `file` is a name without folders and `line` counts from 1 in it: the innermost line of the student's own code; ""
    and 0 where unknown. `facts` are there where the kernel did compile and only needs more than a block may have.
    """

    kind: ProblemKind
    arch: Count
    message: Text
    file: Annotated[str, msgspec.Meta(max_length=128)] = ""
    line: Count = 0
    facts: CompiledKernel | None = None
    #: As CompiledKernel.cell.
    cell: Index = 0
