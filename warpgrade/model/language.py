"""triton.language as interpreted code sees it, put in place for the time of one launch.

The one place that knows where Triton versions differ: 3.6 has block pointers in the builder, later ones here.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl

# Here, or it is imported in a launch, and keeps what it then sees.
from triton.compiler.code_generator import CodeGenerator
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorDescHandle, TensorHandle
from triton.runtime.jit import JITFunction

from warpgrade.model.bfloat16 import pairwise_sum
from warpgrade.model.builder import semantic
from warpgrade.model.sanitizer import Undefined

_table: list[tuple[Any, str, Any]] = []  # object, attribute, value inside of a launch
#: By the id of a function that a kernel may have by another way than through its module: itself, so that the id stays
#: its own, and what it is inside of a launch.
_inside: dict[int, tuple[Any, Any]] = {}
_ABSENT = object()


@contextlib.contextmanager
def interpreted_language() -> Iterator[None]:
    """While active, triton.language calculates. Afterwards it is as it was just before, whoever had changed it."""
    before = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in _table]
    try:
        for owner, name, inside in _table:
            setattr(owner, name, inside)
        yield
    finally:
        _restore(before)


def inside(value: Any) -> Any:
    """What a name in a kernel stands for while it is interpreted: itself, but for Triton's functions and `max`."""
    return _inside.get(id(value), (value, value))[1]


def _restore(before: list[tuple[Any, str, Any]]) -> None:
    for owner, name, outside in before:
        if outside is not _ABSENT:
            setattr(owner, name, outside)
        elif name in vars(owner):  # it is not, where an interrupt came before all was in place
            delattr(owner, name)


def install() -> None:
    """Work out, once, what has to be replaced. Leaves triton.language as it is."""
    if _table:
        return
    owned = (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base)
    owners = (*owned, tl.dtype, libdevice, cuda_libdevice)
    before = [dict(vars(owner)) for owner in owners]
    scope = interpreter._LangPatchScope()
    for owner in owned:
        for name, member in inspect.getmembers(owner):
            if tl.core.is_builtin(member):
                setattr(owner, name, _bound(member))
    for name, member in list(vars(tl.tensor).items()):
        if isinstance(member, JITFunction):  # `x.sum(0)`: the compiler binds it to x, Python does not
            setattr(tl.tensor, name, _method(member))
    interpreter._patch_lang_tensor(tl.tensor, scope)
    # Triton 3.6 turns an array of one element into a number as numpy 2.4 no longer does.
    tl.tensor.__index__ = lambda self: int(self.handle.data.item())
    tl.tensor.T = property(lambda self: semantic.permute(self, _swapped(len(self.shape))))
    for module in (tl, tl.core):
        interpreter._patch_lang_core(module, scope)
    for module in (tl, tl.core):  # when both are patched: each of triton's patches replaces reductions in both
        module.static_assert = _static_assert
        module.reduce = _reduce
        module.associative_scan = _scan
    for name, function in inspect.getmembers(cuda_libdevice, tl.core.is_builtin):
        for module in (libdevice, cuda_libdevice):  # the first has only names, for the compiler to find the second's
            setattr(module, name, _of_library(name, _bound(function)))
    outside = []
    for owner, names in zip(owners, before, strict=True):
        for name, inside in dict(vars(owner)).items():
            if inside is not names.get(name, _ABSENT):
                _table.append((owner, name, inside))
                outside.append((owner, name, names.get(name, _ABSENT)))
                if isinstance(owner, ModuleType) and name in names:
                    _inside[id(names[name])] = names[name], inside
    _restore(outside)
    for name, meant in CodeGenerator.builtin_namespace.items():
        pythons = getattr(builtins, name)
        if meant is not pythons:
            _inside[id(pythons)] = pythons, _inside.get(id(meant), (meant, _number(_bound(meant))))[1]
    for handle in (TensorDescHandle, getattr(interpreter, "BlockPointerHandle", None)):
        if handle is not None:
            handle.materialize_pointers = _keeping_argument(handle.materialize_pointers)


