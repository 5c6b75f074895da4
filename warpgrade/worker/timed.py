"""Timed messages: calls on memory that the Judge shares, with no copy on the way in or out."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import deterministic
from torch.utils._python_dispatch import TorchDispatchMode

from warpgrade.wire.messages import Move, Run, Share
from warpgrade.wire.tensors import leaf_to_python, view
from warpgrade.worker.place import Place

#: Operations that allocate a tensor which holds nothing yet.
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
#: And ones that hold the same number everywhere.
FILLED = frozenset(form for kind in ("zeros", "ones", "full") for form in (kind, f"{kind}_like", f"new_{kind}"))


class ResultDoesNotFit(ValueError):  # noqa: N818 - students read its name
    """What the call returned is not what the contract says: number, dtype, shape or strides."""


class Allocations(TorchDispatchMode):
    """Sees the tensors that a call allocates, one after another, and puts some of them into given `places`.

    `which` says for each place the how manieth allocation it is for, None for none that is known. So what a kernel
    writes is where the Judge looks for it: a copy inside the Judge's clock would be time that a submission could save
    by writing there itself.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """See `watch.Watch`."""
        return False

    def __init__(self, places: Sequence[torch.Tensor], which: Sequence[int | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = places
        self._which = which
        #: Held, so that no later one has the address of an earlier one.
        self.storages: list[torch.UntypedStorage] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in EMPTY | FILLED or not isinstance(made, torch.Tensor) or made.device != self._places[0].device:
            return made
        number = len(self.storages)
        for place, wanted in zip(self._places, self._which, strict=True):
            if number == wanted and (place.dtype, place.numel()) == (made.dtype, made.numel()) and made.is_contiguous():
                made = _filled(place.view(made.shape), made, name)
        self.storages.append(made.untyped_storage())
        return made


def _filled(place: torch.Tensor, made: torch.Tensor, name: str) -> torch.Tensor:
    if name in FILLED:
        place.zero_() if "zeros" in name else place.copy_(made)
    return place


class SharedBlocks:
    """The Judge's two blocks, mapped here."""

    def __init__(self, message: Share, descriptors: Sequence[int], place: Place) -> None:
        self.inputs, self.outputs = (
            place.map_block(descriptor, size_bytes)
            for descriptor, size_bytes in zip(descriptors, message.sizes_bytes, strict=True)
        )
        #: By function: the how manieth allocation of a call each result is. Learned in its first message, whose results
        #: are copied, from the last call: what is made once and kept was made in the ones before.
        self._which: dict[str, list[int | None]] = {}

    def run(self, message: Run, function: Callable[..., Any]) -> None:
        """Call `function` for each launch. Raises what it raises, and ResultDoesNotFit."""
        scalars = {name: leaf_to_python(leaf) for name, leaf in message.scalars.items()}
        learned: list[int | None] = []
        # Elsewhere torch.empty comes filled with NaN, which takes time; here the outputs are the Judge's to poison.
        before, deterministic.fill_uninitialized_memory = deterministic.fill_uninitialized_memory, False  # type: ignore[attr-defined]
        try:
            for launch in message.launches:
                outputs = {name: view(self.outputs, spec) for name, spec in launch.outputs.items()}
                values = {**scalars, **{name: view(self.inputs, spec) for name, spec in launch.inputs.items()}}
                if message.grid is not None:
                    values |= outputs
                    function(*(values[name] for name in message.signature))
                else:
                    places = list(outputs.values())
                    which = self._which.get(message.function, [None] * len(places))
                    learned = _called(function, [values[name] for name in message.signature], places, which)
        finally:
            deterministic.fill_uninitialized_memory = before  # type: ignore[attr-defined]
        self._which.setdefault(message.function, learned)


class Moving:
    """Copies in memory of our own, which is kept for the next message of the same size."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._memory: tuple[torch.Tensor, torch.Tensor] | None = None

    def move(self, message: Move) -> None:
        """Do what a `Move` says."""
        if self._memory is None or self._memory[0].numel() != message.size_bytes:
            self._memory = None  # first let go of it: both may not fit at once
            source, target = (torch.empty(message.size_bytes, dtype=torch.uint8, device=self._device) for _ in range(2))
            self._memory = source, target
        source, target = self._memory
        for _ in range(message.times):
            target.copy_(source)


def _called(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    places: Sequence[torch.Tensor],
    which: Sequence[int | None],
) -> list[int | None]:
    """Call, see that all results are in their places, and say which allocations they were. Raises ResultDoesNotFit."""
    with Allocations(places, which) as allocations:
        returned = function(*arguments)
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(results) != len(places):
        raise ResultDoesNotFit(f"{len(results)} results, where the contract says {len(places)}")
    elsewhere = []
    for place, result in zip(places, results, strict=True):
        if not isinstance(result, torch.Tensor) or (result.dtype, result.shape) != (place.dtype, place.shape):
            raise ResultDoesNotFit("a result of another dtype or shape than the contract says")
        if not result.is_contiguous():
            raise ResultDoesNotFit("a result that is not contiguous")
        if result.data_ptr() != place.data_ptr():
            elsewhere.append((place, result))
    if len(elsewhere) > 1:  # one may lie in the place of another
        elsewhere = [(place, result.clone()) for place, result in elsewhere]
    for place, result in elsewhere:
        place.copy_(result)
    made = [storage._cdata for storage in allocations.storages]
    return [made.index(storage) if (storage := result.untyped_storage()._cdata) in made else None for result in results]


def mapped_file(descriptor: int, size_bytes: int) -> torch.Tensor:
    """The block in a memory file, as uint8. The mapping lives as long as the tensor. Closes the descriptor."""
    try:
        memory = mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    return torch.frombuffer(memory, dtype=torch.uint8)
