"""NVIDIA's libdevice for interpreted kernels: what each `__nv_` symbol calculates.

Which types a function takes and gives, and how it broadcasts, is Triton's own table; here are only the calculations.
What is missing (arithmetic rounded up, down or to zero, `jn`, byte shuffles) raises NotInterpreted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import _disable_current_modes

from warpgrade.model.findings import NotInterpreted

Array = npt.NDArray[Any]
_CONVERSION = re.compile(r"(?:float|double|int|uint|ll|ull)2(float|double|int|uint|ll|ull)_(rn|rd|ru|rz)")
_TARGETS: dict[str, Any] = {"float": np.float32, "double": np.float64, "int": np.int32, "uint": np.uint32,
                            "ll": np.int64, "ull": np.uint64}  # fmt: skip
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}


def calculate(symbol: str, operands: list[Array]) -> Array:
    """What libdevice's `symbol` gives for operands of one shape: fp32, fp64 or integers, as the symbol takes them.

    The result has their shape; its dtype is for the caller to convert. Raises NotInterpreted for a symbol that is not
    here. In fp32 and fp64 as numpy calculates, so as near to a GPU's as CUDA's own tables of errors say: a few units
    in the last place. Special functions (erf, lgamma, Bessel) are torch's, in fp64.
    """
    name = symbol.removeprefix("__nv_")
    floats = operands[0].dtype.kind == "f"
    stems = (name, name[:-1]) if floats and name[-1] in "fd" else (name,)  # tanhf, isnand
    for stem in stems:
        if stem in _TABLE:
            return np.asarray(_TABLE[stem](*operands))
        if stem in _SPECIAL:
            return _special(stem, operands[0])
    if found := _CONVERSION.fullmatch(name):
        return _converted(operands[0], found[1], found[2])
    if found := re.fullmatch(r"[fd]?(add|sub|mul|div|rcp|sqrt|rsqrt|fma)f?_rn", name):
        return np.asarray(_TABLE[found[1]](*operands))
    raise NotInterpreted(f"libdevice's {name}")


def _special(stem: str, values: Array) -> Array:
    given = torch.from_numpy(np.ascontiguousarray(values, np.float64))
    result = np.empty(values.shape, np.float64)
    # What a kernel calculates is no operation that the submission asked of torch.
    with _disable_current_modes():
        torch.from_numpy(result).copy_(_SPECIAL[stem](given))
    return result


def _converted(values: Array, target: str, rounding: str) -> Array:
    kind = np.dtype(_TARGETS[target])
    if kind.kind == "f":
        if rounding != "rn":
            raise NotInterpreted(f"libdevice's conversion to {target} with rounding {rounding}")
        return values.astype(kind)
    limits = np.iinfo(kind)
    rounded = _ROUNDINGS[rounding](np.where(np.isnan(values), 0, values))
    # As the GPU's cvt instruction, numbers that are too large become the largest. A float of 2**63 is one too many.
    inside = (rounded >= float(limits.min)) & (rounded < float(limits.max) + (kind.itemsize < 8))
    whole = np.where(inside, rounded, 0).astype(kind)
    return np.where(inside, whole, np.where(rounded < 0, limits.min, limits.max).astype(kind))


def _away(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def _turned(x: Array, quarter_turns: int) -> Array:
    """sin(pi x + quarter_turns pi / 2), exact where it is 0 or 1."""
    quarters = np.rint(2 * np.fmod(x, 2.0))
    rest = np.pi * (np.fmod(x, 2.0) - quarters / 2)
    which = (quarters + quarter_turns) % 4
    return np.select([which == 0, which == 1, which == 2], [np.sin(rest), np.cos(rest), -np.sin(rest)], -np.cos(rest))


def _norm(*values: Array) -> Array:
    return np.asarray(np.sqrt(sum(np.square(value.astype(np.float64)) for value in values)))


def _fused(x: Array, y: Array, z: Array) -> Array:
    """x y + z, rounded once: the wider type holds the product of two fp32 numbers, and nearly that of two fp64."""
    wide: Any = np.float64 if x.dtype == np.float32 else np.longdouble
    return np.asarray((x.astype(wide) * y + z).astype(x.dtype))


def _exponent(x: Array, *, zero: float, infinite: float, nan: float) -> Array:
    found = np.frexp(x)[1].astype(np.float64) - 1
    return np.select([np.isnan(x), np.isinf(x), x == 0], [nan, infinite, zero], found)


def _bits_of(to: Any) -> Callable[[Array], Array]:
    return lambda x: np.ascontiguousarray(x).view(to)


def _unsigned(x: Array) -> Array:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _each_bit(x: Array) -> Array:
    """(..., bits) of 0 and 1, the lowest first."""
    places = np.arange(8 * x.dtype.itemsize, dtype=f"u{x.dtype.itemsize}")
    return np.asarray((_unsigned(x)[..., None] >> places) & np.asarray(1, places.dtype))


def _reversed(x: Array) -> Array:
    places = np.arange(8 * x.dtype.itemsize, dtype=f"u{x.dtype.itemsize}")
    return np.asarray((_each_bit(x)[..., ::-1] << places).sum(axis=-1, dtype=places.dtype)).view(x.dtype)


def _leading_zeros(x: Array) -> Array:
    bits = _each_bit(x)[..., ::-1]
    return np.asarray(np.where(bits.any(axis=-1), bits.argmax(axis=-1), bits.shape[-1]))


def _first_set(x: Array) -> Array:
    bits = _each_bit(x)
    return np.asarray(np.where(bits.any(axis=-1), bits.argmax(axis=-1) + 1, 0))


def _high(x: Array, y: Array) -> Array:
    """The upper half of a product."""
    product = x.astype(object) * y.astype(object)
    return np.asarray((product >> (8 * x.dtype.itemsize)).astype(x.dtype))


def _half(rounding: int) -> Callable[[Array, Array], Array]:
    return lambda x, y: (x.astype(np.int64) + y + rounding) >> 1


def _low24(x: Array, y: Array) -> Array:
    shift = x.dtype.type(8)
    return np.asarray(((x << shift) >> shift) * ((y << shift) >> shift))


def _gamma(x: torch.Tensor) -> torch.Tensor:
    size = torch.exp(torch.lgamma(x))
    below = torch.floor(x)
    result = torch.where((x < 0) & (below % 2 != 0), -size, size)
    result = torch.where((x < 0) & (below == x), torch.nan, result)
    return torch.where(x == 0, torch.copysign(torch.full_like(x, torch.inf), x), result)


_TABLE: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "llabs": np.abs, "fabs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin,
    "asinh": np.arcsinh, "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil,
    "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "exp10": lambda x: np.power(x.dtype.type(10), x), "floor": np.floor, "fmod": np.fmod, "hypot": np.hypot,
    "ldexp": np.ldexp, "scalbn": np.ldexp, "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
    "nearbyint": np.rint, "nextafter": np.nextafter, "pow": np.power, "powi": np.power, "rint": np.rint,
    "llrint": np.rint, "round": _away, "llround": _away, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc, "rsqrt": lambda x: 1 / np.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x),
    "sinpi": lambda x: _turned(x, 0), "cospi": lambda x: _turned(x, 1),
    "fdim": lambda x, y: np.where(x <= y, 0, x - y),
    "saturate": lambda x: np.clip(np.where(np.isnan(x), 0, x), 0, 1),
    "fma": _fused, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda x: 1 / x,
    "norm3d": _norm, "norm4d": _norm, "rnorm3d": lambda *x: 1 / _norm(*x), "rnorm4d": lambda *x: 1 / _norm(*x),
    "rhypot": lambda *x: 1 / _norm(*x),
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "finite": np.isfinite, "signbit": np.signbit,
    "logb": lambda x: _exponent(x, zero=-np.inf, infinite=np.inf, nan=np.nan),
    "ilogb": lambda x: _exponent(x, zero=-(2**31), infinite=2**31 - 1, nan=-(2**31)),
    "float_as_int": _bits_of(np.int32), "float_as_uint": _bits_of(np.int32), "int_as_float": _bits_of(np.float32),
    "uint_as_float": _bits_of(np.float32), "double_as_longlong": _bits_of(np.int64),
    "longlong_as_double": _bits_of(np.float64),
    "fast_cos": np.cos, "fast_sin": np.sin, "fast_tan": np.tan, "fast_tanh": np.tanh, "fast_exp": np.exp,
    "fast_exp10": lambda x: np.power(x.dtype.type(10), x), "fast_log": np.log, "fast_log2": np.log2,
    "fast_log10": np.log10, "fast_pow": np.power, "fast_fdivide": np.divide,
    "popc": lambda x: _each_bit(x).sum(axis=-1), "popcll": lambda x: _each_bit(x).sum(axis=-1),
    "clz": _leading_zeros, "clzll": _leading_zeros, "ffs": _first_set, "ffsll": _first_set,
    "brev": _reversed, "brevll": _reversed, "mulhi": _high, "umulhi": _high, "mul64hi": _high, "umul64hi": _high,
    "mul24": _low24, "umul24": _low24, "hadd": _half(0), "uhadd": _half(0), "rhadd": _half(1), "urhadd": _half(1),
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y) + z,
    "usad": lambda x, y, z: np.abs(x.astype(np.int64) - y) + z,
}  # fmt: skip
_SPECIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "erf": torch.erf, "erfc": torch.erfc, "erfcx": torch.special.erfcx, "erfinv": torch.erfinv,
    "erfcinv": lambda x: -torch.special.ndtri(x / 2) / 2**0.5, "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri, "lgamma": torch.lgamma, "tgamma": _gamma, "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1, "y0": torch.special.bessel_y0, "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0, "cyl_bessel_i1": torch.special.i1,
}  # fmt: skip
