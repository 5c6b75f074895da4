"""Tensors and other values to wire values and back.

The Judge packs a call's arguments into one payload with `pack_arguments`: each storage lies between two margins of
fresh random bytes (canaries), with the strides, gaps, aliasing and misalignment that the test gave it. The Worker
turns the payload into tensors with `unpack`, in place, calls, and sends the whole payload back with the results behind
it. So one comparison of bytes in the Judge sees a changed input, a write beside a buffer, and the in-out arguments.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch

from warpgrade.wire.channel import WireError
from warpgrade.wire.messages import (
    ITEMSIZE_BYTES,
    BoolValue,
    DictValue,
    FloatValue,
    HandleValue,
    IntValue,
    Leaf,
    NoneValue,
    OtherValue,
    TensorSpec,
    TextValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

ALIGNMENT_BYTES = 64
#: On each side of each storage. An unmasked store of a block of 1024 float64 elements ends inside it.
MARGIN_BYTES = 8192

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEMSIZE_BYTES}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Handle:
    """An object that the Worker keeps; the Judge knows it by number and may call it."""

    number: int


@dataclass(frozen=True)
class Other:
    """A returned object that may not cross the wire; `type_name` is what the Worker says it was."""

    type_name: str


# --- spans --------------------------------------------------------------------------------------------------------


def span_elements(shape: tuple[int, ...] | list[int], strides: tuple[int, ...] | list[int]) -> int:
    """Elements from the first to the last one that a view with this shape and these strides touches; 0 if empty."""
    if any(size == 0 for size in shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def view(buffer: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """The tensor that `spec` describes inside `buffer` (1-D uint8). Raises WireError if it would leave it."""
    dtype = DTYPES.get(spec.dtype)
    if dtype is None:
        raise WireError(f"dtype {spec.dtype!r} may not cross")
    if len(spec.shape) != len(spec.strides):
        raise WireError(f"{len(spec.shape)} sizes but {len(spec.strides)} strides")
    itemsize = ITEMSIZE_BYTES[spec.dtype]
    # torch counts elements in 64 bits, also where a size of 0 makes the product 0 in the end.
    if math.prod(max(size, 1) for size in spec.shape) >= 2**63:
        raise WireError(f"the sizes {spec.shape} have no product in 64 bits")
    if spec.offset_bytes % itemsize:
        raise WireError(f"offset {spec.offset_bytes} is no multiple of the itemsize {itemsize}")
    end = spec.offset_bytes + span_elements(spec.shape, spec.strides) * itemsize
    if end > buffer.numel():
        raise WireError(f"a tensor ends at byte {end} of a payload of {buffer.numel()}")
    usable = buffer[: buffer.numel() - buffer.numel() % itemsize].view(dtype)
    return torch.as_strided(usable, spec.shape, spec.strides, spec.offset_bytes // itemsize)


# --- the Judge's side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """Where one storage lies in a payload, without its margins."""

    start_bytes: int
    stop_bytes: int
    names: tuple[str, ...]  # of the arguments that live in it


@dataclass
class PackedArguments:
    """A call's arguments as wire values, and the payload that they point into. `tensors` is by argument name."""

    arguments: list[Value]
    keywords: dict[str, Value]
    payload: bytearray
    regions: list[Region]
    tensors: dict[str, TensorSpec]


@dataclass
class _Storage:
    low_bytes: int
    high_bytes: int
    keep: torch.Tensor  # any tensor on it, to read its bytes through
    names: list[str] = field(default_factory=list)
    start_bytes: int = 0  # of low_bytes, in the payload


