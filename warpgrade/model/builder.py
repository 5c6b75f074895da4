"""Triton's interpreter with a Watch on every access, and facts that travel with values.

A value's handle has a dict `attr`. Two facts travel in it through pointer arithmetic, broadcasts, reshapes and the
rest: `argument`, which argument a pointer points into (an object array where lanes differ), and `undefined`, which
lanes hold what a masked load without `other` left there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import min_dot_size
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import InterpreterOptions, TensorHandle, _get_np_dtype

from warpgrade.model.bfloat16 import Bfloat16Builder
from warpgrade.model.findings import DeviceAssertion, IntegerOverflow, KernelFault, NotInterpreted, SmallDot
from warpgrade.model.libdevice import calculate
from warpgrade.model.sanitizer import Dot, Undefined, Watch
from warpgrade.wire.messages import FindingKind

Array = npt.NDArray[Any]
_ACQUIRING = (ir.MEM_SEMANTIC.ACQUIRE, ir.MEM_SEMANTIC.ACQUIRE_RELEASE)
_RELEASING = (ir.MEM_SEMANTIC.RELEASE, ir.MEM_SEMANTIC.ACQUIRE_RELEASE)
#: Operations that move lanes about, and how they move an array of per-lane facts.
_MOVES: dict[str, Callable[..., Array]] = {
    "create_expand_dims": lambda lanes, axis: np.expand_dims(lanes, axis),
    "create_broadcast": lambda lanes, shape: np.broadcast_to(lanes, shape),
    "create_reshape": lambda lanes, shape, allow_reorder: lanes.reshape(shape),
    "create_trans": lambda lanes, perm: np.transpose(lanes, perm),
    "create_unsplat": lambda lanes: lanes.reshape(-1)[:1],
    "create_bitcast": lambda lanes, dst_type: lanes,
    "create_int_to_ptr": lambda lanes, dst_type: lanes,
    "create_ptr_to_int": lambda lanes, dst_type: lanes,
}
#: Operations that make each lane of the result from the same lane of the operands.
_LANEWISE = (
    "binary_op", "unary_op", "create_idiv", "create_ashr", "create_umulhi", "create_fma", "create_fabs", "create_erf",
    "create_rsqrt", "create_fp_to_fp", "cast_impl", "create_addptr",
)  # fmt: skip


def _handles(operands: tuple[Any, ...]) -> list[Any]:
    return [operand for operand in operands if type(operand) is TensorHandle and operand.attr]


def _join_undefined(result: Any, operands: list[Any]) -> None:
    found = [handle.attr["undefined"] for handle in operands if "undefined" in handle.attr]
    if found:
        lanes = found[0].lanes
        for other in found[1:]:
            lanes = lanes | other.lanes
        result.attr["undefined"] = Undefined(lanes, found[0].argument, found[0].line)


class Builder(Bfloat16Builder):
    """The builder behind triton.language while a kernel is interpreted. `watch` is that of the running launch."""

    def __init__(self) -> None:
        super().__init__()
        self.options = InterpreterOptions(debug=True)  # device_assert and overflow checks
        self.codegen_fns["min_dot_size"] = min_dot_size(None)
        self.watch: Watch
        #: Whether the tl.load that is being built was given `other`; triton drops a scalar zero.
        self.other_given = False

    def __getattr__(self, name: str) -> Any:
        """What Triton's interpreter has not at all. Raises NotInterpreted for an operation, else AttributeError."""
        if name.startswith(("create_", "get_")):
            raise NotInterpreted(name.removeprefix("create_"))
        raise AttributeError(name)

    # --- memory -------------------------------------------------------------------------------------------------

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *rest: Any, **options: Any) -> Any:
        """tl.load; without `other`, lanes that are masked off are marked undefined."""
        self._check_mask(mask)
        self.watch.access("load", ptrs, mask.data)
        result = super().create_masked_load(ptrs, mask, other, *rest, **options)
        if other is None and not self.other_given and not mask.data.all():
            lanes = ~np.broadcast_to(mask.data, ptrs.data.shape)
            owner = ptrs.attr.get("argument")
            line = self.watch.session.line()
            result.attr["undefined"] = Undefined(lanes, getattr(owner, "name", None), line)
        return result

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        """tl.store."""
        self._check_mask(mask)
        self.watch.access("store", ptrs, mask.data, value)
        return super().create_masked_store(ptrs, value, mask, *rest)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """tl.atomic_add and its like."""
        self._check_mask(mask)
        self.watch.access("atomic", ptr, mask.data, val)
        result = super().create_atomic_rmw(op, ptr, val, mask, sem, scope)
        self.watch.synchronise(ptr, acquire=sem in _ACQUIRING, release=sem in _RELEASING)
        return result

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        """tl.atomic_cas."""
        self.watch.access("atomic", ptr, None, val)
        result = super().create_atomic_cas(ptr, cmp, val, sem, scope)
        self.watch.synchronise(ptr, acquire=sem in _ACQUIRING, release=sem in _RELEASING)
        return result

    def _check_mask(self, mask: Any) -> None:
        if "undefined" in mask.attr:
            self.watch.decide(mask.attr["undefined"])

    # --- functions of libraries -----------------------------------------------------------------------------------

    def create_extern_elementwise(
        self, library: str, path: str, symbol: str, operands: list[Any], result: Any, is_pure: bool
    ) -> Any:
        """`libdevice.tanh(x)` and the like. Raises NotInterpreted for what is not in model/libdevice.py."""
        data = calculate(symbol, [operand.data for operand in operands])
        handle = TensorHandle(data.astype(_get_np_dtype(result.scalar)), result.scalar)
        _join_undefined(handle, _handles(tuple(operands)))
        return handle

    # --- faults -------------------------------------------------------------------------------------------------

    def create_assert(self, condition: Any, message: str) -> None:
        """tl.device_assert. Raises DeviceAssertion."""
        if not condition.data.all():
            lanes = f"{np.count_nonzero(~condition.data)} of {condition.data.size} lanes"
            raise self.fault(DeviceAssertion, "device_assert", f"{message}: {lanes}" if message else lanes)

    def create_assume(self, condition: Any) -> None:
        """tl.assume. Raises DeviceAssertion."""
        self.create_assert(condition, "tl.assume")

    def fault(self, error: type[KernelFault], kind: FindingKind, detail: str) -> KernelFault:
        """A fault at the student's line, kept in the session, to be raised."""
        return self.watch.session.fault(error(self.watch.finding(kind, "compute", None, None, detail)))

    # --- facts --------------------------------------------------------------------------------------------------

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        """A scalar becomes a block."""
        return self._moved(super().create_splat(ret_ty, arg), arg, lambda lanes: np.broadcast_to(lanes, ret_ty.shape))

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        """Only tl.where comes here: a lane has the facts of the side that it was taken from."""
        result = super().ternary_op(lhs, rhs, other, op)
        if not (lhs.attr or rhs.attr or other.attr):
            return result
        owners = [handle.attr.get("argument") for handle in (rhs, other)]
        if any(owner is not None for owner in owners):
            same = owners[0] is owners[1]
            result.attr["argument"] = owners[0] if same else np.where(lhs.data, *map(_boxed, owners))
        marked = next((h.attr["undefined"] for h in (lhs, rhs, other) if "undefined" in h.attr), None)
        if marked is not None:
            sides = [handle.attr["undefined"].lanes if "undefined" in handle.attr else False for handle in (rhs, other)]
            lanes = np.where(lhs.data, *sides)
            if "undefined" in lhs.attr:
                lanes = lanes | lhs.attr["undefined"].lanes
            if np.any(lanes):
                result.attr["undefined"] = Undefined(lanes, marked.argument, marked.line)
        return result

    def create_and(self, lhs: Any, rhs: Any) -> Any:
        """A lane with no bit set on a defined side is defined: `(x > 0) & (offsets < n)`."""
        return self._decided(super().create_and(lhs, rhs), lhs, rhs, lambda data: data != 0)

    def create_or(self, lhs: Any, rhs: Any) -> Any:
        """A lane with all bits set on a defined side is defined: `(x > 0) | (offsets >= n)`."""
        return self._decided(super().create_or(lhs, rhs), lhs, rhs, lambda data: ~data != 0)

    def _decided(self, result: Any, lhs: Any, rhs: Any, open_lanes: Callable[[Array], Array]) -> Any:
        """Without the mark on lanes that one defined side decides; `open_lanes` are those that it does not."""
        if "undefined" in result.attr:
            undefined = result.attr.pop("undefined")
            lanes = undefined.lanes
            for handle in (lhs, rhs):
                unsure = handle.attr["undefined"].lanes if "undefined" in handle.attr else False
                lanes = lanes & (open_lanes(handle.data) | unsure)
            if np.any(lanes):
                result.attr["undefined"] = Undefined(lanes, undefined.argument, undefined.line)
        return result

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        """tl.dot: garbage in a row of `a` or a column of `b` spoils that row or column of the result."""
        result = super().create_dot(a, b, d, input_precision, max_num_imprecise_acc)
        if a.attr or b.attr or d.attr:
            for handle, axis in ((a, -1), (b, -2)):
                if "undefined" in handle.attr:
                    undefined = handle.attr["undefined"]
                    lanes = np.broadcast_to(undefined.lanes, handle.data.shape)
                    lanes = np.asarray(lanes.any(axis=axis, keepdims=True))
                    _join_undefined(result, [result, _marked(lanes, undefined)])
            _join_undefined(result, [result, d])
        return result

    def create_cat(self, lhs: Any, rhs: Any) -> Any:
        """tl.cat."""
        return self._gathered(super().create_cat(lhs, rhs), (lhs, rhs), lambda lanes: np.concatenate(lanes))

    def create_join(self, lhs: Any, rhs: Any) -> Any:
        """tl.join."""
        return self._gathered(super().create_join(lhs, rhs), (lhs, rhs), lambda lanes: np.stack(lanes, axis=-1))

    def create_split(self, val: Any) -> Any:
        """tl.split."""
        first, second = super().create_split(val)
        return (
            self._moved(first, val, lambda lanes: np.broadcast_to(lanes, val.data.shape)[..., 0]),
            self._moved(second, val, lambda lanes: np.broadcast_to(lanes, val.data.shape)[..., 1]),
        )

    def create_gather(self, src: Any, indices: Any, axis: int) -> Any:
        """tl.gather."""

        def take(lanes: Array) -> Array:
            return np.take_along_axis(np.broadcast_to(lanes, src.data.shape), indices.data, axis=axis)

        return self._moved(super().create_gather(src, indices, axis), src, take)

    def _moved(self, result: Any, source: Any, move: Callable[[Array], Array]) -> Any:
        if source.attr:
            owner = source.attr.get("argument")
            if owner is not None:
                result.attr["argument"] = move(owner) if isinstance(owner, np.ndarray) else owner
            if "undefined" in source.attr:
                undefined = source.attr["undefined"]
                lanes = move(np.broadcast_to(undefined.lanes, source.data.shape))
                if lanes.any():
                    result.attr["undefined"] = Undefined(lanes, undefined.argument, undefined.line)
        return result

    def _gathered(self, result: Any, sources: tuple[Any, ...], move: Callable[[list[Array]], Array]) -> Any:
        if any("undefined" in source.attr for source in sources):
            marked = next(source.attr["undefined"] for source in sources if "undefined" in source.attr)
            lanes = [
                np.broadcast_to(s.attr["undefined"].lanes if "undefined" in s.attr else False, s.data.shape)
                for s in sources
            ]
            result.attr["undefined"] = Undefined(move(lanes), marked.argument, marked.line)
        if any("argument" in source.attr for source in sources):
            owners = [np.broadcast_to(_boxed(source.attr.get("argument")), source.data.shape) for source in sources]
            result.attr["argument"] = move(owners)
        return result


