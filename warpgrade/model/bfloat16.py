"""bfloat16 done right: Triton's interpreter keeps bf16 as uint16 bit patterns and calculates with those integers.

Here each operation is done in fp32 (fma in fp64, which holds the product exactly) and rounded once, to nearest even.
That is what a GPU gives for + - * /: fp32 has more than twice the bits of bf16 plus two, so rounding twice is the same
as rounding once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton._C.libtriton import interpreter as memory
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

Array = npt.NDArray[Any]
_NAN = np.uint16(0x7FC0)


def widen(bits: Array) -> Array:
    """bf16 patterns (uint16, any shape) as float32 of the same shape; exact."""
    return np.asarray((bits.astype(np.uint32) << np.uint32(16)).view(np.float32))


def narrow(values: Array) -> Array:
    """Floats or integers (any shape) as bf16 patterns (uint16), to nearest, ties to even. NaN becomes 0x7FC0.

    Integers go through float32 first, as in Triton and in torch.
    """
    if values.dtype == np.float64:
        values = _odd_float32(values)
    values = np.ascontiguousarray(values, np.float32)
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), _NAN, rounded.astype(np.uint16))


def truncate(values: Array) -> Array:
    """float32 (any shape) as bf16 patterns (uint16), towards zero: `fp_downcast_rounding='rtz'`."""
    values = np.ascontiguousarray(values, np.float32)
    return np.where(np.isnan(values), _NAN, (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16))


def _odd_float32(values: Array) -> Array:
    """float64 to float32, where inexact with the last bit odd, so that rounding again to bf16 rounds only once."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    bits = near.view(np.uint32) if near.ndim else near.reshape(1).view(np.uint32)[0]
    inexact = np.isfinite(values) & (near.astype(np.float64) != values)
    too_far = np.abs(near.astype(np.float64)) > np.abs(values)  # step back towards zero, then set the last bit
    odd = (bits - too_far.astype(np.uint32)) | np.uint32(1)
    return np.where(inexact, odd, bits).astype(np.uint32).view(np.float32)


def is_bfloat16(handle: Any) -> bool:
    """Whether a TensorHandle holds bf16 values (not pointers to them)."""
    return bool(handle.dtype == tl.bfloat16)


def _wide(handle: Any) -> Array:
    """The handle's values in a type that numpy can calculate with."""
    return widen(handle.data) if is_bfloat16(handle) else np.asarray(handle.data)


class Bfloat16Builder(InterpreterBuilder):  # type: ignore[misc]
    """Triton's interpreter with right bf16 arithmetic."""

    def get_bf16(self, value: float) -> Any:
        """A bf16 constant; Triton's interpreter has none."""
        return TensorHandle(narrow(np.array([value], np.float64)), tl.bfloat16)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """`op`, a numpy ufunc, lane by lane; rounded once where it is bf16."""
        if is_bfloat16(lhs) or is_bfloat16(rhs):
            result = op(_wide(lhs), _wide(rhs))
            return TensorHandle(result, tl.int1) if result.dtype == bool else TensorHandle(narrow(result), tl.bfloat16)
        return super().binary_op(lhs, rhs, op)

    # NaN loses against a number unless the kernel asks otherwise. Triton 3.6 lets it win.
    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        """tl.minimum's default."""
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        """tl.maximum's default."""
        return self.binary_op(lhs, rhs, np.fmax)

    def create_clampf(self, arg: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
        """tl.clamp."""
        if propagate_nans == ir.PROPAGATE_NAN.NONE:
            return self.binary_op(self.binary_op(arg, low, np.fmax), high, np.fmin)
        return self.binary_op(self.binary_op(arg, low, np.maximum), high, np.minimum)

    def unary_op(self, arg: Any, op: Any) -> Any:
        """`op`, a numpy ufunc, lane by lane."""
        if is_bfloat16(arg):
            return TensorHandle(narrow(op(widen(arg.data))), tl.bfloat16)
        return super().unary_op(arg, op)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z; in bf16 with one rounding."""
        if not is_bfloat16(z):
            return super().create_fma(x, y, z)
        a, b, c = (widen(handle.data).astype(np.float64) for handle in (x, y, z))
        return TensorHandle(narrow(a * b + c), tl.bfloat16)

    def create_idiv(self, lhs: Any, rhs: Any) -> Any:
        """Integer division towards zero; a masked-off lane may divide by zero, which is undefined on a GPU too."""
        return TensorHandle(super().create_idiv(lhs, rhs).data.astype(lhs.data.dtype), lhs.dtype.scalar)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        """Conversions between numbers, bf16 on either side."""
        target = dst_type.scalar
        if target == tl.bfloat16 and not is_bfloat16(src):
            return TensorHandle(narrow(src.data), tl.bfloat16)
        if is_bfloat16(src) and target != tl.bfloat16:
            return super().cast_impl(TensorHandle(widen(src.data), tl.float32), dst_type)
        return super().cast_impl(src, dst_type)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        """Conversions with a rounding mode, and those of fp8."""
        if dst_type.scalar == tl.bfloat16 and src.dtype == tl.float32:
            round_ = truncate if rounding_mode == ir.ROUNDING_MODE.RTZ else narrow
            return TensorHandle(round_(src.data), tl.bfloat16)
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        """a @ b + d. bf16 operands are exact in fp32, the accumulator is fp32."""
        a, b = (TensorHandle(widen(h.data), tl.float32) if is_bfloat16(h) else h for h in (a, b))
        return super().create_dot(a, b, d, input_precision, max_num_imprecise_acc)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """Atomics. On bf16 Triton has add alone; lanes that share an address add one after another."""
        if not is_bfloat16(val) or op == ir.ATOMIC_OP.XCHG:
            return super().create_atomic_rmw(op, ptr, val, mask, sem, scope)
        addresses, added, active = (np.ravel(x) for x in np.broadcast_arrays(ptr.data, val.data, mask.data))
        before = np.zeros(addresses.shape, np.uint16)
        yes, zero = np.ones(1, bool), np.zeros(1, np.uint16)
        for lane in np.flatnonzero(active):
            address = addresses[lane : lane + 1].copy()
            before[lane] = memory.load(address, yes, zero, np.dtype(np.uint16))[0]
            total = widen(before[lane : lane + 1]) + widen(added[lane : lane + 1])
            memory.store(address, narrow(total), yes)
        return TensorHandle(before.reshape(val.data.shape), tl.bfloat16)


def pairwise_sum(values: Array, axis: int, *, bfloat16: bool) -> Array:
    """Sum along `axis` as a tree of neighbours, each partial sum rounded to the 16-bit type, as `tl.sum` does on a GPU.

    Takes and returns bf16 patterns (uint16) if `bfloat16`, else float16; the summed axis has length 1 in the result. On
    a GPU each thread adds a few elements in a row first, so the last bits differ; the size of the error does not.
    """
    values = np.moveaxis(values, axis, -1)
    while values.shape[-1] > 1:
        left, right = values[..., 0::2], values[..., 1::2]
        values = narrow(widen(left) + widen(right)) if bfloat16 else left + right
    return np.moveaxis(values, -1, axis)
