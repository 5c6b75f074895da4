"""What a session records: traffic, launches, dots, and findings in the cases between right and wrong."""

import gc
import weakref

import pytest
import torch
import triton
import triton.language as tl

from warpgrade.model.findings import Finding, IntegerOverflow, OutOfBounds, SmallDot
from warpgrade.model.interpreter import interpreting
from warpgrade.model.sanitizer import Dot, Session, TensorFacts


@triton.jit
def copy(x, out, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets * STEP, mask=offsets < n, other=0)
    tl.store(out + offsets, value, mask=offsets < n)


def aligned(elements, dtype=torch.float32):
    """A tensor whose first element begins a sector (torch aligns to 64 bytes)."""
    tensor = torch.ones(elements, dtype=dtype)
    assert tensor.data_ptr() % 32 == 0
    return tensor


# --- traffic ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "dtype", "efficiency"), [
    (1, torch.float32, 1.0), (2, torch.float32, 1 / 2), (4, torch.float32, 1 / 4), (8, torch.float32, 1 / 8), (32, torch.float32, 1 / 8),
    (1, torch.float16, 1.0), (2, torch.float16, 1 / 2), (16, torch.float16, 1 / 16), (1, torch.int8, 1.0), (32, torch.int8, 1 / 32), (1, torch.float64, 1.0), (4, torch.float64, 1 / 4),
])  # fmt: skip
def test_sectors_of_strided_loads(clean, step, dtype, efficiency):
    copy[(4,)](aligned(1024 * step, dtype), aligned(1024, dtype), 1024, STEP=step, BLOCK=256)
    traffic = clean.launches[0].traffic
    item_bytes = torch.empty(0, dtype=dtype).element_size()
    assert (traffic["x"].loads, traffic["x"].bytes_loaded, traffic["x"].bytes_stored) == (4, 1024 * item_bytes, 0)
    assert (traffic["out"].stores, traffic["out"].bytes_stored, traffic["out"].bytes_loaded) == (
        4,
        1024 * item_bytes,
        0,
    )
    assert traffic["x"].load_efficiency == efficiency
    assert traffic["out"].store_efficiency == 1.0


def test_lanes_that_are_masked_off_move_nothing(clean):
    copy[(2,)](aligned(72), aligned(72), 72, STEP=1, BLOCK=64)
    traffic = clean.launches[0].traffic
    assert (traffic["x"].bytes_loaded, traffic["x"].sectors_loaded) == (72 * 4, 9)
    total = clean.launches[0].total_traffic
    assert (total.bytes_loaded, total.bytes_stored, total.loads, total.stores) == (288, 288, 2, 2)


def test_a_misaligned_view_touches_a_sector_more_for_each_warp(clean):
    copy[(1,)](aligned(65)[1:], aligned(64), 64, STEP=1, BLOCK=64)
    # 32 lanes of 4 bytes that start 4 bytes into a sector touch 5 sectors.
    assert clean.launches[0].traffic["x"].sectors_loaded == 2 * 5


