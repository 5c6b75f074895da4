"""The session: what kernels are launched while it is active, and what is wrong with them."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from warpgrade.model.arguments import Access, Argument, Clocks, Region, regions
from warpgrade.model.findings import Finding, KernelFault, Line, OutOfBounds, Program
from warpgrade.model.traffic import Traffic, coalesce, total
from warpgrade.wire.messages import FindingKind

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorFacts:
    """What is kept of a tensor argument. `strides` in elements, `offset_bytes` is data_ptr() % 16."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset_bytes: int


@dataclass(frozen=True)
class DescriptorFacts:
    """What is kept of a tensor descriptor that was made on the host, in elements."""

    base: TensorFacts
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str


@dataclass(frozen=True)
class Dot:
    """One tl.dot that was executed: tile sizes, the operands' dtype, and its precision ('tf32', 'ieee', ...)."""

    m: int
    n: int
    k: int
    dtype: str
    input_precision: str
    line: Line | None


@dataclass
class Launch:
    """One launch of a kernel; with an autotuner, one of a configuration."""

    kernel: Any
    name: str
    grid: Program
    #: By the kernel's own names, without constexprs. A tensor is its TensorFacts, everything else itself.
    arguments: dict[str, Any]
    constexprs: dict[str, Any]
    #: num_warps, num_stages and whatever else the launch or the configuration said.
    options: dict[str, Any]
    #: Whether an autotuner chose among several configurations.
    tuned: bool = False
    #: Whether it was made only to compare them.
    tuning: bool = False
    traffic: dict[str, Traffic] = field(default_factory=dict)
    dots: set[Dot] = field(default_factory=set)

    @property
    def total_traffic(self) -> Traffic:
        """The sum over arguments."""
        return total(self.traffic.values())


def traffic_of(launches: Iterable[Launch]) -> dict[str, Traffic]:
    """The traffic of each argument, by its name, summed over launches."""
    by_name: dict[str, list[Traffic]] = {}
    for launch in launches:
        for name, traffic in launch.traffic.items():
            by_name.setdefault(name, []).append(traffic)
    return {name: total(one) for name, one in by_name.items()}


