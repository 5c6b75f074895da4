"""Reads Triton's intermediate code (TTIR) as it is before any pass: what the student's own code asks for.

Passes add what no student wrote (sm_80 has no descriptors, so theirs become pointers with 64-bit offsets).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from warpgrade.model.ptx import Place

#: The widest access that every architecture here can make in one instruction of a thread (PTX ISA, `ld`: .v4 of 32
#: bits). sm_100 can do 256.
WIDE_ACCESS_BITS = 128
_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_REFERENCE = re.compile(r"#loc\d*")
_DIRECT = re.compile(r'^"([^"]*)":(\d+):(\d+)$')
_USE = re.compile(r"loc\((#loc\d*)\)\s*$")
_TENSOR = r"tensor<([0-9x]+)x(\w+)(?:, [^>]*)?>"
_DOT = re.compile(rf" tt\.dot .*: {_TENSOR} \* {_TENSOR} -> {_TENSOR}")
_PRECISION = re.compile(r"inputPrecision = (\w+)")
_ACCESS = re.compile(r" tt\.(?:load|store) .*: tensor<([0-9x]+)x!tt\.ptr<([^>]*)>+ loc")
_FLOAT64 = re.compile(r" (?:arith|math)\.(?!constant)\w+ .*: .*\b(?:[0-9]+x)*f64\b")
_OFFSET = re.compile(r" tt\.addptr .*: tensor<[^,]*>, tensor<[0-9x]+xi64>")
#: MLIR's names of types, as students write them in Triton.
_TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8",
    "f8E4M3FN": "float8e4nv", "f8E5M2": "float8e5",
}  # fmt: skip


@dataclass(frozen=True)
class DotAsked:
    """One `tl.dot` of blocks (m, k) and (k, n). `precision` is Triton's name and means something for float32 only."""

    m: int
    n: int
    k: int
    operand: str
    accumulator: str
    precision: str
    place: Place | None


def dots(ttir: str, library: str) -> list[DotAsked]:
    """All `tl.dot`s, in the order of the code. Triton prints no precision where it is "ieee"."""
    places = _Places(ttir, library)
    found = []
    for line in ttir.splitlines():
        if match := _DOT.search(line):
            left, operand, right, _, _, accumulator = match.groups()
            precision = _PRECISION.search(line)
            *_, m, k = (int(size) for size in left.split("x"))
            n = int(right.split("x")[-1])
            names = (_TYPES.get(operand, operand), _TYPES.get(accumulator, accumulator))
            found.append(DotAsked(m, n, k, *names, precision[1] if precision else "ieee", places.of(line)))
    return found


@dataclass(frozen=True)
class Tile:
    """What one `tl.load` or `tl.store` moves: elements of all threads together, and bits of one."""

    elements: int
    element_bits: int

    def widest_bits(self, threads: int) -> int:
        """The widest access, in bits, for which each of `threads` has elements enough; one element at least."""
        return max(self.element_bits, min(WIDE_ACCESS_BITS, self.elements * self.element_bits // threads))


def tiles(ttir: str, library: str) -> dict[Place, Tile]:
    """The tile of each load and store; where one place has several (a function called twice), the smallest."""
    places = _Places(ttir, library)
    found: dict[Place, Tile] = {}
    for line in ttir.splitlines():
        if (match := _ACCESS.search(line)) and (place := places.of(line)):
            tile = Tile(math.prod(map(int, match[1].split("x"))), _element_bits(match[2]))
            found[place] = min(tile, found.get(place, tile), key=lambda one: one.elements * one.element_bits)
    return found


def _element_bits(name: str) -> int:
    if name.startswith("!tt.ptr"):
        return 64
    digits = re.search(r"\d+", name)
    return max(8, int(digits[0])) if digits else 32


def wide_offsets(ttir: str, library: str) -> list[Place | None]:
    """Where a pointer is moved by a whole tensor of 64-bit offsets, in the order of the code."""
    places = _Places(ttir, library)
    return [places.of(line) for line in ttir.splitlines() if _OFFSET.search(line)]


def float64(ttir: str, library: str) -> list[Place | None]:
    """Where something is computed in or converted to float64, in the order of the code."""
    places = _Places(ttir, library)
    return [places.of(line) for line in ttir.splitlines() if _FLOAT64.search(line)]


class _Places:
    """The locations at the end of a TTIR text, which refer to one another."""

    def __init__(self, ttir: str, library: str) -> None:
        self._definitions = dict(_DEFINITION.findall(ttir))
        self._library = library

    def of(self, line: str) -> Place | None:
        """The innermost place of an operation that is not Triton's own."""
        used = _USE.search(line)
        return next(self._below(used[1]), None) if used else None

    def _below(self, name: str) -> Iterator[Place]:
        text = self._definitions.get(name, "")
        if direct := _DIRECT.match(text):
            if not PurePath(direct[1]).is_relative_to(self._library):
                yield Place(direct[1], int(direct[2]), int(direct[3]))
            return
        for reference in _REFERENCE.findall(text):  # of a call: the callee stands first
            yield from self._below(reference)
