"""Reads the PTX that Triton makes: which instructions, how wide each access to global memory is, and on which line.

PTX rather than the machine code, because its instructions are documented (PTX ISA) and it is text already at hand;
`nvdisasm` takes 0.3 to 0.6 s for any kernel. Numbers count instructions of the code's text, not of its execution.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from warpgrade.wire.compiled import AccessKind

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_PLACE = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_INSTRUCTION = re.compile(r"\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s*([^;]*);")
_ASYNC_COPY_BYTES = re.compile(r"\],\s*(0x[0-9a-fA-F]+|\d+)")
_WIDTH = re.compile(r"[bsuf]f?(\d+)(?:x(\d))?$")


@dataclass(frozen=True)
class Place:
    """A file (full path), line and column, both from 1; Triton's own files never."""

    file: str
    line: int
    column: int


@dataclass
class Counts:
    """What one PTX text holds."""

    #: (kind, bits of one thread's one instruction, where) -> instructions
    accesses: Counter[tuple[AccessKind, int, Place | None]] = field(default_factory=Counter)
    #: Name such as "mma.sync f16" -> instructions
    tensor_core: Counter[str] = field(default_factory=Counter)
    bulk_copies: int = 0
    atomics: int = 0
    shuffles: int = 0
    barriers: int = 0


def count(ptx: str, library: str) -> Counts:
    """Count the instructions of `ptx`. Places below the folder `library` (Triton's own) become the line that called."""
    counts = Counts()
    for line, place in _lines(ptx, library):
        if found := _INSTRUCTION.match(line):
            _add(counts, found[1], found[2], place)
    return counts


def place_of_line(ptx: str, number: int, library: str) -> Place | None:
    """Where line `number` of `ptx`, from 1, comes from; `library` as for `count`."""
    return next((place for at, (_, place) in enumerate(_lines(ptx, library), 1) if at == number), None)


def _lines(ptx: str, library: str) -> Iterator[tuple[str, Place | None]]:
    files = dict(_FILE.findall(ptx))
    place: Place | None = None
    inside_assembly = False
    for line in ptx.splitlines():
        if "// begin inline asm" in line:
            inside_assembly = True
        elif "// end inline asm" in line:
            inside_assembly = False
        elif not inside_assembly and (found := _PLACE.match(line)):
            # Inside, LLVM counts a line on for each line of the assembly's text, which means nothing in the source.
            place = _place(found.groups(), files, library)
        yield line, place


def _place(groups: tuple[str | None, ...], files: dict[str, str], library: str) -> Place | None:
    for file, line, column in (groups[:3], groups[3:]):
        path = files.get(file or "", "")
        if path and line and column and not PurePath(path).is_relative_to(library) and int(line) > 0:
            return Place(path, int(line), int(column))
    return None


def _add(counts: Counts, opcode: str, operands: str, place: Place | None) -> None:
    first, *parts = opcode.split(".")
    if first in ("ld", "st") and "global" in parts:
        counts.accesses["load" if first == "ld" else "store", _bits(parts), place] += 1
    elif first == "cp" and parts[:2] == ["async", "bulk"]:
        if not {"commit_group", "wait_group", "prefetch"} & set(parts):
            counts.bulk_copies += 1
    elif first == "cp" and parts[:1] == ["async"] and "global" in parts:
        size = _ASYNC_COPY_BYTES.search(operands, operands.index("]") + 1)
        counts.accesses["async_copy", 8 * int(size[1], 0) if size else 0, place] += 1
    elif name := _tensor_core(first, parts):
        counts.tensor_core[name] += 1
    elif first in ("atom", "red") and "global" in parts:
        counts.atomics += 1
    elif first in ("shfl", "redux"):
        counts.shuffles += 1
    elif opcode.startswith(("bar.sync", "barrier.sync")):
        counts.barriers += 1


def _bits(parts: list[str]) -> int:
    width = _WIDTH.match(parts[-1])
    vector = next((int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)), 1)
    return vector * int(width[1]) * int(width[2] or 1) if width else 0


def _tensor_core(first: str, parts: list[str]) -> str:
    """ "mma.sync f16", "wgmma tf32", "tcgen05 kind::f16": the instruction and the type of its first operand."""
    if first == "mma":
        types = [part for part in parts if re.fullmatch(r"(b?f|tf|s|u|e\dm)\d+\w*", part)]
        return f"mma.sync {types[1]}" if len(types) > 1 else "mma.sync"
    if first == "wgmma" and parts[0] == "mma_async":
        return f"wgmma {parts[-2]}"
    if first == "tcgen05" and parts[0] == "mma":
        return f"tcgen05 {next((part for part in parts if part.startswith('kind')), '')}".strip()
    return ""
