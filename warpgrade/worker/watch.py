"""What the Worker notices of torch while a call runs.

A lint, not a wall: this runs in the process of the student, who can switch it off. It tells an honest student that
torch did the work; on the GPU tier library kernels are physically absent instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpgrade.worker.timed import EMPTY

if TYPE_CHECKING:
    from warpgrade.worker.stores import StoringSession

#: Ways of an element out of torch, past its dispatcher.
_ESCAPES = ("numpy", "tolist", "__array__", "__dlpack__")
_MAX_NAMES = 64


class Watch(TorchDispatchMode):
    """Collects the names of torch operations while it is active, and counts elements that become Python numbers; tells
    the session of memory that holds nothing, and of what torch writes and copies."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would wrap `__torch_dispatch__` and import its compiler at the first operation, 2 s of a call."""
        return False

    def __init__(self, session: StoringSession) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[str] = []
        #: By `.item()`, `float(v)`, `if v:` and the like, also of a storage; those that a print shows do not count.
        self.elements_read = 0
        self._session = session

    def note(self, name: str) -> None:
        """Remember one operation, once."""
        if not _printing and name not in self.operations and len(self.operations) < _MAX_NAMES:
            self.operations.append(name[:128])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        result = func(*args, **(kwargs or {}))
        self.note(name)
        if name == "_local_scalar_dense" and not _printing:
            self.elements_read += 1
        for changed in _changed(func, args, kwargs or {}):
            self._session.changed(changed)
        if name in EMPTY and isinstance(result, torch.Tensor):
            self._session.made_empty(result)
        if name in ("_to_copy", "copy_", "clone"):
            # A copy that changes the dtype or gathers strided elements is a kernel of its own on a GPU.
            source = args[1] if name == "copy_" else args[0]
            if isinstance(source, torch.Tensor) and isinstance(result, torch.Tensor):
                self._session.copied(source, result)
                if source.dtype != result.dtype:
                    self.note(f"{name} to another dtype")
                elif source.stride() != result.stride() and source.numel() > 1:
                    self.note(f"{name} to other strides")
        return result


def _changed(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """The tensors that an operation writes to, by its schema: `fill_` and `out=`, on `.data` and on storages too."""
    schema = func._schema
    if not schema.is_mutable:
        return
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[index] if index < len(args) else kwargs.get(argument.name)
            for value in given if isinstance(given, (list, tuple)) else (given,):
                if isinstance(value, torch.Tensor):
                    yield value


_current: list[Watch] = []
#: How deep in `Tensor.__repr__`: a forgotten print is no work of torch's.
_printing = 0


def install() -> None:
    """Hook the ways around the dispatcher. Once per process."""
    for name in _ESCAPES:
        setattr(torch.Tensor, name, _noting(getattr(torch.Tensor, name), f"Tensor.{name}"))
    torch.Tensor.__repr__ = _printed(torch.Tensor.__repr__)  # type: ignore[method-assign,assignment]


def watching(watch: Watch, call: Callable[[], Any]) -> Any:
    """Run `call` with `watch` active."""
    _current.append(watch)
    try:
        with watch:
            return call()
    finally:
        _current.remove(watch)


def _printed(original: Callable[..., str]) -> Callable[..., str]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> str:
        global _printing
        _printing += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            _printing -= 1

    return method


def _noting(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if _current:
            _current[-1].note(name)
        return original(self, *args, **kwargs)

    return method