@triton.jit
def broadcast_row(x, out, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    value = tl.load(x + columns[None, :] + 0 * rows[:, None])
    one = tl.load(x)
    tl.store(out + rows[:, None] * BN + columns[None, :], value * one)


def test_an_address_that_lanes_share_counts_once(clean):
    broadcast_row[(1,)](aligned(16), aligned(64), BM=4, BN=16)
    traffic = clean.launches[0].traffic["x"]
    # Two warps of two rows each: 16 elements in 2 sectors, each; and the scalar: 4 bytes, 1 sector.
    assert (traffic.loads, traffic.bytes_loaded, traffic.sectors_loaded) == (2, 2 * 64 + 4, 2 * 2 + 1)


@triton.jit
def columns_of_rows(x, out, N: tl.constexpr, ALONG: tl.constexpr):
    first, second = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(
        out + first * N + second, tl.load(x + first + second * N) if ALONG else tl.load(x + 2 * first + second * 2 * N)
    )


@pytest.mark.parametrize(("along", "efficiency"), [(True, 1.0), (False, 1 / 8)])
def test_threads_lie_along_the_axis_that_is_contiguous(clean, along, efficiency):
    """A tile that is contiguous along its first axis, as K in attention; if it is along none, rows are what is counted."""
    columns_of_rows[(1,)](aligned(2 * 32 * 32), aligned(32 * 32), N=32, ALONG=along)
    assert clean.launches[0].traffic["x"].load_efficiency == efficiency


@triton.jit
def add_one(counter):
    tl.atomic_add(counter, 1)


def test_an_atomic_counts_as_a_store(clean):
    add_one[(3,)](torch.zeros(1, dtype=torch.int32))
    traffic = clean.launches[0].traffic["counter"]
    assert (traffic.stores, traffic.bytes_stored, traffic.sectors_stored, traffic.loads) == (3, 12, 3, 0)


# --- launches ---------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_launch():
    x = torch.ones(10, 20)[:, 1:]
    with interpreting(Session()) as session:
        copy[(1,)](x, torch.ones(16, dtype=torch.float32), 16, STEP=1, BLOCK=16, num_warps=8, num_stages=2)
    (launch,) = session.launches
    assert launch.kernel is copy
    assert (launch.name, launch.grid) == ("copy", (1, 1, 1))
    assert launch.arguments["x"] == TensorFacts(torch.float32, (10, 19), (20, 1), 4)
    assert launch.arguments["n"] == 16
    assert launch.constexprs == {"STEP": 1, "BLOCK": 16}
    assert launch.options == {"num_warps": 8, "num_stages": 2}


def test_no_tensor_outlives_its_owner():
    x, out = torch.ones(16), torch.ones(16)
    gone = [weakref.ref(x), weakref.ref(out)]
    with interpreting(Session(outputs=["out"])) as session:
        copy[(1,)](x, out, 16, STEP=1, BLOCK=16)
    del x, out
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert session.launches


@triton.jit
def square(x, out, B: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    rows, inner = tl.arange(0, B), tl.arange(0, K)
    tile = tl.load(x + rows[:, None] * K + inner[None, :])
    tl.store(out + rows[:, None] * B + rows[None, :], tl.dot(tile, tl.trans(tile), input_precision=PRECISION))


@pytest.mark.parametrize("asked", ["tf32", "ieee", "tf32x3"])
def test_the_precision_of_each_dot_is_kept(clean, asked):
    square[(1,)](torch.ones(16, 32), torch.empty(16, 16), B=16, K=32, PRECISION=asked)
    (dot,) = clean.launches[0].dots
    assert dot == Dot(16, 16, 32, "fp32", asked, dot.line)
    assert dot.line[0] == __file__


def test_a_dot_that_says_nothing_is_tf32_as_on_a_gpu(clean):
    square_by_default[(1,)](torch.ones(16, 32), torch.empty(16, 16), B=16, K=32)
    assert [dot.input_precision for dot in clean.launches[0].dots] == ["tf32"]


@triton.jit
def square_by_default(x, out, B: tl.constexpr, K: tl.constexpr):
    rows, inner = tl.arange(0, B), tl.arange(0, K)
    tile = tl.load(x + rows[:, None] * K + inner[None, :])
    tl.store(out + rows[:, None] * B + rows[None, :], tl.dot(tile, tl.trans(tile)))


@pytest.mark.parametrize(
    ("dtype", "k", "accepted"),
    [
        (torch.float16, 16, True),
        (torch.float16, 8, False),
        (torch.bfloat16, 8, False),
        (torch.int8, 32, True),
        (torch.int8, 16, False),
        (torch.float32, 16, True),
    ],
)
def test_dots_are_as_large_as_the_cuda_backend_wants_them(dtype, k, accepted):
    with interpreting(Session()) as session:
        launch = lambda: square_by_default[(1,)](torch.ones(16, k, dtype=dtype), torch.empty(16, 16), B=16, K=k)  # noqa: E731
        if accepted:
            launch()
        else:
            with pytest.raises(SmallDot):
                launch()
    assert [f.kind for f in session.findings] == ([] if accepted else ["small_dot"])


# --- arguments --------------------------------------------------------------------------------------------------


@triton.jit
def padded(x, out, stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))


def test_gaps_may_be_allowed():
    view = torch.ones(4, 16)[:, :8]
    with interpreting(Session(gaps_allowed=["x"])) as session:
        padded[(1,)](view, torch.empty(32), 16, BLOCK=32)
    assert session.findings == []
    with interpreting(Session()), pytest.raises(OutOfBounds) as caught:
        padded[(1,)](view, torch.empty(32), 16, BLOCK=32)
    # 32 lanes over rows of 16 of which 8 are the view's.
    assert (caught.value.finding.kind, caught.value.finding.index, caught.value.bad_lanes) == ("between_rows", 8, 16)
    # What lies past the last row is outside, not between rows.
    with interpreting(Session(gaps_allowed=["x"])), pytest.raises(OutOfBounds) as caught:
        padded[(1,)](view, torch.empty(64), 16, BLOCK=64)
    assert (caught.value.finding.kind, caught.value.finding.index, caught.value.elements) == ("out_of_bounds", 56, 56)


@pytest.mark.parametrize("view", [
    torch.ones(8, 4).T, torch.ones(1, 1, 32), torch.ones(4).expand(8, 4), torch.ones(2, 4, 8).permute(2, 0, 1), torch.ones(64).unfold(0, 4, 1)[:29],
], ids=["transposed", "of one row", "expanded", "permuted", "overlapping"])  # fmt: skip
def test_views_without_gaps(clean, view):
    last = sum((n - 1) * step for n, step in zip(view.shape, view.stride(), strict=True))
    copy[(1,)](view, torch.empty(last + 1), last + 1, STEP=1, BLOCK=32)


def test_an_empty_tensor_has_no_elements():
    with interpreting(Session()), pytest.raises(OutOfBounds) as caught:
        copy[(1,)](torch.empty(0), torch.empty(4), 4, STEP=1, BLOCK=4)
    assert (caught.value.finding.argument, caught.value.elements, caught.value.bad_lanes) == ("x", 0, 4)


def test_an_empty_tensor_may_be_passed(clean):
    copy[(1,)](torch.empty(0), torch.empty(4), 0, STEP=1, BLOCK=4)


@triton.jit
def fill_half(out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, 1.0, mask=offsets < n)


@triton.jit
def increment(out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(out + offsets) + 1)


@pytest.mark.parametrize(("filled", "first"), [(64, None), (40, 40)])
def test_what_an_earlier_launch_wrote_is_written(filled, first):
    out = torch.empty(64)
    with interpreting(Session(outputs=["out"])) as session:
        fill_half[(1,)](out, filled, BLOCK=64)
        increment[(1,)](out, BLOCK=64)
    assert [finding.index for finding in session.findings] == ([] if first is None else [first])


def test_what_torch_wrote_in_between_is_written():
    out = torch.empty(64)
    with interpreting(Session(outputs=["out"])) as session:
        fill_half[(1,)](out, 1, BLOCK=64)
        out.zero_()
        increment[(1,)](out, BLOCK=64)
    assert session.findings == []


@pytest.mark.parametrize("name", ["x", "out"])
def test_an_output_that_is_an_input_too_is_written(name):
    x = torch.ones(64)
    with interpreting(Session(outputs=[name])) as session:
        copy[(1,)](x, x, 64, STEP=1, BLOCK=64)
    assert session.findings == []


def test_outputs_in_inference_mode(clean):
    clean.outputs = frozenset(["out"])
    with torch.inference_mode():
        copy[(1,)](torch.ones(16), torch.empty(16), 16, STEP=1, BLOCK=16)


# --- findings ---------------------------------------------------------------------------------------------------


@triton.jit
def hash_unsigned(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets).to(tl.uint32, bitcast=True)
    tl.store(out + offsets, (value * 2654435761) ^ (value + 4000000000))


def test_unsigned_integers_wrap(clean):
    x, out = torch.arange(64, dtype=torch.int32) * 1000003, torch.empty(64, dtype=torch.int64)
    hash_unsigned[(1,)](x, out, BLOCK=64)
    value = x.long()
    assert torch.equal(out, ((value * 2654435761) % 2**32) ^ ((value + 4000000000) % 2**32))


@triton.jit
def int32_sum(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(out + offsets, value + value)


@pytest.mark.parametrize(
    ("largest", "fits"), [(2**30 - 1, True), (2**30, False), (-(2**30), True), (-(2**30) - 1, False)]
)
def test_the_edge_of_int32(largest, fits):
    x = torch.zeros(16, dtype=torch.int32)
    x[5] = largest
    with interpreting(Session()):
        if fits:
            int32_sum[(1,)](x, torch.empty(16, dtype=torch.int32), BLOCK=16)
        else:
            with pytest.raises(IntegerOverflow, match=f"{largest} \\+ {largest} does not fit int32"):
                int32_sum[(1,)](x, torch.empty(16, dtype=torch.int32), BLOCK=16)


@triton.jit
def many_faults(out1, out2, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for _ in range(5):
        tl.store(out1 + offsets, 1.0)
        tl.store(out2 + offsets, 1.0)


def test_a_line_reports_a_fault_once_and_the_list_is_bounded():
    def kinds(limit):
        with interpreting(Session(max_findings=limit)) as session:
            many_faults[(8,)](torch.zeros(64), torch.zeros(64), BLOCK=64)
        return [(finding.kind, finding.line[1]) for finding in session.findings]

    all_of_them = kinds(20)
    assert len(all_of_them) == len(set(all_of_them)) == 2
    assert kinds(1) == all_of_them[:1]


def test_a_finding_is_plain_data():
    finding = Finding("race", "store and store", "out", 3, (0, 1, 2), "", None)
    with pytest.raises(AttributeError):
        finding.kind = "undefined"
    assert finding == Finding("race", "store and store", "out", 3, (0, 1, 2), "", None)


@triton.jit
def masked_use(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    scale = tl.load(y + offsets, mask=mask)
    large = (value > 2) & mask
    total = tl.sum(tl.where(mask, value * scale, 0.0))
    tl.store(out + offsets, value, mask=mask)
    tl.store(out + offsets, total, mask=large)


def test_garbage_that_is_masked_off_again_is_none(clean):
    x, y, out = torch.arange(10.0), torch.arange(10.0), torch.empty(10)
    masked_use[(1,)](x, y, out, 10, BLOCK=16)
    assert torch.equal(out, torch.where(x > 2, (x * y).sum(), x))


@triton.jit
def scalar_other(x, out, n):
    tl.store(out, tl.load(x + n, mask=n < 0, other=0))


def test_an_other_of_zero_for_a_single_element_is_one(clean):
    out = torch.ones(1)
    scalar_other[(1,)](torch.ones(4), out, 4)
    assert out.item() == 0


@triton.jit
def copy_without_mask(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))


def test_out_of_bounds_says_how_many_lanes_of_how_many():
    with interpreting(Session()), pytest.raises(OutOfBounds) as caught:
        copy_without_mask[(2,)](torch.ones(100), torch.ones(128), BLOCK=64)
    error = caught.value
    # Program 1 has elements 64 to 127, of which 100 to 127 do not exist.
    assert (error.elements, error.bad_lanes, error.active_lanes) == (100, 28, 64)
    assert error.finding.program == (1, 0, 0)


def test_nothing_is_touched_before_it_is_checked():
    memory = torch.ones(128)
    with interpreting(Session()), pytest.raises(OutOfBounds):
        copy_without_mask[(2,)](torch.zeros(128), memory[:100], BLOCK=64)
    assert torch.equal(memory[100:], torch.ones(28))
