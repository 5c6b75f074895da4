"""Compiles a `@triton.jit` kernel for a GPU that is not there, and counts what came out.

No GPU, no driver and no cache are used (see `stages`), and the kernel stays as it was: it can be interpreted or
launched afterwards. One process compiles one kernel at a time. How long a compilation may take is the caller's to say.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path, PurePath
from typing import Any

import msgspec
import triton
from triton.runtime.jit import JITFunction

from warpgrade.model import ptx, stages, ttir
from warpgrade.model.architectures import (
    ARCHITECTURES,
    DEFAULT_ARCHITECTURES,
    MAX_TENSOR_MEMORY_COLUMNS,
    MAX_THREADS_PER_BLOCK,
    THREADS_PER_WARP,
    occupancy,
)
from warpgrade.model.compile_errors import ProblemKind, definition, understand
from warpgrade.model.signature import Specialisation, jit_function

_LIBRARY = str(Path(triton.__file__).parent)
#: Places named in the facts. Totals are of all; a kernel that touches memory in more places is no exercise of ours.
_MAX_PLACES = 256
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_STATIC_SHARED = re.compile(r"(\d+) bytes smem")


class Access(msgspec.Struct, frozen=True):
    """Instructions of one kind, width and place: `count` of them, each moving `bits` for one thread.

    `widest_bits` is what an instruction could move, given the tile and the number of threads; 0 where unknown.
    `line` and `column` count from 1 in the kernel's own file; 0 where the place is elsewhere or unknown.
    """

    kind: ptx.AccessKind
    bits: int
    count: int
    line: int
    column: int
    widest_bits: int

    @property
    def narrow(self) -> bool:
        """Whether each thread has elements enough for a wider instruction."""
        return self.bits < self.widest_bits


class Dot(msgspec.Struct, frozen=True):
    """A `tl.dot` of blocks (m, k) and (k, n). `precision` concerns float32 operands: "tf32", "ieee", "tf32x3", ..."""

    m: int
    n: int
    k: int
    operand: str
    accumulator: str
    precision: str
    line: int


class CompiledKernel(msgspec.Struct, frozen=True):
    """What one version of a kernel became for one architecture. Counts are of instructions in the code, not executed.

    Lines count from 1 in the kernel's file; 0 means unknown.
    """

    name: str
    arch: int
    registers_per_thread: int
    #: Bytes that a thread keeps in local memory because registers ran out (`ptxas -v`).
    spill_store_bytes: int
    spill_load_bytes: int
    #: All local memory of a thread, spills included, in bytes.
    stack_bytes: int
    #: Of a block, static and dynamic together, in bytes.
    shared_memory_bytes: int
    shared_memory_limit_bytes: int
    tensor_memory_columns: int
    warps: int
    stages: int
    #: The launch's limit on registers of a thread; 0 without one.
    maxnreg: int
    #: Blocks of a cluster.
    ctas: int
    dots: tuple[Dot, ...]
    #: Instructions by name: "mma.sync f16", "wgmma tf32", "tcgen05 kind::f16".
    tensor_core_instructions: dict[str, int]
    #: Global memory, by place; at most 256 places.
    accesses: tuple[Access, ...]
    #: Loads from global memory (asynchronous copies included) and stores to it: instructions by width in bits.
    loads_by_bits: dict[int, int]
    stores_by_bits: dict[int, int]
    #: Bulk copies by the tensor memory accelerator.
    bulk_copies: int
    async_copies: int
    atomics: int
    shuffles: int
    barriers: int
    #: Resident warps as a fraction of what the multiprocessor holds; an upper bound, see `architectures.occupancy`.
    occupancy: float
    #: Lines where a pointer is moved by a tensor of 64-bit offsets.
    wide_offset_lines: tuple[int, ...]
    #: Lines that compute in float64.
    float64_lines: tuple[int, ...]
    #: Arguments not known to divide by 16 (bytes, for a pointer) ...
    unaligned: tuple[str, ...]
    #: Those of them that are pointers.
    unaligned_pointers: tuple[str, ...]
    #: ... and the fewest of them that made accesses narrower, found by compiling again as if they did divide; empty
    #: where it would not help. Then there would be `accesses_if_aligned` instructions instead.
    narrowed_by: tuple[str, ...]
    accesses_if_aligned: int
    #: Arguments passed as 64-bit integers.
    wide_integers: tuple[str, ...]
    #: Wall time of the compilation, of `narrowed_by` too.
    compile_s: float

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


class CompileProblem(msgspec.Struct, frozen=True):
    """Why a kernel cannot run on `arch`. `message` names no path of this machine.

    `file` is a name without folders and `line` counts from 1 in it: the innermost line of the student's own code; ""
    and 0 where unknown. `facts` are there where the kernel did compile and only needs more than a block may have.
    """

    kind: ProblemKind
    arch: int
    message: str
    file: str = ""
    line: int = 0
    facts: CompiledKernel | None = None


def compile_kernel(
    kernel: Any, specialisation: Specialisation, arch: int = 80, *, explain: bool = True
) -> CompiledKernel | CompileProblem:
    """Compile one version of `kernel` for compute capability `arch`, one of `ARCHITECTURES`.

    With `explain`, a kernel whose accesses to global memory are narrow is compiled again to find the arguments that
    are to blame (`narrowed_by`): once, and if that helps once for each argument not known to divide by 16, each time
    without ptxas.

    Whatever is wrong with the kernel is a CompileProblem. Raises TypeError if `kernel` has no @triton.jit function,
    KeyError for an unknown `arch`, OSError where this machine fails (no room for temporary files), and what student
    code raises beyond Exception.
    """
    function = jit_function(kernel)
    limits = ARCHITECTURES[arch]
    start = time.perf_counter()
    complaints = stages.Complaints()
    try:
        output = stages.run(function, specialisation, arch, complaints, last="cubin")
    except OSError:  # no room for ptxas's files, say: the machine's fault, never the student's
        raise
    except Exception as error:  # noqa: BLE001 - the compiler raises anything, and student code may run inside it
        found = understand(error, complaints.text, complaints.ptx)
        return CompileProblem(found.kind, arch, found.message, found.file, found.line)
    path, first_line = definition(function)
    source = output.texts["source"]
    warps = output.metadata["num_warps"]
    here = _Lines(path)
    counts = ptx.count(output.texts["ptx"], _LIBRARY)
    accesses = here.accesses(counts, ttir.tiles(source, _LIBRARY), warps * THREADS_PER_WARP)
    narrowed_by: list[str] = []
    accesses_if_aligned = counts.accesses.total()
    if explain and specialisation.unaligned and any(access.narrow for access in accesses):
        narrowed_by, accesses_if_aligned = _blame(function, specialisation, arch, counts)
    dots = tuple(
        Dot(dot.m, dot.n, dot.k, dot.operand, dot.accumulator, dot.precision, here.line(dot.place))
        for dot in ttir.dots(source, _LIBRARY)
    )
    registers = max(map(int, _REGISTERS.findall(output.ptxas_report)))
    shared_bytes = output.metadata["shared"] + sum(map(int, _STATIC_SHARED.findall(output.ptxas_report)))
    spills = [tuple(map(int, found)) for found in _SPILLS.findall(output.ptxas_report)]
    facts = CompiledKernel(
        name=function.__name__,
        arch=arch,
        registers_per_thread=registers,
        stack_bytes=sum(stack for stack, _, _ in spills),
        spill_store_bytes=sum(stores for _, stores, _ in spills),
        spill_load_bytes=sum(loads for _, _, loads in spills),
        shared_memory_bytes=shared_bytes,
        shared_memory_limit_bytes=limits.shared_memory_per_block_bytes,
        tensor_memory_columns=output.metadata["tmem_size"] or 0,
        warps=warps,
        stages=output.metadata["num_stages"],
        maxnreg=output.metadata["maxnreg"] or 0,
        ctas=output.metadata["num_ctas"],
        dots=dots,
        tensor_core_instructions=dict(counts.tensor_core),
        accesses=accesses,
        loads_by_bits=_by_bits(counts, "load", "async_copy"),
        stores_by_bits=_by_bits(counts, "store"),
        bulk_copies=counts.bulk_copies,
        async_copies=sum(_by_bits(counts, "async_copy").values()),
        atomics=counts.atomics,
        shuffles=counts.shuffles,
        barriers=counts.barriers,
        occupancy=occupancy(arch, registers=registers, shared_memory_bytes=shared_bytes, warps=warps),
        wide_offset_lines=here.lines(ttir.wide_offsets(source, _LIBRARY)),
        float64_lines=here.lines(ttir.float64(source, _LIBRARY)),
        unaligned=specialisation.unaligned,
        unaligned_pointers=specialisation.unaligned_pointers,
        narrowed_by=tuple(narrowed_by),
        accesses_if_aligned=accesses_if_aligned,
        wide_integers=specialisation.wide_integers,
        compile_s=time.perf_counter() - start,
    )
    if excess := _excess(facts):
        kind, message = excess
        return CompileProblem(kind, arch, message, PurePath(path).name, first_line, facts)
    return facts


def compile_for(
    kernel: Any, specialisation: Specialisation, architectures: tuple[int, ...] = DEFAULT_ARCHITECTURES
) -> dict[int, CompiledKernel | CompileProblem]:
    """`compile_kernel` for each of `architectures`."""
    return {arch: compile_kernel(kernel, specialisation, arch) for arch in architectures}


def _excess(facts: CompiledKernel) -> tuple[ProblemKind, str] | None:
    """What a launch would refuse. Triton checks it there, with a driver."""
    if not facts.fits_shared_memory:
        return "shared_memory", (
            f"the tiles need {round(facts.shared_memory_bytes / 1024, 1):g} KB of shared memory; "
            f"sm_{facts.arch} has {facts.shared_memory_limit_bytes // 1024} KB a block"
        )
    if facts.tensor_memory_columns > MAX_TENSOR_MEMORY_COLUMNS:
        return "tensor_memory", (
            f"the accumulators need {facts.tensor_memory_columns} columns of tensor memory; "
            f"sm_{facts.arch} has {MAX_TENSOR_MEMORY_COLUMNS}"
        )
    if facts.warps * THREADS_PER_WARP > MAX_THREADS_PER_BLOCK:
        return "threads", (
            f"num_warps={facts.warps} makes {facts.warps * THREADS_PER_WARP} threads; "
            f"a block has at most {MAX_THREADS_PER_BLOCK}"
        )
    return None


def _blame(
    function: JITFunction[Any], specialisation: Specialisation, arch: int, counts: ptx.Counts
) -> tuple[list[str], int]:
    """The fewest arguments that, known to divide by 16, would give as few accesses as all of them; and how many.

    A reason that is found by trying, so that no student is told a guess.
    """

    def accesses(names: list[str]) -> int:
        output = stages.run(function, specialisation.assuming_aligned(names), arch, stages.Complaints(), last="ptx")
        return ptx.count(output.texts["ptx"], _LIBRARY).accesses.total()

    needed = list(specialisation.unaligned)
    fewest = accesses(needed)
    if fewest >= counts.accesses.total():
        return [], counts.accesses.total()
    for name in specialisation.unaligned:
        without = [other for other in needed if other != name]
        if without and accesses(without) <= fewest:
            needed = without
    return needed, fewest


def _by_bits(counts: ptx.Counts, *kinds: ptx.AccessKind) -> dict[int, int]:
    found: Counter[int] = Counter()
    for (kind, bits, _), number in counts.accesses.items():
        if kind in kinds:
            found[bits] += number
    return dict(sorted(found.items()))


class _Lines:
    """From places in any file to lines in the kernel's own."""

    def __init__(self, path: str) -> None:
        self._path = path

    def line(self, place: ptx.Place | None) -> int:
        return place.line if place is not None and place.file == self._path else 0

    def lines(self, places: list[ptx.Place | None]) -> tuple[int, ...]:
        return tuple(sorted({self.line(place) for place in places} - {0}))

    def accesses(self, counts: ptx.Counts, tiles: dict[ptx.Place, ttir.Tile], threads: int) -> tuple[Access, ...]:
        found: Counter[tuple[int, int, ptx.AccessKind, int, int]] = Counter()
        for (kind, bits, place), number in counts.accesses.items():
            tile = tiles.get(place) if place else None
            widest_bits = tile.widest_bits(threads) if tile else 0
            line = self.line(place)
            found[line, place.column if place and line else 0, kind, bits, widest_bits] += number
        return tuple(
            Access(kind, bits, number, line, column, widest_bits)
            for (line, column, kind, bits, widest_bits), number in sorted(found.items())[:_MAX_PLACES]
        )
