"""Does what came back keep the declaration? Number, kind, dtype, shape and strides, before a suite sees it.

So a suite never meets a generator where it expects a tensor, and a TypeError in a suite is the suite's own.
"""

from __future__ import annotations

import builtins
from typing import Any

import torch

from warpgrade.course import Exercise, Return
from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.tensors import DTYPE_NAMES, Handle, Other, ReturnedTensor, contiguous_strides

_KNOWN_TYPES = frozenset({"generator", "coroutine", "ndarray", "Tensor", "JITFunction"}) | {
    f"{layout} tensor of {dtype}"
    for layout in vars(torch).values()
    for dtype in vars(torch).values()
    if isinstance(layout, torch.layout) and isinstance(dtype, torch.dtype)
}
_SCALARS: dict[str, type[Any]] = {"int": int, "float": float, "bool": bool}


def check_returned(exercise: Exercise, arguments: dict[str, Any], value: Any) -> Any:
    """The value as the suite gets it: tensors and numbers, a tuple where several were declared, None for none.

    Raises a `wrong` Failure that names the contract where the value breaks it.
    """
    declared = exercise.returns
    if not declared:
        return None  # a kernel, or a function whose outputs are arguments; what it returns does not matter
    if len(declared) == 1:
        return _check_one(exercise, declared[0], arguments, value, "")
    if not isinstance(value, tuple) or len(value) != len(declared):
        what = f"{len(value)} values" if isinstance(value, tuple) else _name(value)
        raise _broken(exercise, f"returned {what}; the contract says {len(declared)} values")
    return tuple(
        _check_one(exercise, wanted, arguments, got, f" as value {number}")
        for number, (wanted, got) in enumerate(zip(declared, value, strict=True), start=1)
    )


def _check_one(exercise: Exercise, wanted: Return, arguments: dict[str, Any], got: Any, where: str) -> Any:
    if wanted.kind == "handle":
        if not isinstance(got, Handle):
            raise _broken(exercise, f"returned {_name(got)}{where}; the contract says a function")
        return got
    if wanted.kind != "tensor":
        expected = _SCALARS[wanted.kind]
        if type(got) is not expected and not (expected is float and type(got) is int):
            raise _broken(exercise, f"returned {_name(got)}{where}; the contract says {wanted.kind}")
        return expected(got)
    if not isinstance(got, ReturnedTensor):
        raise _broken(exercise, f"returned {_name(got)}{where}; the contract says a tensor")
    tensor = got.tensor
    dtype = _dtype(wanted, arguments)
    if dtype is not None and tensor.dtype != dtype:
        names = DTYPE_NAMES[tensor.dtype], DTYPE_NAMES[dtype]
        raise _broken(exercise, f"returned a tensor of {names[0]}{where}; the contract says {names[1]} here")
    shape = _shape(exercise, wanted, arguments)
    if shape is not None and tuple(tensor.shape) != shape:
        raise _broken(
            exercise,
            f"returned a tensor of the wrong shape{where}; the contract says {_shape_text(wanted)}",
            {"shape": str(tuple(tensor.shape)), "shape by the contract": str(shape)},
        )
    if not _contiguous(tuple(tensor.shape), got.strides):
        raise _broken(
            exercise,
            f"returned a tensor that is not contiguous{where}; the contract says a new contiguous one",
            {"shape": str(tuple(tensor.shape)), "strides": str(got.strides)},
        )
    return tensor


def plain(exercise: Exercise, value: Any) -> Any:
    """What a returned function (`predict`) gave back: tensors and numbers as they are, or a tuple of them.

    Raises a `wrong` Failure for anything else, so that a suite never meets what it cannot compare.
    """
    if isinstance(value, tuple):
        return tuple(plain(exercise, item) for item in value)
    if isinstance(value, ReturnedTensor):
        return value.tensor
    if type(value) in _SCALARS.values():
        return value
    raise _broken(exercise, f"returned a function that gave {_name(value)}; it has to give tensors or numbers")


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """As torch defines it: the stride of a dimension of size 1 does not matter, nor any in an empty tensor."""
    if 0 in shape:
        return True
    return all(
        size == 1 or got == wanted for size, got, wanted in zip(shape, strides, contiguous_strides(shape), strict=True)
    )


def _dtype(wanted: Return, arguments: dict[str, Any]) -> torch.dtype | None:
    if isinstance(arguments.get(wanted.dtype), torch.Tensor):
        return arguments[wanted.dtype].dtype  # type: ignore[no-any-return]
    return getattr(torch, wanted.dtype) if wanted.dtype else None


def _shape(exercise: Exercise, wanted: Return, arguments: dict[str, Any]) -> tuple[int, ...] | None:
    if isinstance(wanted.shape, str):
        like = arguments.get(wanted.shape)
        return tuple(like.shape) if isinstance(like, torch.Tensor) else None
    sizes: dict[str, int] = {}
    for argument in exercise.arguments:
        value = arguments.get(argument.name)
        if isinstance(value, torch.Tensor) and "..." not in argument.shape and len(argument.shape) == value.dim():
            sizes |= dict(zip(argument.shape, value.shape, strict=True))
        elif isinstance(value, int):
            sizes[argument.name] = value
    return tuple(int(size) if size.isdigit() else sizes[size] for size in wanted.shape)


def _shape_text(wanted: Return) -> str:
    return f"that of {wanted.shape}" if isinstance(wanted.shape, str) else f"[{', '.join(wanted.shape)}]"


def _name(value: Any) -> str:
    if isinstance(value, Other):
        # A name made up in the call could hold the inputs that it saw, and this sentence is for the student.
        known = isinstance(getattr(builtins, value.type_name, None), type) or value.type_name in _KNOWN_TYPES
        return f"a {value.type_name}" if known else "an object of another type"
    if isinstance(value, ReturnedTensor):
        return "a tensor"
    if isinstance(value, Handle):
        return "a function"
    return "None (is a return missing?)" if value is None else f"a {type(value).__name__}"


def _broken(exercise: Exercise, what: str, evidence: dict[str, str] | None = None) -> Failure:
    return Failure(Outcome.WRONG, f"{exercise.id} {what}.", evidence=evidence or {})