def pack_arguments(arguments: dict[str, Any], keywords: dict[str, Any]) -> PackedArguments:
    """Pack positional (in order, by name) and keyword arguments: CPU tensors, numbers, strings, dicts or tuples.

    Raises TypeError for anything else: it is the suite's mistake, and must not become the student's.
    """
    storages: dict[int, _Storage] = {}
    for name, value in (*arguments.items(), *keywords.items()):
        for tensor in _tensors_of(value):
            _note_storage(storages, name, tensor)
    length = 0
    for storage in storages.values():
        # The distance of the first element from an aligned address is kept, so that a misaligned view stays one.
        length = _align(length + MARGIN_BYTES) + storage.low_bytes % ALIGNMENT_BYTES
        storage.start_bytes = length
        length += storage.high_bytes - storage.low_bytes
    length = _align(length + MARGIN_BYTES) if storages else 0
    payload = bytearray(os.urandom(length))
    regions: list[Region] = []
    for storage in storages.values():
        raw = _raw_bytes(storage.keep)[storage.low_bytes : storage.high_bytes]
        stop = storage.start_bytes + len(raw)
        payload[storage.start_bytes : stop] = raw
        regions.append(Region(storage.start_bytes, stop, tuple(storage.names)))
    specs: dict[str, TensorSpec] = {}

    def to_value(name: str, value: Any) -> Value:
        if isinstance(value, (tuple, list)):
            return TupleValue([to_leaf(name, item) for item in value])
        if isinstance(value, dict):
            return DictValue({str(key): to_leaf(name, item) for key, item in value.items()})
        return to_leaf(name, value)

    def to_leaf(name: str, value: Any) -> Leaf:
        if isinstance(value, torch.Tensor):
            storage = storages[value.untyped_storage().data_ptr()] if value.numel() else None
            offset = 0
            if storage is not None:
                offset = storage.start_bytes + _first_byte(value) - storage.low_bytes
            spec = TensorSpec(DTYPE_NAMES[value.dtype], list(value.shape), list(value.stride()), offset)
            specs.setdefault(name, spec)
            return spec
        scalar = scalar_to_leaf(value)
        if scalar is not None:
            return scalar
        if isinstance(value, str):
            return TextValue(value)
        if isinstance(value, Handle):
            return HandleValue(value.number)
        raise TypeError(f"argument {name!r}: a {type(value).__name__} cannot be sent to a submission")

    return PackedArguments(
        [to_value(name, value) for name, value in arguments.items()],
        {name: to_value(name, value) for name, value in keywords.items()},
        payload,
        regions,
        specs,
    )


def unpack_returned(value: Value, payload: bytearray, *, offset_bytes: int) -> Any:
    """A returned value in the Judge's private memory: tensors (contiguous copies), numbers, tuples, dicts, `Other`.

    A tensor keeps the strides that the Worker announced as the attribute-free second value of `ReturnedTensor`.
    Raises WireError where the announcement does not fit the payload, or where its tensors together have more bytes than
    came: 32 tensors that are all the same gigabyte would be 32 gigabytes here.
    """
    buffer = torch.frombuffer(payload, dtype=torch.uint8) if payload else torch.empty(0, dtype=torch.uint8)
    if offset_bytes > buffer.numel():
        raise WireError("the results begin after the end of the payload")
    left_bytes = buffer.numel() - offset_bytes

    def leaf(item: Leaf) -> Any:
        nonlocal left_bytes
        if isinstance(item, TensorSpec):
            if len(item.shape) != len(item.strides):
                raise WireError(f"{len(item.shape)} sizes but {len(item.strides)} strides")
            contiguous = TensorSpec(item.dtype, item.shape, contiguous_strides(item.shape), item.offset_bytes)
            if item.offset_bytes < offset_bytes:
                raise WireError("a returned tensor lies among the arguments")
            tensor = view(buffer, contiguous)
            left_bytes -= tensor.numel() * tensor.element_size()
            if left_bytes < 0:
                raise WireError("the returned tensors overlap")
            # A bool is any byte on the wire, and 0 or 1 in torch.
            private = tensor.view(torch.uint8) != 0 if tensor.dtype == torch.bool else tensor.clone()
            return ReturnedTensor(private, tuple(item.strides))
        return leaf_to_python(item)

    if isinstance(value, TupleValue):
        return tuple(leaf(item) for item in value.items)
    if isinstance(value, DictValue):
        return {name: leaf(item) for name, item in value.items.items()}
    return leaf(value)


@dataclass(frozen=True)
class ReturnedTensor:
    """What came back: the elements, contiguous, and the strides (in elements) that the student's tensor had."""

    tensor: torch.Tensor
    strides: tuple[int, ...]