def _boxed(owner: Any) -> Array:
    """An owner as an array of objects that broadcasts."""
    if isinstance(owner, np.ndarray):
        return owner
    box = np.empty(1, object)
    box[0] = owner
    return box


def _marked(lanes: Array, undefined: Undefined) -> Any:
    return TensorHandle(lanes, tl.int1, {"undefined": Undefined(lanes, undefined.argument, undefined.line)})


def _carrying_lanewise(name: str) -> Callable[..., Any]:
    base = getattr(Bfloat16Builder, name)

    def method(self: Builder, *operands: Any) -> Any:
        result = base(self, *operands)
        marked = _handles(operands)
        if marked:
            if operands[0].dtype.is_ptr() and "argument" in operands[0].attr:
                result.attr["argument"] = operands[0].attr["argument"]
            _join_undefined(result, marked)
        return result

    return method


def _carrying_moves(name: str, move: Callable[..., Array]) -> Callable[..., Any]:
    base = getattr(Bfloat16Builder, name)

    def method(self: Builder, arg: Any, *how: Any) -> Any:
        return self._moved(base(self, arg, *how), arg, lambda lanes: move(lanes, *how))

    return method


for _name in _LANEWISE:
    setattr(Builder, _name, _carrying_lanewise(_name))
for _name, _move in _MOVES.items():
    setattr(Builder, _name, _carrying_moves(_name, _move))