class Session:
    """What happens while kernels run interpreted under it: findings and launches.

    `inputs` names the kernels' arguments that must not be written. `outputs` names those whose memory holds nothing yet
    (`made_empty` says so of a tensor, whatever a kernel calls it): reading an element of one before anything was
    written there is a finding. What earlier launches wrote counts, and so does any in-place torch operation (all of it
    is then taken as written). `gaps_allowed` names arguments whose gaps between rows may be touched. `reachable` are
    tensors, by a name to report them with, that kernels reach through addresses in memory: of a number made into a
    pointer nothing is known but where it points.
    `seed` shuffles the order of programs (each launch differently); None keeps triton's order. `max_findings` bounds
    the list; each line reports a fault once. `tuned` is what autotuners have chosen, by id: the autotuner and its
    cache; pass one that outlives the session to have each configuration tried once in all.
    """

    def __init__(
        self,
        *,
        seed: int | None = 0,
        inputs: Collection[str] = (),
        outputs: Collection[str] = (),
        gaps_allowed: Collection[str] = (),
        reachable: Mapping[str, torch.Tensor] | None = None,
        max_findings: int = 20,
        tuned: dict[int, tuple[Any, dict[Any, Any]]] | None = None,
    ) -> None:
        self.seed = seed
        self.inputs = frozenset(inputs)
        self.outputs = frozenset(outputs)
        self.gaps_allowed = frozenset(gaps_allowed)
        self.reachable = dict(reachable or {})
        self.max_findings = max_findings
        self.findings: list[Finding] = []
        self.launches: list[Launch] = []
        #: Names of files that student code was taken from; lines are looked for in these.
        self.files: set[str] = set()
        #: Arguments that the autotuner sets to zero before each launch.
        self.zeroed: frozenset[str] = frozenset()
        self.tuned = {} if tuned is None else tuned
        #: How many configurations the running autotuner chooses among; 0 outside of one.
        self.configurations = 0
        #: Whether it is comparing them.
        self.tuning = False
        self._reported: set[tuple[Any, ...]] = set()
        self._memories: dict[int, _Memory] = {}

    def order(self, grid: Program) -> list[Program]:
        """All programs of a grid, in the order in which they are to run."""
        programs = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
        if self.seed is not None:
            random.Random(f"{self.seed}:{len(self.launches)}").shuffle(programs)
        return programs

    def report(self, finding: Finding) -> None:
        """Keep a finding, unless the same line has had the same fault already."""
        key = (finding.kind, finding.access, finding.argument, finding.line)
        if key not in self._reported and len(self.findings) < self.max_findings:
            self._reported.add(key)
            self.findings.append(finding)

    def fault(self, error: KernelFault) -> KernelFault:
        """Keep the finding of an error that is about to be raised."""
        self.report(error.finding)
        return error

    def made_empty(self, tensor: torch.Tensor) -> None:
        """`tensor` was just allocated and holds nothing, as from torch.empty. It is kept alive until `forget`, so that
        its memory is not given to another."""
        if tensor.numel() and not tensor.is_inference():  # of those torch counts no in-place operations
            self._memories[tensor.untyped_storage().data_ptr()] = _Memory(tensor)

    def written(self, name: str, tensor: torch.Tensor, *, overlapped: bool) -> Array | None:
        """Which elements of a tensor hold a value, from its first one along memory; None where that is not followed.

        The array is the session's own, shared by all views of the memory: what a launch sets in it is remembered.
        `overlapped`: another argument of the launch lies there too, so it is not followed who writes what.
        """
        storage = tensor.untyped_storage().data_ptr()
        if storage not in self._memories and name in self.outputs and name not in self.zeroed:
            self._memories[storage] = _Memory(tensor)
        memory = self._memories.get(storage)
        if memory is None:
            return None
        if overlapped or name in self.zeroed:
            memory.elements[:] = True
            return None
        return memory.of(tensor)

    def forget(self) -> None:
        """Let go of the tensors that were held for `made_empty`, `outputs` and `reachable`."""
        self._memories.clear()
        self.reachable.clear()

    def line(self) -> Line | None:
        """The innermost line of student code that is running now."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in self.files:
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return None


class _Memory:
    """Memory that held nothing when `tensor` was made, and which of its elements have been written since."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._version = _version(tensor)
        self._item_bytes = tensor.element_size()
        self.elements = np.zeros(tensor.untyped_storage().nbytes() // self._item_bytes, bool)

    def of(self, view: torch.Tensor) -> Array | None:
        """The elements from the first to the last one that `view` reaches; None for a view as another type."""
        if _version(view) != self._version or view.element_size() != self._item_bytes:
            self._version = _version(view)
            self.elements[:] = True
        if view.element_size() != self._item_bytes:
            return None
        span = 1 + sum((n - 1) * step for n, step in zip(view.shape, view.stride(), strict=True))
        return self.elements[view.storage_offset() :][:span]


def _version(tensor: torch.Tensor) -> int:
    """How many in-place operations torch has counted; views count together."""
    return 0 if tensor.is_inference() else tensor._version


@dataclass(frozen=True)
class Undefined:
    """Lanes of a value that a masked load without `other` left undefined, and which load that was."""

    lanes: Array
    argument: str | None
    line: Line | None


class Watch:
    """Checks every access of one launch, before it happens."""

    def __init__(self, session: Session, launch: Launch, tensors: Sequence[tuple[str, torch.Tensor]], programs: int):
        self.session = session
        self.launch = launch
        self.program: Program = (0, 0, 0)
        self.arguments = {n: Argument(n, t, gaps_allowed=n in session.gaps_allowed) for n, t in tensors}
        self._clocks = Clocks(programs)
        self._number = 0
        tensors_by_name = dict(tensors)
        for region in regions([argument for argument in self.arguments.values() if argument.elements]):
            overlapped = len(region.arguments) > 1
            for argument in region.arguments:
                region.written = session.written(argument.name, tensors_by_name[argument.name], overlapped=overlapped)

    def begin(self, program: Program) -> None:
        """The next program starts."""
        self.program = program
        self._number += 1
        self._clocks.begin(self._number)

    def access(self, access: Access, pointer: Any, mask: Array | None, value: Any = None) -> None:
        """Check and count one access through the handle `pointer`, before it happens.

        `mask` is a bool array that broadcasts to the pointer's shape, None for all lanes; `value` the stored handle.
        Raises OutOfBounds.
        """
        addresses = pointer.data
        if mask is not None:
            if mask.shape != addresses.shape:
                addresses, mask = np.broadcast_arrays(addresses, mask)
            if mask.all():
                mask = None
            elif not mask.any():
                return
        item_bytes = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
        stored = None if value is None else np.broadcast_to(value.data, addresses.shape)
        owner = pointer.attr.get("argument")
        if isinstance(owner, np.ndarray):  # tl.where between pointers into different arguments
            owners = np.broadcast_to(owner, addresses.shape)
            for one in {id(o): o for o in owners.reshape(-1)}.values():
                mine = owners == one if mask is None else (owners == one) & mask
                if mine.any():
                    self._access(access, one, addresses, mine, item_bytes, stored)
        else:
            self._access(access, owner, addresses, mask, item_bytes, stored)
        if "undefined" in pointer.attr:
            self._use(pointer.attr["undefined"], mask, "addresses")
        if value is not None and "undefined" in value.attr:
            self._use(value.attr["undefined"], mask, "stored values")

    def _access(
        self,
        access: Access,
        argument: Argument | None,
        addresses: Array,
        mask: Array | None,
        item_bytes: int,
        stored: Array | None,
    ) -> None:
        active = addresses.reshape(-1) if mask is None else addresses[mask]
        if argument is None:
            argument = self._holder(int(active[0]))
        low, high = int(active.min()), int(active.max()) + item_bytes
        if argument is None or low < argument.first or high > argument.end:
            raise self._outside(access, argument, active, item_bytes)
        if argument.reached is not None:
            elements = (active - np.uint64(argument.first)) // np.uint64(argument.item_bytes)
            if not argument.reached[elements].all():
                raise self._outside(access, argument, active, item_bytes, ~argument.reached[elements])
        useful_bytes, sectors = coalesce(addresses, mask, item_bytes)
        traffic = self.launch.traffic.setdefault(argument.name, Traffic())
        traffic.add(stored=access != "load", useful_bytes=useful_bytes, sectors=sectors)
        region = argument.region
        units = region.units(active, item_bytes)
        self._race(access, argument, region, units)
        if access != "load" and argument.name in self.session.inputs:
            index = (int(active[0]) - argument.first) // argument.item_bytes
            self.report("input_written", access, argument.name, index, f"{active.size} lanes")
        if region.written is not None:
            self._initialised(access, argument, region.written, units)
        if access == "store" and stored is not None and active.size > 1:
            self._two_lanes(argument, region, active, item_bytes, stored.reshape(-1) if mask is None else stored[mask])

    # --- bounds -------------------------------------------------------------------------------------------------

    def _holder(self, address: int) -> Argument | None:
        """The argument that an address of unknown origin lies in."""
        return next((a for a in self.arguments.values() if a.first <= address < a.end), None)

    def _outside(
        self,
        access: Access,
        argument: Argument | None,
        active: Array,
        item_bytes: int,
        between: Array | None = None,
    ) -> OutOfBounds:
        first, end = (argument.first, argument.end) if argument else (0, 0)
        bad = active[between] if between is not None else active
        if between is None and argument is not None:
            bad = active[(active < np.uint64(first)) | (active + np.uint64(item_bytes) > np.uint64(end))]
        index = (int(bad[0]) - first) // (argument.item_bytes if argument else item_bytes) if argument else None
        elements = argument.elements if argument else 0
        detail = f"{bad.size} of {active.size} active lanes"
        if argument:
            detail = f"{argument.name} has {elements} elements, {detail} are outside"
        kind: FindingKind = "between_rows" if between is not None else "out_of_bounds"
        finding = self.finding(kind, access, argument.name if argument else None, index, detail)
        error = OutOfBounds(finding, elements=elements, bad_lanes=int(bad.size), active_lanes=int(active.size))
        self.session.fault(error)
        return error

    # --- races and garbage --------------------------------------------------------------------------------------

    def _race(self, access: Access, argument: Argument, region: Region, units: Array) -> None:
        clocks = self._clocks
        against: tuple[tuple[Literal["load", "store", "atomic"], Any], ...]
        if access == "load":
            mine, against = region.loads, (("store", region.stores), ("atomic", region.atomics))
        elif access == "store":
            mine = region.stores
            against = (("store", region.stores), ("load", region.loads), ("atomic", region.atomics))
        else:
            mine, against = region.atomics, (("store", region.stores), ("load", region.loads))
        for other, record in against:
            unordered = clocks.unordered(record, units)
            if unordered is not None:
                index = int(units[unordered][0]) * region.unit_bytes + region.first - argument.first
                detail = f"{np.count_nonzero(unordered)} of its lanes meet what another program did"
                both = f"{other} and {access}"
                self.report("race", both, argument.name, index // argument.item_bytes, detail)
        clocks.note(mine, units, keep=access != "store")

    def _initialised(self, access: Access, argument: Argument, written: Array, units: Array) -> None:
        if access != "store" and not written[units].all():
            index = int(units[~written[units]][0])
            detail = f"{np.count_nonzero(~written[units])} of {units.size} elements hold nothing yet"
            self.report("uninitialised", access, argument.name, index, detail)
        if access != "load":
            written[units] = True

    def _two_lanes(self, argument: Argument, region: Region, active: Array, item_bytes: int, stored: Array) -> None:
        units = region.units(active, region.unit_bytes)
        last = region.last_lane(units)
        bits = np.ascontiguousarray(stored).view(f"u{stored.dtype.itemsize}")
        differ = bits != bits[last]
        if differ.any():
            index = (int(active[differ][0]) - argument.first) // argument.item_bytes
            detail = f"{np.count_nonzero(differ)} of {active.size} active lanes lose"
            self.report("two_lanes", "store", argument.name, index, detail)

    def _use(self, undefined: Undefined, mask: Array | None, use: str) -> None:
        shape = undefined.lanes.shape if mask is None else mask.shape
        lanes = np.broadcast_to(undefined.lanes, shape) if undefined.lanes.size != 1 else undefined.lanes.reshape(-1)[0]
        used = lanes if mask is None else lanes & mask
        if np.any(used):
            where = f", used on line {at[1]}" if (at := self.session.line()) else ""
            detail = f"{np.count_nonzero(used)} lanes become {use}{where}"
            self.session.report(
                Finding("undefined", "load", undefined.argument, None, self.program, detail, undefined.line)
            )

    def decide(self, undefined: Undefined) -> None:
        """A condition of the kernel's control flow depends on `undefined`."""
        self._use(undefined, None, "a condition")

    def synchronise(self, pointer: Any, *, acquire: bool, release: bool) -> None:
        """An atomic was executed; on a single address it orders programs."""
        if pointer.data.size == 1:
            self._clocks.synchronise(int(pointer.data.reshape(-1)[0]), acquire=acquire, release=release)

    # --- findings -----------------------------------------------------------------------------------------------

    def finding(self, kind: FindingKind, access: str, argument: str | None, index: int | None, detail: str) -> Finding:
        """A finding of the running program, at the student's line that is running."""
        return Finding(kind, access, argument, index, self.program, detail, self.session.line())

    def report(self, kind: FindingKind, access: str, argument: str | None, index: int | None, detail: str) -> None:
        """Keep such a finding."""
        self.session.report(self.finding(kind, access, argument, index, detail))
