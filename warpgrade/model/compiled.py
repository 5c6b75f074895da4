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
from warpgrade.model.compile_errors import definition, understand
from warpgrade.model.signature import Specialisation, jit_function
from warpgrade.wire.compiled import MAX_PLACES, Access, AccessKind, CompiledKernel, CompileProblem, Dot, ProblemKind

_LIBRARY = str(Path(triton.__file__).parent)
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_STATIC_SHARED = re.compile(r"(\d+) bytes smem")
#: How much all trials together may compile, in PTX instructions of the kernel as it is. What a trial takes whatever
#: the kernel, 0.1 s, is worth 200 of them. Measured (Triton 3.8, x86-64): with 2200, ragged matmuls of 16 x 16 to
#: 64 x 64 x 32 take 0.5 to 0.75 s of the processor, trials included, attention of 64 x 64 with one trial 0.95 s, and
#: float32 matmuls of 64 x 64 x 64 and more, which get none, 0.7 s and more by themselves.
_TRIAL_INSTRUCTIONS = 2200
_TRIAL_START_INSTRUCTIONS = 200


def compile_kernel(
    kernel: Any, specialisation: Specialisation, arch: int = 80, *, explain: bool = True
) -> CompiledKernel | CompileProblem:
    """Compile one version of `kernel` for compute capability `arch`, one of `ARCHITECTURES`.

    With `explain`, a kernel whose accesses to global memory are narrow is compiled again to find the arguments that
    are to blame (`narrowed_by`), each time without ptxas, and at most `trials` times: a large kernel not at all. That
    these arguments together cost the accesses is always proven. That none of them could be left out is proven only
    where there were trials enough, one more than arguments that are not known to divide by 16.

    Whatever is wrong with the kernel is a CompileProblem; so are facts that cannot be read, which is our own fault
    ("unreadable"), because the kernel compiles. Raises TypeError if `kernel` has no @triton.jit function,
    KeyError for an unknown `arch`, OSError where this machine fails (no room for temporary files), and what student
    code raises beyond Exception.
    """
    function = jit_function(kernel)
    if arch not in ARCHITECTURES:
        raise KeyError(arch)
    start = time.perf_counter()
    complaints = stages.Complaints()
    try:
        output = stages.run(function, specialisation, arch, complaints, last="cubin")
    except OSError:  # no room for ptxas's files, say: the machine's fault, never the student's
        raise
    except Exception as error:  # noqa: BLE001 - the compiler raises anything, and student code may run inside it
        found = understand(error, complaints.text, complaints.ptx)
        return CompileProblem(found.kind, arch, found.message, found.file, found.line)
    try:
        facts = _facts(function, specialisation, arch, output, explain=explain)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of the readers must not cost a student the kernel
        what = (
            f"it compiles, but what came out cannot be read, which is not your fault: {type(error).__name__}: {error}"
        )
        return CompileProblem("unreadable", arch, what[:500])
    facts = msgspec.structs.replace(facts, compile_s=time.perf_counter() - start)
    if excess := _excess(facts):
        kind, message = excess
        path, first_line = definition(function)
        return CompileProblem(kind, arch, message, PurePath(path).name, first_line, facts)
    return facts


def compile_for(
    kernel: Any, specialisation: Specialisation, architectures: tuple[int, ...] = DEFAULT_ARCHITECTURES
) -> dict[int, CompiledKernel | CompileProblem]:
    """`compile_kernel` for each of `architectures`."""
    return {arch: compile_kernel(kernel, specialisation, arch) for arch in architectures}


def _facts(
    function: JITFunction[Any], specialisation: Specialisation, arch: int, output: stages.Output, *, explain: bool
) -> CompiledKernel:
    """Read what the stages left."""
    limits = ARCHITECTURES[arch]
    path, _ = definition(function)
    source = output.texts["source"]
    warps = output.metadata["num_warps"]
    here = _Lines(path)
    counts = ptx.count(output.texts["ptx"], _LIBRARY)
    accesses = here.accesses(counts, ttir.tiles(source, _LIBRARY), warps * THREADS_PER_WARP)
    narrowed_by: list[str] = []
    accesses_if_aligned = counts.accesses.total()
    left = trials(output.texts["ptx"].count(";")) if explain else 0
    explained = left > 0
    if explained and specialisation.unaligned and any(access.narrow for access in accesses):
        narrowed_by, accesses_if_aligned = _blame(function, specialisation, arch, accesses_if_aligned, left)
    dots = tuple(
        Dot(dot.m, dot.n, dot.k, dot.operand, dot.accumulator, dot.precision, here.line(dot.place))
        for dot in ttir.dots(source, _LIBRARY)
    )
    registers = max(map(int, _REGISTERS.findall(output.ptxas_report)))
    shared_bytes = output.metadata["shared"] + sum(map(int, _STATIC_SHARED.findall(output.ptxas_report)))
    spills = [tuple(map(int, found)) for found in _SPILLS.findall(output.ptxas_report)]
    return CompiledKernel(
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
        explained=explained,
        narrowed_by=tuple(narrowed_by),
        accesses_if_aligned=accesses_if_aligned,
        wide_integers=specialisation.wide_integers,
        compile_s=0.0,
    )


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


def trials(instructions: int) -> int:
    """How often `compile_kernel` compiles a kernel of so many PTX instructions again to explain it.

    Counted in instructions, not seconds, so that a student is told the same on every machine.
    """
    return _TRIAL_INSTRUCTIONS // (instructions + _TRIAL_START_INSTRUCTIONS)


def _blame(
    function: JITFunction[Any], specialisation: Specialisation, arch: int, now: int, left: int
) -> tuple[list[str], int]:
    """Arguments that, known to divide by 16, would give fewer accesses than `now`; and how many.

    As few arguments as `left` trials, one or more, permit to find. A reason that is found by trying, so that no student
    is told a guess: the version in which just these are aligned was compiled, and has that many accesses.
    """

    def accesses(names: list[str]) -> int:
        output = stages.run(function, specialisation.assuming_aligned(names), arch, stages.Complaints(), last="ptx")
        return ptx.count(output.texts["ptx"], _LIBRARY).accesses.total()

    needed = list(specialisation.unaligned)
    fewest = accesses(needed)
    if fewest >= now:
        return [], now
    # Numbers first, in the order of the parameters: where trials run out, those that may not matter (a size that
    # bounds rows, say) were tried, and not the pointers and strides, which nearly always do.
    pointers = specialisation.unaligned_pointers
    numbers = [name for name in specialisation.unaligned if name not in pointers]
    for name in [*numbers, *pointers][: left - 1]:
        without = [other for other in needed if other != name]
        if without and (found := accesses(without)) <= fewest:
            needed, fewest = without, found
    return needed, fewest


def _by_bits(counts: ptx.Counts, *kinds: AccessKind) -> dict[int, int]:
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
        found: Counter[tuple[int, int, AccessKind, int, int]] = Counter()
        for (kind, bits, place), number in counts.accesses.items():
            tile = tiles.get(place) if place else None
            widest_bits = tile.widest_bits(threads) if tile else 0
            line = self.line(place)
            found[line, place.column if place and line else 0, kind, bits, widest_bits] += number
        return tuple(
            Access(kind, bits, number, line, column, widest_bits)
            for (line, column, kind, bits, widest_bits), number in sorted(found.items())[:MAX_PLACES]
        )
