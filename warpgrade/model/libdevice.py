"""NVIDIA's libdevice for interpreted kernels, as far as numpy has it: `libdevice.tanh(x)` and the like.

Only calls through the module are seen (`from triton.language.extra import libdevice`), not names imported out of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice

from warpgrade.model.builder import builder, semantic

MODULES = (libdevice, cuda_libdevice)
_ONE: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "fast_cosf": np.cos, "fast_expf": np.exp, "fast_log2f": np.log2,
    "fast_logf": np.log, "fast_sinf": np.sin, "fast_tanf": np.tan, "fast_tanhf": np.tanh, "floor": np.floor,
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "rint": np.rint, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
_TWO: dict[str, Callable[..., Any]] = {
    "atan2": np.arctan2, "copysign": np.copysign, "fast_powf": np.power, "fmod": np.fmod, "hypot": np.hypot,
    "nextafter": np.nextafter, "pow": np.power,
}  # fmt: skip


def replacements() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """(module, name, function) for all of libdevice.

    A function raises TypeError for what is not fp32 or fp64, NotImplementedError where numpy has nothing of the kind.
    """
    for module in MODULES:
        for name, member in inspect.getmembers(module, inspect.isfunction):
            if member.__module__ == module.__name__:
                yield module, name, _function(name)


def _function(name: str) -> Callable[..., Any]:
    def elementwise(*arguments: Any, **_: Any) -> Any:
        values = [semantic.to_tensor(argument) for argument in arguments]
        if any(value.dtype not in (tl.float32, tl.float64) for value in values):
            raise TypeError(f"libdevice.{name} takes fp32 and fp64, not {', '.join(str(v.dtype) for v in values)}")
        if name in _ONE:
            (value,) = values
            return tl.tensor(builder.unary_op(value.handle, _ONE[name]), value.type)
        if name in _TWO:
            left, right = semantic.binary_op_type_checking_impl(*values)
            return tl.tensor(builder.binary_op(left.handle, right.handle, _TWO[name]), left.type)
        raise NotImplementedError(f"libdevice.{name} is not available where kernels are interpreted")

    return elementwise