def _bound(member: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return call


def _of_library(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (KeyError, ValueError) as error:  # what it is looked up in has no such types
            given = ", ".join(str(semantic.to_tensor(arg).dtype) for arg in args)
            raise TypeError(f"libdevice.{name} does not take {given}") from error

    return call


def _number(function: Callable[..., Any]) -> Callable[..., Any]:
    """`max` of numbers is a number here, and no tl.constexpr: the interpreter has none."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result.value if isinstance(result, tl.constexpr) else result

    return call


def _method(function: JITFunction[Any]) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


def _keeping_argument(materialize: Callable[..., Any]) -> Callable[..., Any]:
    """Pointers made from a descriptor or a block pointer point into the argument that its base does."""

    def materialize_pointers(self: Any, *args: Any) -> Any:
        pointers, mask = materialize(self, *args)
        if "argument" in self.base.attr:
            pointers.attr["argument"] = self.base.attr["argument"]
        return pointers, TensorHandle(np.asarray(mask), tl.int1)  # triton passes an array on where a handle belongs

    return materialize_pointers


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _static_assert(condition: Any, message: Any = "") -> None:
    """Raises what the compiler raises, so that an autotuner skips the configuration as it does on a GPU."""
    if not condition:
        raise CompileTimeAssertionFailure(None, None, str(getattr(message, "value", message)))


def _axis(axis: Any, rank: int) -> int | None:
    axis = getattr(axis, "value", axis)
    return None if axis is None else int(axis) % rank if axis < 0 else int(axis)


def _reduce(value: Any, axis: Any, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
    """tl.reduce: sums of 16-bit floats round at each step; undefined lanes spoil the result that they are part of."""
    values = value if isinstance(value, tuple | tl.tuple) else (value,)
    axis = _axis(axis, len(values[0].shape))
    operation = ReduceOps(axis, combine_fn, keep_dims)
    operation.generic_reduce = lambda tensors: _fold(tensors, axis, combine_fn, bool(keep_dims), operation)
    dtype = values[0].dtype
    if len(values) == 1 and combine_fn is tl.standard._sum_combine and dtype in (tl.bfloat16, tl.float16):
        operation.sum = lambda tensor: _sum16(tensor, axis, keep_dims, operation)
    elif dtype == tl.bfloat16:
        operation.apply_impl = operation.generic_reduce  # numpy's minimum of bit patterns is no minimum
    result = operation.apply(tuple(values))
    _spoil(values, result, lambda lanes: lanes.any(axis=axis, keepdims=bool(keep_dims)))
    return result if isinstance(value, tuple | tl.tuple) else result[0]


def _steps(tensors: tuple[Any, ...], axis: int, combine_fn: Any) -> Iterator[tuple[Any, ...]]:
    """What has been combined after each step along an axis. All other axes at once: Triton's interpreter goes lane by
    lane, which for the 64 Ki elements of a tile takes a minute."""
    along = [np.moveaxis(tensor.handle.data, axis, 0) for tensor in tensors]
    done: tuple[Any, ...] = ()
    for parts in zip(*along, strict=True):
        new = tuple(_lanes(part, tensor.dtype) for part, tensor in zip(parts, tensors, strict=True))
        if done:
            combined = combine_fn(*done, *new)
            new = tuple(combined) if isinstance(combined, tuple | tl.tuple) else (combined,)
            new = tuple(semantic.cast(semantic.to_tensor(n), t.dtype) for n, t in zip(new, tensors, strict=True))
        yield (done := new)


def _lanes(data: Any, dtype: Any) -> Any:
    data = np.atleast_1d(data)
    return tl.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)))


def _fold(tensors: Any, axis: int | None, combine_fn: Any, keep_dims: bool, operation: Any) -> list[Any]:
    """What a reduction with the student's own function gives, as ReduceOps.generic_reduce."""
    shape = tensors[0].handle.data.shape
    if axis is None:
        tensors = tuple(_lanes(tensor.handle.data.reshape(-1), tensor.dtype) for tensor in tensors)
    *_, last = _steps(tensors, axis or 0, combine_fn)
    left = [1 if axis in (None, i) else n for i, n in enumerate(shape) if keep_dims or axis not in (None, i)]
    results = [np.broadcast_to(one.handle.data.reshape(-1), [max(1, int(np.prod(left)))]) for one in last]
    return [
        operation.to_tensor(data.reshape(left) if left else data.item(), tensor.dtype)
        for data, tensor in zip(results, tensors, strict=True)
    ]


def _prefixes(tensors: Any, axis: int, combine_fn: Any, operation: Any) -> list[Any]:
    """What a scan with the student's own function gives, as ScanOps.generic_scan."""
    shape = tensors[0].handle.data.shape
    rest = [n for i, n in enumerate(shape) if i != axis] or [1]
    steps = list(_steps(tensors, axis, combine_fn))
    results = []
    for i, tensor in enumerate(tensors):
        stacked = np.stack([np.broadcast_to(step[i].handle.data, rest) for step in steps])
        data = np.moveaxis(stacked, 0, axis) if len(shape) > 1 else stacked.reshape(shape)
        results.append(operation.to_tensor(np.ascontiguousarray(data), tensor.dtype))
    return results


def _sum16(tensor: Any, axis: int | None, keep_dims: bool, operation: Any) -> Any:
    values = tensor.handle.data
    flat = values.reshape(-1) if axis is None else values
    total = pairwise_sum(flat, 0 if axis is None else axis, bfloat16=tensor.dtype == tl.bfloat16)
    shape = [1 if axis is None or i == axis else n for i, n in enumerate(values.shape)]
    if not keep_dims:
        shape = [n for i, n in enumerate(shape) if axis is not None and i != axis]
    total = total.reshape(shape)
    return operation.to_tensor(total if shape else total[()], tensor.dtype)


def _scan(value: Any, axis: Any, combine_fn: Any, reverse: bool = False, **_: Any) -> Any:
    """tl.associative_scan; an undefined lane spoils all that come after it."""
    values = value if isinstance(value, tuple | tl.tuple) else (value,)
    axis = _axis(axis, len(values[0].shape))
    operation = ScanOps(axis, combine_fn, bool(getattr(reverse, "value", reverse)))
    operation.generic_scan = lambda tensors: _prefixes(tensors, axis, combine_fn, operation)
    if values[0].dtype == tl.bfloat16:
        operation.cumsum = operation.cumprod = lambda tensor: operation.generic_scan((tensor,))
    result = operation.apply(tuple(values))

    def later(lanes: Any) -> Any:
        ahead = np.flip(lanes, axis) if operation.reverse else lanes
        spoilt = np.logical_or.accumulate(ahead, axis=axis)
        return np.flip(spoilt, axis) if operation.reverse else spoilt

    _spoil(values, result, later)
    return result if isinstance(value, tuple | tl.tuple) else result[0]


def _spoil(values: Any, results: Any, move: Callable[[Any], Any]) -> None:
    for tensor in values:
        if "undefined" in tensor.handle.attr:
            undefined = tensor.handle.attr["undefined"]
            lanes = np.atleast_1d(move(np.broadcast_to(undefined.lanes, tensor.handle.data.shape)))
            if lanes.any():
                for result in results:
                    handle = TensorHandle(result.handle.data, result.handle.dtype, dict(result.handle.attr))
                    handle.attr["undefined"] = Undefined(lanes, undefined.argument, undefined.line)
                    result.handle = handle
