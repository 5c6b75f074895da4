"""Values and tensors there and back, and what a hostile Worker may announce."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from warpgrade.wire import WireError
from warpgrade.wire.messages import (
    Call,
    DictValue,
    FloatValue,
    IntValue,
    Returned,
    TensorSpec,
    TupleValue,
    Value,
)
from warpgrade.wire.tensors import (
    ALIGNMENT_BYTES,
    DTYPES,
    MARGIN_BYTES,
    Handle,
    Other,
    ResultPacker,
    ReturnedTensor,
    contiguous_strides,
    pack_arguments,
    span_elements,
    unpack,
    unpack_returned,
)


def bits(tensor: torch.Tensor) -> bytes:
    fresh = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return bytes(fresh.view(torch.uint8).numpy())


def there(*arguments: Any) -> tuple[list[Any], Any]:
    """What a Worker's function would be given, by way of JSON; and what was packed."""
    packed = pack_arguments({f"a{i}": value for i, value in enumerate(arguments)}, {})
    call = msgspec.json.decode(msgspec.json.encode(Call("f", packed.arguments, packed.keywords)), type=Call)
    buffer = torch.empty(len(packed.payload), dtype=torch.uint8)
    if packed.payload:
        buffer.copy_(torch.frombuffer(packed.payload, dtype=torch.uint8))
    return [unpack(value, buffer, []) for value in call.arguments], packed


def back(result: Any) -> Any:
    packer = ResultPacker(0, [], max_bytes=1 << 28)
    returned = Returned(packer.value(result), 0, [], 0)
    payload = bytearray(packer.end_bytes)
    for start, block in packer.blocks:
        payload[start : start + len(block)] = block
    return unpack_returned(
        msgspec.json.decode(msgspec.json.encode(returned), type=Returned).value, payload, offset_bytes=0
    )


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """A view of random bits: any dtype, sliced, transposed, expanded, misaligned, empty or without dimensions."""
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    count = math.prod(shape)
    seed = draw(st.integers(0, 2**31))
    raw = torch.randint(0, 256, ((count + 3) * 8,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    flat = raw.view(dtype) if dtype != torch.bool else raw > 127
    start = draw(st.integers(0, 2))
    tensor = flat[start : start + count].view(shape)
    for dim in range(tensor.dim()):
        step = draw(st.integers(1, 3))
        tensor = tensor[(slice(None),) * dim + (slice(None, None, step),)]
    if tensor.dim():
        tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(draw(st.integers(0, 3)), *tensor.shape)
    return tensor


@settings(max_examples=120, deadline=None)
@given(tensors())
def test_an_argument_arrives_with_its_bits_strides_and_alignment(tensor: torch.Tensor) -> None:
    (arrived,), packed = there(tensor)
    assert (arrived.dtype, arrived.shape, arrived.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert bits(arrived) == bits(tensor)
    if tensor.numel():
        storage_offset = tensor.storage_offset() * tensor.element_size()
        assert packed.tensors["a0"].offset_bytes % ALIGNMENT_BYTES == storage_offset % ALIGNMENT_BYTES
        (region,) = packed.regions
        assert region.start_bytes >= MARGIN_BYTES
        assert len(packed.payload) - region.stop_bytes >= MARGIN_BYTES


@settings(max_examples=120, deadline=None)
@given(tensors())
def test_a_result_comes_home_with_its_bits_and_strides(tensor: torch.Tensor) -> None:
    home = back(tensor)
    assert isinstance(home, ReturnedTensor)
    assert (home.tensor.dtype, home.tensor.shape, home.strides) == (tensor.dtype, tensor.shape, tensor.stride())
    assert bits(home.tensor) == bits(tensor)


def test_views_of_one_storage_still_share_it() -> None:
    base = torch.arange(20, dtype=torch.float32)
    (one, other), packed = there(base[2:12], base[8:18])
    one[6] = -1.0
    assert other[0] == -1.0
    assert len(packed.regions) == 1
    assert packed.regions[0].stop_bytes - packed.regions[0].start_bytes == 16 * 4


def test_expanded_arguments_stay_one_element() -> None:
    (arrived,), packed = there(torch.tensor([7.0]).expand(1000))
    assert arrived.stride() == (0,)
    assert packed.regions[0].stop_bytes - packed.regions[0].start_bytes == 4


def test_margins_are_fresh_each_time() -> None:
    x = torch.zeros(3)
    one, other = (pack_arguments({"x": x}, {}).payload for _ in range(2))
    assert one[:MARGIN_BYTES] != other[:MARGIN_BYTES]


scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


@settings(max_examples=120, deadline=None)
@given(scalars)
@example(2**63 - 1)
@example(-(2**63))
@example(-0.0)
@example(float("nan"))
@example(float("-inf"))
@example(5e-324)
@example(1.7976931348623157e308)
def test_scalars_travel_exactly_both_ways(value: Any) -> None:
    assert same(there(value)[0][0], value)
    assert same(back(value), value)


@settings(max_examples=50, deadline=None)
@given(st.lists(scalars, max_size=32))
def test_tuples_lists_and_dicts_of_scalars(values: list[Any]) -> None:
    assert all(map(same, there(values)[0][0], values))
    home = back(values)
    assert isinstance(home, tuple)
    assert all(map(same, home, values))
    assert list(back({f"k{i}": value for i, value in enumerate(values)})) == [f"k{i}" for i in range(len(values))]


@pytest.mark.parametrize(
    "value", [None, 2**63, -(2**63) - 1, object(), b"bytes", 1j, torch.zeros(2, dtype=torch.complex64)]
)
def test_what_may_not_be_sent_is_the_suites_mistake(value: Any) -> None:
    with pytest.raises(TypeError):
        pack_arguments({"x": value}, {})


@pytest.mark.parametrize(
    ("value", "name"),
    [(2**64, "int"), ("text", "str"), (b"bytes", "bytes"), ((i for i in ()), "generator"), (1j, "complex"),
     ([[1]], None), ([0] * 33, "list"), ({1: 2}, "dict"),
     (torch.zeros(2).to_sparse(), "torch.sparse_coo tensor of torch.float32"),
     (torch.zeros(2, dtype=torch.complex64), "torch.strided tensor of torch.complex64"), (torch.zeros([1] * 9), None)],
)  # fmt: skip
def test_a_result_that_may_not_cross_is_named_only(value: Any, name: str | None) -> None:
    home = back(value)
    home = home[0] if isinstance(home, tuple) else home
    assert isinstance(home, Other)
    assert name is None or home.type_name == name


def test_functions_stay_and_are_numbered() -> None:
    kept: list[Any] = []
    packer = ResultPacker(0, kept, max_bytes=100)
    packer.value((len, max))
    assert kept == [len, max]
    assert back(len) == Handle(0)


def test_a_result_larger_than_allowed_is_not_copied() -> None:
    with pytest.raises(OverflowError):
        ResultPacker(0, [], max_bytes=1000).value(torch.zeros(1).expand(10**9))


@given(st.lists(st.integers(0, 6), max_size=5))
def test_strides_as_torch_has_them(shape: list[int]) -> None:
    assert contiguous_strides(shape) == list(torch.empty(shape).stride())


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7)), max_size=4))
def test_a_span_is_what_the_indices_reach(dims: list[tuple[int, int]]) -> None:
    reached = {0}
    for size, stride in dims:
        reached = {place + i * stride for place in reached for i in range(size)}
    assert span_elements([d[0] for d in dims], [d[1] for d in dims]) == max(reached) + 1


