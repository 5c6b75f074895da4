"""The tensors of a launch as the sanitizer sees them: what each argument spans, and who touched which element.

*Extent.* An argument reaches from its first element to the last one that its shape and strides reach. If the strides
leave gaps (a view of some columns), the gaps are no part of it.

*Races.* Programs of one launch run one after another here, so nothing ever collides; a race is found from records. Each
element remembers who last read it, wrote it and touched it with an atomic. Two accesses by different programs, at least
one a plain store, or one plain and one atomic with a store among the two, are a race unless something orders them. Two
programs that write the *same* value race too: CUDA promises nothing about it, and a value that is equal today is a mask
that is missing tomorrow.

*Order.* What a program did before a releasing atomic on a single address happens before what another program does
after its acquiring atomic on that address (both are Triton's default). So a lock around plain loads and stores (spin on
`tl.atomic_cas`, let go with `tl.atomic_xchg`) is no race, nor is "the last program to arrive sums up". Whether the
program really waited for the value it got is not decidable from one run: a kernel that touches such an atomic and
ignores the answer gets the benefit of the doubt. Atomics on blocks of addresses order nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
Access = Literal["load", "store", "atomic"]

_ALWAYS = np.iinfo(np.int32).max


class Argument:
    """One tensor argument of a launch, or the base of a descriptor."""

    def __init__(self, name: str, tensor: torch.Tensor, *, gaps_allowed: bool = False) -> None:
        self.name = name
        self.item_bytes = tensor.element_size()
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        #: Elements from the first to the last one reached, gaps included.
        self.elements = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) if tensor.numel() else 0
        self.first = tensor.data_ptr()
        self.end = self.first + self.elements * self.item_bytes
        #: Of each spanned element, whether shape and strides reach it; None if there are no gaps.
        self.reached = None if gaps_allowed or _dense(shape, strides) else _reached(shape, strides, self.elements)
        self.region: Region


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether every element between the first and the last is reached."""
    span = 1
    for step, n in sorted((step, n) for n, step in zip(shape, strides, strict=True) if n > 1):
        if step > span:
            return False
        span += (n - 1) * step
    return True


def _reached(shape: tuple[int, ...], strides: tuple[int, ...], elements: int) -> Array:
    reached = np.zeros(elements, bool)
    np.lib.stride_tricks.as_strided(reached, shape, strides)[...] = True
    return reached


class Record:
    """Who touched each element last in one way, and in which of its epochs (an epoch ends with a release)."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self.program: Array | None = None  # 0 where nobody did; made when somebody does
        self.epoch: Array | None = None  # made when a program's second epoch begins


class Region:
    """Memory that one argument, or several that overlap, lie in, counted in units of the smallest element."""

    def __init__(self, arguments: list[Argument]) -> None:
        self.arguments = arguments
        self.first = min(argument.first for argument in arguments)
        self.end = max(argument.end for argument in arguments)
        self.unit_bytes = min(argument.item_bytes for argument in arguments)
        self.shift = np.uint64(self.unit_bytes.bit_length() - 1)
        units = -(-(self.end - self.first) // self.unit_bytes)
        self.loads, self.stores, self.atomics = Record(units), Record(units), Record(units)
        #: Units that hold a value; None where all do. Set for outputs made with torch.empty.
        self.written: Array | None = None
        self._lane: Array | None = None

    def units(self, addresses: Array, item_bytes: int) -> Array:
        """Unit numbers (int64) that elements of `item_bytes` at `addresses` (uint64, 1-d) cover, lane by lane."""
        units = ((addresses - np.uint64(self.first)) >> self.shift).view(np.int64)
        several = item_bytes // self.unit_bytes
        return units if several <= 1 else (units[:, None] + np.arange(several)).reshape(-1)

    def last_lane(self, units: Array) -> Array:
        """Of each lane, the lane whose store to the same unit comes last."""
        if self._lane is None:
            self._lane = np.empty(self.loads.elements, np.int32)
        self._lane[units] = np.arange(units.size, dtype=np.int32)
        return np.asarray(self._lane[units])


def regions(arguments: list[Argument]) -> list[Region]:
    """Group the arguments that overlap, and tell each its region."""
    groups: list[list[Argument]] = []
    for argument in sorted(arguments, key=lambda a: a.first):
        if groups and argument.first < max(other.end for other in groups[-1]):
            groups[-1].append(argument)
        else:
            groups.append([argument])
    found = []
    for group in groups:
        region = Region(group)
        for argument in group:
            argument.region = region
        found.append(region)
    return found


class Clocks:
    """What the running program knows of the others: a vector clock, kept as an array so that numpy can compare.

    Programs are numbered from 1 in the order in which they run; 0 stands for nobody and `several` for more than one.
    """

    def __init__(self, programs: int) -> None:
        self.several = programs + 1
        self._released: dict[int, Array] = {}
        self.program = 0
        self.epoch = 0
        self._acquired = False
        self.known = np.zeros(programs + 2, np.int32)

    def begin(self, program: int) -> None:
        """The next program starts; it knows of nobody."""
        if self._acquired:
            self.known[:] = 0
            self._acquired = False
        self.known[self.program] = 0
        self.program, self.epoch = program, 0
        self.known[0] = self.known[program] = _ALWAYS

    def synchronise(self, address: int, *, acquire: bool, release: bool) -> None:
        """An atomic on a single address."""
        if acquire and (released := self._released.get(address)) is not None:
            self._acquired = True
            np.maximum(self.known, released, out=self.known)
            before = self.known[1 : self.program]
            self.known[self.several] = int(before.size > 0 and before.min() > 0)
        if release:
            self.epoch += 1
            told = self.known.copy()
            told[0] = told[self.several] = 0
            told[self.program] = self.epoch
            known = self._released.get(address)
            self._released[address] = told if known is None else np.maximum(known, told)

    def unordered(self, record: Record, units: Array) -> Array | None:
        """Of each unit, whether somebody else's last access is not ordered before now; None if none is."""
        if record.program is None:
            return None
        known = self.known[record.program[units]]
        unordered = known <= (0 if record.epoch is None else record.epoch[units])
        return unordered if unordered.any() else None

    def note(self, record: Record, units: Array, *, keep: bool) -> None:
        """The running program touches `units`. With `keep`, unordered accesses before it stay known, as `several`."""
        if record.program is None:
            record.program = np.zeros(record.elements, np.int32)
        if self.epoch and record.epoch is None:
            record.epoch = np.zeros(record.elements, np.int32)
        unordered = self.unordered(record, units) if keep else None
        if unordered is None:
            record.program[units] = self.program
            if record.epoch is not None:
                record.epoch[units] = self.epoch
            return
        record.program[units] = np.where(unordered, self.several, self.program)
        if record.epoch is not None:
            record.epoch[units] = np.where(unordered, 0, self.epoch)