class Semantic(TritonSemantic):  # type: ignore[misc]
    """Triton's meaning of triton.language, with faster overflow checks and a look at every dot."""

    builder: Builder

    def load(self, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
        """tl.load."""
        self.builder.other_given = other is not None
        return super().load(ptr, mask, other, *rest)

    def binary_op_sanitize_overflow_impl(self, lhs: Any, rhs: Any, binary_op: Any) -> None:
        """Raise IntegerOverflow if + - * of signed integers under 64 bits leaves their type.

        Unsigned integers wrap by definition: hashes and random numbers rely on it.
        """
        dtype = lhs.type.scalar
        if dtype.int_bitwidth >= 64 or not dtype.is_int_signed() or dtype.is_bool():
            return
        a, b = lhs.handle.data.astype(np.int64), rhs.handle.data.astype(np.int64)
        name = binary_op.__name__
        result = a + b if name == "add" else a - b if name == "sub" else a * b
        limit = 1 << (dtype.int_bitwidth - 1)
        if int(result.max()) < limit and int(result.min()) >= -limit:
            return
        outside = (result >= limit) | (result < -limit)
        symbol = {"add": "+", "sub": "-", "mul": "*"}[name]
        x, y = (int(np.broadcast_to(v, outside.shape)[outside][0]) for v in (a, b))
        raise self.builder.fault(IntegerOverflow, "overflow", f"{x} {symbol} {y} does not fit {dtype}")

    def dot(self, lhs: Any, rhs: Any, acc: Any, input_precision: Any, *rest: Any) -> Any:
        """tl.dot. Raises SmallDot for tiles that the CUDA backend refuses; records the precision."""
        watch = self.builder.watch
        m, k = (int(n) for n in lhs.type.shape[-2:])
        n = int(rhs.type.shape[-1])
        least = min_dot_size(None)(lhs.type, rhs.type) if lhs.dtype == rhs.dtype else (1, 1, 1)
        if m < least[0] or n < least[1] or k < least[2]:
            raise self.builder.fault(
                SmallDot, "small_dot", f"M, N, K are {m}, {n}, {k}; at least {', '.join(map(str, least))}"
            )
        precision = input_precision or self.builder.options.default_dot_input_precision
        watch.launch.dots.add(Dot(m, n, k, str(lhs.dtype), str(precision).lower(), watch.session.line()))
        return super().dot(lhs, rhs, acc, input_precision, *rest)


builder = Builder()
semantic = Semantic(builder)