# --- what a hostile Worker may announce -----------------------------------------------------------------------------


def spec(
    dtype: str = "float32", shape: list[int] | None = None, offset: int = 0, strides: list[int] | None = None
) -> TensorSpec:
    shape = [4] if shape is None else shape
    return TensorSpec(dtype, shape, [1] * len(shape) if strides is None else strides, offset)


BIG = 2**53
HOSTILE: dict[str, Value] = {
    "unknown dtype": spec("complex128"),
    "a dtype that is another attribute of torch": spec("save"),
    "longer than the payload": spec(shape=[17]),
    "begins after the payload": spec(offset=64),
    "ends after the payload": spec(offset=52),
    "begins far after the payload": spec(offset=BIG - 4),
    "begins between elements": spec(offset=2),
    "a shape beyond 64 bits": spec(shape=[BIG] * 8),
    "a shape beyond 64 bits that is empty": spec(shape=[BIG, BIG, 0]),
    "empty first and then beyond 64 bits": spec(shape=[0, BIG, BIG]),
    "a product that wraps to a small one": spec(shape=[2**32, 2**32, 2]),
    "more strides than sizes": spec(strides=[1, 1]),
    "fewer strides than sizes": spec(shape=[2, 2], strides=[1]),
    "the same bytes twice": TupleValue([spec(shape=[16]), spec(shape=[16])]),
    "the same bytes 32 times by name": DictValue({str(i): spec(shape=[16]) for i in range(32)}),
    "a float beyond float64": FloatValue("0x1.0p+9999"),
    "an int beyond 64 bits": IntValue("9999999999999999999"),
    "a negative int beyond 64 bits": IntValue("-9999999999999999999"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_announcement_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(WireError):
        unpack_returned(HOSTILE[name], bytearray(64), offset_bytes=0)


def test_a_result_among_the_arguments_is_refused() -> None:
    with pytest.raises(WireError, match="among the arguments"):
        unpack_returned(spec(offset=60, shape=[1]), bytearray(128), offset_bytes=64)
    with pytest.raises(WireError):
        unpack_returned(IntValue("1"), bytearray(10), offset_bytes=11)


def test_announcements_cannot_multiply_memory() -> None:
    payload = bytearray(8 << 20)
    with pytest.raises(WireError, match="overlap"):
        unpack_returned(TupleValue([spec("uint8", [len(payload)])] * 32), payload, offset_bytes=0)


def test_bools_are_zero_or_one_whatever_came() -> None:
    home = unpack_returned(spec("bool"), bytearray([0, 1, 2, 255]), offset_bytes=0)
    assert bytes(home.tensor.view(torch.uint8).numpy()) == bytes([0, 1, 1, 1])


counts = st.integers(0, 9) | st.integers(0, 2**53) | st.sampled_from([2**31, 2**32, 2**53])
leaves = st.one_of(
    st.builds(TensorSpec, st.sampled_from([*DTYPES, "quint8", "x"]), st.lists(counts, max_size=8),
              st.lists(counts, max_size=8), counts),
    st.builds(IntValue, st.from_regex(r"\A-?[0-9]{1,19}\Z")),
    st.builds(FloatValue, st.from_regex(r"\A(-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}|-?inf|nan)\Z")),
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(leaves | st.builds(TupleValue, st.lists(leaves, max_size=32)), st.integers(0, 200), st.integers(0, 210))
def test_whatever_is_announced_is_unpacked_or_refused(value: Value, length: int, offset: int) -> None:
    with contextlib.suppress(WireError):
        unpack_returned(value, bytearray(length), offset_bytes=offset)