def contiguous_strides(shape: tuple[int, ...] | list[int]) -> list[int]:
    """Row-major strides in elements, as `torch.empty(shape).stride()` has them."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return strides


# --- the Worker's side ----------------------------------------------------------------------------------------------


def unpack(value: Value, buffer: torch.Tensor, handles: list[Any]) -> Any:
    """An argument, its tensors being views of `buffer` (uint8, writable)."""

    def leaf(item: Leaf) -> Any:
        if isinstance(item, TensorSpec):
            return view(buffer, item)
        if isinstance(item, HandleValue):
            return handles[item.handle]
        return leaf_to_python(item)

    if isinstance(value, TupleValue):
        return tuple(leaf(item) for item in value.items)
    if isinstance(value, DictValue):
        return {name: leaf(item) for name, item in value.items.items()}
    return leaf(value)


class ResultPacker:
    """Collects what a function returned: wire values, and the bytes of their tensors."""

    def __init__(self, offset_bytes: int, handles: list[Any], *, max_bytes: int) -> None:
        self._end_bytes = offset_bytes
        self._handles = handles
        self._max_bytes = max_bytes
        self.blocks: list[tuple[int, memoryview]] = []

    @property
    def end_bytes(self) -> int:
        """Length of the whole payload so far."""
        return self._end_bytes

    def value(self, value: Any) -> Value:
        """The wire value of anything a function may return. Raises OverflowError above `max_bytes`."""
        if isinstance(value, (tuple, list)) and len(value) <= 32:
            return TupleValue([self._leaf(item) for item in value])
        if isinstance(value, dict) and len(value) <= 32 and all(isinstance(key, str) and key for key in value):
            return DictValue({key[:128]: self._leaf(item) for key, item in value.items()})
        return self._leaf(value)

    def _leaf(self, value: Any) -> Leaf:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        scalar = scalar_to_leaf(value)
        if scalar is not None:
            return scalar
        if value is None:
            return NoneValue()
        if callable(value) and len(self._handles) < 100:
            self._handles.append(value)
            return HandleValue(len(self._handles) - 1)
        return OtherValue((type(value).__name__ or "object")[:128])

    def _tensor(self, tensor: torch.Tensor) -> Leaf:
        plain = tensor.layout == torch.strided and tensor.dtype in DTYPE_NAMES and tensor.dim() <= 8
        if not plain:
            return OtherValue(f"{tensor.layout} tensor of {tensor.dtype}"[:128])
        length = tensor.numel() * tensor.element_size()
        start = _align(self._end_bytes)
        if start + length > self._max_bytes:
            raise OverflowError(f"the result has {length} bytes; at most {self._max_bytes} may be returned")
        contiguous = _on_the_cpu(tensor.detach()).contiguous()
        if length:
            first = contiguous.storage_offset() * contiguous.element_size()  # `contiguous` may be a view of more
            self.blocks.append((start, _raw_bytes(contiguous)[first : first + length]))
        self._end_bytes = start + length
        return TensorSpec(DTYPE_NAMES[tensor.dtype], list(tensor.shape), list(tensor.stride()), start)


def _on_the_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, with its strides. One on a GPU is copied as it lies there: to gather it takes a kernel."""
    if not tensor.numel() or not tensor.is_cuda:
        return tensor.cpu()
    span = torch.as_strided(tensor, (span_elements(tensor.shape, tensor.stride()),), (1,), tensor.storage_offset())
    return torch.as_strided(span.cpu(), tensor.shape, tensor.stride())


# --- both -----------------------------------------------------------------------------------------------------------


def scalar_to_leaf(value: Any) -> Leaf | None:
    """The wire value of a bool, an int of 64 bits or a float; None for anything else."""
    if isinstance(value, bool):
        return BoolValue(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return IntValue(str(int(value)))
    if isinstance(value, float):
        return FloatValue("nan" if math.isnan(value) else float(value).hex())
    return None


def leaf_to_python(item: Leaf) -> Any:
    """The Python object of a leaf that is no tensor. Raises WireError for a number that no Worker of ours sends."""
    if isinstance(item, IntValue):
        number = int(item.value)
        if not -(2**63) <= number < 2**63:
            raise WireError("an int of more than 64 bits")
        return number
    if isinstance(item, FloatValue):
        try:
            return float.fromhex(item.hex)
        except OverflowError as error:
            raise WireError("a float beyond float64") from error
    if isinstance(item, (BoolValue, TextValue)):
        return item.value
    if isinstance(item, HandleValue):
        return Handle(item.handle)
    if isinstance(item, OtherValue):
        return Other(item.type_name)
    return None


def _align(count: int) -> int:
    return -(-count // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _raw_bytes(tensor: torch.Tensor) -> memoryview:
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    return memoryview(cast("Buffer", whole.numpy()))


def _first_byte(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _tensors_of(value: Any) -> list[torch.Tensor]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else (value,)
    return [item for item in items if isinstance(item, torch.Tensor)]


def _note_storage(storages: dict[int, _Storage], name: str, tensor: torch.Tensor) -> None:
    if tensor.dtype not in DTYPE_NAMES or tensor.device.type != "cpu":
        raise TypeError(f"argument {name!r}: a {tensor.dtype} tensor on {tensor.device} cannot be sent")
    if not tensor.numel():
        return
    low = _first_byte(tensor)
    high = low + span_elements(tensor.shape, tensor.stride()) * tensor.element_size()
    storage = storages.setdefault(tensor.untyped_storage().data_ptr(), _Storage(low, high, tensor))
    storage.low_bytes, storage.high_bytes = min(storage.low_bytes, low), max(storage.high_bytes, high)
    storage.names.append(name)
