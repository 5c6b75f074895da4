"""Timed messages: calls on memory that the Judge shares, with no copy on the way in or out."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpgrade.wire.messages import Launch, Run, Share
from warpgrade.wire.tensors import leaf_to_python, view

#: Operations that allocate a tensor which holds nothing yet.
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})


class ResultDoesNotFit(ValueError):  # noqa: N818 - students read its name
    """What the call returned is not what the contract says: number, dtype, shape or strides."""


class Slots(TorchDispatchMode):
    """While active, a tensor that is allocated with a result's dtype and number of elements lies in the result's place.

    So what a kernel writes is where the Judge looks for it. A copy inside the Judge's clock would be time that a
    submission could save by writing there itself.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """See `watch.Watch`."""
        return False

    def __init__(self, places: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = places
        self._free = list(places)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in EMPTY or not isinstance(made, torch.Tensor) or not made.is_contiguous():
            return made
        for index, place in enumerate(self._free):
            if (place.dtype, place.numel()) == (made.dtype, made.numel()):
                return self._free.pop(index).view(made.shape)
        return made

    def take(self, result: Any) -> None:
        """See that all results are in their places. Raises ResultDoesNotFit."""
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(results) != len(self._places):
            raise ResultDoesNotFit(f"{len(results)} results, where the contract says {len(self._places)}")
        for place, made in zip(self._places, results, strict=True):
            if not isinstance(made, torch.Tensor) or (made.dtype, made.shape) != (place.dtype, place.shape):
                raise ResultDoesNotFit("a result of another dtype or shape than the contract says")
            if not made.is_contiguous():
                raise ResultDoesNotFit("a result that is not contiguous")
            if made.data_ptr() != place.data_ptr():
                place.copy_(made)


class SharedBlocks:
    """The Judge's two blocks, mapped here."""

    def __init__(self, message: Share, descriptors: Sequence[int]) -> None:
        self.inputs, self.outputs = (
            _mapped(descriptor, size_bytes)
            for descriptor, size_bytes in zip(descriptors, message.sizes_bytes, strict=True)
        )

    def run(self, message: Run, function: Callable[..., Any]) -> None:
        """Call `function` for each launch. Raises what it raises, and ResultDoesNotFit."""
        scalars = {name: leaf_to_python(leaf) for name, leaf in message.scalars.items()}
        for launch in message.launches:
            self._one(launch, message.signature, scalars, function, of_kernel=message.grid is not None)

    def _one(
        self,
        launch: Launch,
        signature: Sequence[str],
        scalars: Mapping[str, Any],
        function: Callable[..., Any],
        *,
        of_kernel: bool,
    ) -> None:
        outputs = {name: view(self.outputs, spec) for name, spec in launch.outputs.items()}
        values = {**scalars, **{name: view(self.inputs, spec) for name, spec in launch.inputs.items()}}
        if of_kernel:
            values |= outputs
        arguments = [values[name] for name in signature]
        if of_kernel:
            function(*arguments)
            return
        with Slots(list(outputs.values())) as slots:
            result = function(*arguments)
        slots.take(result)


def _mapped(descriptor: int, size_bytes: int) -> torch.Tensor:
    """The block behind a descriptor of a memory file, as uint8. The mapping lives as long as the tensor."""
    try:
        memory = mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    return torch.frombuffer(memory, dtype=torch.uint8)
