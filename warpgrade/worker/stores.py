"""A session that knows, of each tensor, whether a kernel stored to its memory. Evidence and no proof, as all here."""

from __future__ import annotations

from typing import Any

import torch

from warpgrade.model.sanitizer import Session


class StoringSession(Session):
    """Memory is a torch storage, so views, slices and padded buffers count as what they are views of."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        #: By launch: the arguments' names and storages. Held, so that no later tensor is taken for an earlier one.
        self._arguments: dict[int, list[tuple[str, torch.UntypedStorage]]] = {}
        #: Storages that were copied from ones with stores: `out[:n].clone()` is as much a kernel's work as `out`.
        self._copies: dict[int, torch.UntypedStorage] = {}

    def written(self, name: str, tensor: torch.Tensor, *, overlapped: bool) -> Any:
        """As in a Session, which asks once for each argument of each launch."""
        self._arguments.setdefault(len(self.launches) - 1, []).append((name, tensor.untyped_storage()))
        return super().written(name, tensor, overlapped=overlapped)

    def stored_to(self, tensor: torch.Tensor) -> bool:
        """Whether a launch that counts stored to the memory of `tensor`, or to what was copied there."""
        storage = tensor.untyped_storage()._cdata
        return storage in self._copies or any(
            held._cdata == storage and launch.traffic[name].bytes_stored
            for index, arguments in self._arguments.items()
            for name, held in arguments
            if name in (launch := self.launches[index]).traffic and not launch.tuning
        )

    def copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """`target` was filled with the elements of `source`."""
        if self.stored_to(source):
            self._copies[target.untyped_storage()._cdata] = target.untyped_storage()

    def changed(self, tensor: torch.Tensor) -> None:
        """torch wrote to the memory of `tensor`, in a way that its version may not tell: all of it holds something."""
        super().written("", tensor, overlapped=True)

    def let_go(self) -> None:
        """Let go of the memory that is held for `stored_to`, which `forget` leaves: it comes before the answer."""
        self._arguments.clear()
        self._copies.clear()
