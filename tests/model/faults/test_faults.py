"""Planted faults. Each is found with its kind, argument, element and line: the line that is marked FAULT in the kernel."""

import inspect
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from warpgrade.model.findings import KernelFault, plain_sentence, sentence
from warpgrade.model.interpreter import interpreting
from warpgrade.model.sanitizer import Session

pytestmark = pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")


def lines_marked(kernel):
    lines, first = inspect.getsourcelines(kernel.fn)
    return {first + i for i, line in enumerate(lines) if "FAULT" in line}


# --- out of bounds ----------------------------------------------------------------------------------------------


@triton.jit
def load_without_mask(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets)  # FAULT
    tl.store(out + offsets, value, mask=offsets < n)


@triton.jit
def store_without_mask(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    tl.store(out + offsets, value)  # FAULT


@triton.jit
def mask_one_too_far(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets <= n
    value = tl.load(x + offsets, mask=mask)  # FAULT
    tl.store(out + offsets, value, mask=mask)


@triton.jit
def left_neighbour(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    before = tl.load(x + offsets - 1, mask=mask)  # FAULT
    tl.store(out + offsets, before, mask=mask)


@triton.jit
def rows_by_the_number_of_rows(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    value = tl.load(x + row * M + columns * M, mask=mask)  # FAULT
    tl.store(out + row * N + columns, value, mask=mask)


@triton.jit
def mask_of_the_wrong_axis(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.arange(0, BM)
    columns = tl.arange(0, BN)
    offsets = rows[:, None] * N + columns[None, :]
    mask = (columns[None, :] < M) & (rows[:, None] < N)
    value = tl.load(x + offsets, mask=mask)  # FAULT
    tl.store(out + offsets, value, mask=mask)


@triton.jit
def no_mask_of_the_columns(x, out, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + columns)  # FAULT
    tl.store(out + row * N + columns, value, mask=columns < N)


@triton.jit
def pointer_runs_one_block_too_far(x, out, n, BLOCK: tl.constexpr):
    pointers = x + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(0, n // BLOCK + 1):
        total += tl.load(pointers)  # FAULT
        pointers += BLOCK
    tl.store(out + tl.arange(0, BLOCK), total)


@triton.jit
def chosen_pointers(x, y, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    pointers = tl.where(offsets % 2 == 0, x + offsets, y + offsets)
    tl.store(out + offsets, tl.load(pointers))  # FAULT


@triton.jit
def reshaped_pointers(x, out, BM: tl.constexpr, BN: tl.constexpr):
    pointers = tl.trans(tl.reshape(x + tl.arange(0, BM * BN), (BM, BN)))
    values = tl.load(pointers)  # FAULT
    tl.store(out + tl.arange(0, BN), tl.sum(values, 1))


@triton.jit
def wider_pointers(x, out, BLOCK: tl.constexpr):
    pointers = x.to(tl.pointer_type(tl.int32)) + tl.arange(0, BLOCK)
    value = tl.load(pointers)  # FAULT
    tl.store(out + tl.arange(0, BLOCK), value)


@triton.jit
def pointers_from_numbers(addresses, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    pointers = tl.load(addresses + offsets).to(tl.pointer_type(tl.float32))
    value = tl.load(pointers)  # FAULT
    tl.store(out + offsets, value)


@triton.jit
def descriptor_of_a_wrong_shape(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M + BM, N], [N, 1], [BM, BN])
    value = source.load([M, 0])  # FAULT
    tl.store(out + tl.arange(0, BM), tl.sum(value, 1))


@triton.jit
def descriptor_from_the_host(source, out, M, BM: tl.constexpr):
    value = source.load([M, 0])  # FAULT
    tl.store(out + tl.arange(0, BM), tl.sum(value, 1))


@triton.jit
def block_pointer_without_boundary_check(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    tile = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0))
    tile = tl.advance(tile, (BM, 0))
    value = tl.load(tile)  # FAULT
    tl.store(out + tl.arange(0, BM), tl.sum(value, 1))


@triton.jit
def histogram_of_a_value_too_large(x, counts, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.atomic_add(counts + value, 1)  # FAULT


@triton.jit
def at(x, offsets):
    return tl.load(x + offsets)  # FAULT


@triton.jit
def load_in_a_helper(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, at(x, offsets))


# --- races ------------------------------------------------------------------------------------------------------


@triton.jit
def overlapping_tiles(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))  # FAULT


@triton.jit
def shift_in_place(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets + 1, mask=offsets + 1 < n, other=0.0)  # FAULT
    tl.store(x + offsets, value, mask=offsets < n)  # FAULT


@triton.jit
def shift_between_aliases(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets + 1, mask=offsets + 1 < n, other=0.0)  # FAULT
    tl.store(out + offsets, value, mask=offsets < n)  # FAULT


@triton.jit
def sum_without_atomics(x, out, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    total = tl.load(out) + part  # FAULT
    tl.store(out, total)  # FAULT


@triton.jit
def zeroed_by_the_first_program(x, out, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(out, 0.0)  # FAULT
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.atomic_add(out, part, sem="relaxed")  # FAULT


@triton.jit
def same_value_from_all(x, out, BLOCK: tl.constexpr):
    if tl.max(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))) > 0:
        tl.store(out, 1.0)  # FAULT


@triton.jit
def all_read_and_one_writes(x, out):
    program = tl.program_id(0)
    value = tl.load(x)  # FAULT
    if program == 1:
        tl.store(x, value + 1)  # FAULT
    tl.store(out + program, value)


@triton.jit
def waits_for_one_of_two(x, flag, out):
    program = tl.program_id(0)
    tl.store(out + program, tl.load(x))  # FAULT
    if program == 0:
        tl.atomic_add(flag, 1)
    if program == 2:
        tl.atomic_add(flag, 0)
        tl.store(x, 0.0)  # FAULT


@triton.jit
def byte_of_anothers_word(words, octets, out):
    if tl.program_id(0) == 0:
        tl.store(words, 1)  # FAULT
    else:
        tl.store(out, tl.load(octets + 3))  # FAULT


@triton.jit
def two_lanes_one_element(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets // 2, tl.load(x + offsets))  # FAULT


@triton.jit
def lock_let_go_too_early(x, lock, out, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    total = tl.load(out) + part  # FAULT
    tl.atomic_xchg(lock, 0)
    tl.store(out, total)  # FAULT


@triton.jit
def lock_that_orders_nothing(x, lock, out, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    while tl.atomic_cas(lock, 0, 1, sem="relaxed") == 1:
        pass
    tl.store(out, tl.load(out) + part)  # FAULT
    tl.atomic_xchg(lock, 0, sem="relaxed")


@triton.jit
def normalised_too_early(x, total, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.atomic_add(total, tl.sum(value))  # FAULT
    tl.store(out + offsets, value / tl.load(total))  # FAULT


@triton.jit
def reads_what_others_store(x, parts, out, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    tl.store(parts + program, tl.sum(tl.load(x + program * BLOCK + tl.arange(0, BLOCK))))  # FAULT
    tl.store(out + program, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS))))  # FAULT


@triton.jit
def lock_let_go_without_release(x, lock, out, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + part)  # FAULT
    tl.atomic_xchg(lock, 0, sem="acquire")


# --- values -----------------------------------------------------------------------------------------------------


@triton.jit
def row_times_stride(x, out, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0) + 70000
    offset = row * stride  # FAULT
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + (offset % 2) + tl.arange(0, BLOCK)))


@triton.jit
def asserts(x, out, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(value > 0, "not positive")  # FAULT
    tl.store(out + tl.arange(0, BLOCK), value)


@triton.jit
def asserts_as_python_does(x, out, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    assert value < 15, "too large"  # FAULT
    tl.store(out + tl.arange(0, BLOCK), value)


@triton.jit
def dot_of_eight(x, out, B: tl.constexpr, K: tl.constexpr):
    rows, inner = tl.arange(0, B), tl.arange(0, K)
    tile = tl.load(x + rows[:, None] * K + inner[None, :])
    product = tl.dot(tile, tl.trans(tile))  # FAULT
    tl.store(out + rows[:, None] * B + rows[None, :], product)


@triton.jit
def sum_of_garbage(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)  # FAULT
    tl.store(out, tl.sum(value))


@triton.jit
def maximum_of_garbage(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets[None, :], mask=offsets[None, :] < n)  # FAULT
    tl.atomic_max(out, tl.max(value.to(tl.float32) * 2))


@triton.jit
def smaller(a, b):
    return tl.where(a < b, a, b)


@triton.jit
def own_minimum_of_garbage(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)  # FAULT
    tl.store(out, tl.reduce(value, 0, smaller))


@triton.jit
def own_running_minimum_of_garbage(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets > 0)  # FAULT
    tl.store(out + offsets, tl.associative_scan(value, 0, smaller), mask=offsets > 0)


@triton.jit
def running_sum_of_garbage(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets > 0)  # FAULT
    tl.store(out + offsets, tl.cumsum(value), mask=offsets > 0)


@triton.jit
def dot_with_garbage(x, out, K, B: tl.constexpr):
    rows = tl.arange(0, B)
    tile = tl.load(x + rows[:, None] * K + rows[None, :], mask=rows[None, :] < K)  # FAULT
    tl.store(out + rows[:, None] * B + rows[None, :], tl.dot(tile, tl.trans(tile)))


@triton.jit
def garbage_decides(x, out, n):
    value = tl.load(x + n, mask=n < 0)  # FAULT
    if value > 0:
        tl.store(out, 1.0)


@triton.jit
def reads_its_output(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    before = tl.load(out + offsets)  # FAULT
    tl.store(out + offsets, before + tl.load(x + offsets))


@triton.jit
def adds_to_its_output(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.atomic_add(out + offsets, tl.load(x + offsets))  # FAULT


@triton.jit
def writes_its_input(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(x + offsets, value * 2)  # FAULT
    tl.store(out + offsets, value)


@dataclass
class Fault:
    kernel: Any
    launch: Any
    kind: str
    access: str | tuple[str, ...]
    argument: str | None
    index: int | str | None = None  # "any": it depends on the order of programs
    session: dict = field(default_factory=dict)
    marked_in: Any = None


def block_of_100():
    return torch.ones(100), torch.ones(100), 100


def neighbours(k):
    both = torch.ones(128)
    k[(1,)](both[:64], both[64:], torch.ones(64), BLOCK=64)


def x_then_y(k):
    """One buffer, y right behind x: what goes past x lands in y and is a fault of x all the same."""
    both = torch.ones(300)
    k[(2,)](both[:100], both[100:], 100, BLOCK=64)


def words_and_octets(k):
    words = torch.zeros(4, dtype=torch.int32)
    k[(2,)](words, words.view(torch.int8), torch.zeros(1))


def aliases(k):
    x = torch.ones(256)
    k[(2,)](x, x.view(16, 16), 256, BLOCK=128)


def addresses(k):
    x = torch.ones(8)
    first = x.data_ptr() + torch.arange(16) * 4
    k[(1,)](first, torch.ones(16), BLOCK=16)


OOB = "out_of_bounds"
FAULTS = [
    Fault(load_without_mask, lambda k: k[(2,)](*block_of_100(), BLOCK=64), OOB, "load", "x", 100),
    Fault(load_without_mask, x_then_y, OOB, "load", "x", 100),
    Fault(store_without_mask, lambda k: k[(2,)](*block_of_100(), BLOCK=64), OOB, "store", "out", 100),
    Fault(mask_one_too_far, lambda k: k[(2,)](*block_of_100(), BLOCK=64), OOB, "load", "x", 100),
    Fault(left_neighbour, lambda k: k[(2,)](*block_of_100(), BLOCK=64), OOB, "load", "x", -1),
    # row r, column c is at r * 40 + c * 40: in row 0 column 30 is the first one past 30 * 40 elements.
    Fault(rows_by_the_number_of_rows, lambda k: k[(1,)](torch.ones(40, 30), torch.ones(40, 30), 40, 31, BLOCK=32), OOB, "load", "x", 1200),
    # mask lets rows 0 to 7 of 8 columns through, where there are 4 rows.
    Fault(mask_of_the_wrong_axis, lambda k: k[(1,)](torch.ones(4, 8), torch.ones(4, 8), 4, 8, BM=8, BN=8), OOB, "load", "x", 32),
    Fault(no_mask_of_the_columns, lambda k: k[(1,)](torch.ones(4, 40)[:, :24], torch.ones(4, 24), 40, 24, BLOCK=32), "between_rows", "load", "x", 24),
    Fault(pointer_runs_one_block_too_far, lambda k: k[(1,)](torch.ones(64), torch.ones(16), 64, BLOCK=16), OOB, "load", "x", 64),
    Fault(chosen_pointers, lambda k: k[(1,)](torch.ones(64), torch.ones(60), torch.ones(64), BLOCK=64), OOB, "load", "y", 61),
    Fault(chosen_pointers, lambda k: k[(1,)](torch.ones(60), torch.ones(64), torch.ones(64), BLOCK=64), OOB, "load", "x", 60),
    Fault(reshaped_pointers, lambda k: k[(1,)](torch.ones(60), torch.ones(8), BM=8, BN=8), OOB, "load", "x", 60),
    Fault(wider_pointers, lambda k: k[(1,)](torch.ones(60, dtype=torch.int8), torch.ones(16, dtype=torch.int32), BLOCK=16), OOB, "load", "x", 60),
    Fault(pointers_from_numbers, addresses, OOB, "load", None),
    Fault(descriptor_of_a_wrong_shape, lambda k: k[(1,)](torch.ones(16, 16), torch.ones(8), 16, 16, BM=8, BN=16), OOB, "load", "x", 256),
    Fault(descriptor_from_the_host, lambda k: k[(1,)](TensorDescriptor(torch.ones(16, 16), [24, 16], [16, 1], [8, 16]), torch.ones(8), 16, BM=8), OOB, "load", "source", 256),
    Fault(block_pointer_without_boundary_check, lambda k: k[(1,)](torch.ones(12, 16), torch.ones(8), 12, 16, BM=8, BN=16), OOB, "load", "x", 192),
    Fault(histogram_of_a_value_too_large, lambda k: k[(1,)](torch.full((16,), 4), torch.zeros(4, dtype=torch.int32), BLOCK=16), OOB, "atomic", "counts", 4),
    Fault(load_in_a_helper, lambda k: k[(1,)](torch.ones(100), torch.ones(128), BLOCK=128), OOB, "load", "x", 100, marked_in=at),
    Fault(overlapping_tiles, lambda k: k[(2,)](torch.ones(96), torch.ones(96), BLOCK=64), "race", "store and store", "out", 32),
    Fault(shift_in_place, lambda k: k[(2,)](torch.ones(256), 256, BLOCK=128), "race", ("store and load", "load and store"), "x", 128),
    Fault(shift_between_aliases, aliases, "race", ("store and load", "load and store"), ("x", "out"), 128),
    Fault(sum_without_atomics, lambda k: k[(2,)](torch.ones(256), torch.zeros(1), BLOCK=128), "race", "store and load", "out", 0),
    Fault(sum_without_atomics, lambda k: k[(2,)](torch.ones(256), torch.zeros(1), BLOCK=128), "race", "store and store", "out", 0),
    Fault(zeroed_by_the_first_program, lambda k: k[(2,)](torch.ones(256), torch.zeros(1), BLOCK=128), "race", ("store and atomic", "atomic and store"), "out", 0),
    Fault(same_value_from_all, lambda k: k[(2,)](torch.ones(256), torch.zeros(1), BLOCK=128), "race", "store and store", "out", 0),
    # Program 1 reads what it writes, and so did program 0 before it: its own read must not hide the other's.
    Fault(all_read_and_one_writes, lambda k: k[(2,)](torch.ones(1), torch.zeros(2)), "race", ("load and store", "store and load"), "x", 0),
    Fault(waits_for_one_of_two, lambda k: k[(3,)](torch.ones(1), torch.zeros(1, dtype=torch.int32), torch.zeros(3)), "race", ("load and store", "store and load"), "x", 0),
    Fault(byte_of_anothers_word, words_and_octets, "race", ("load and store", "store and load"), ("words", "octets"), "any"),
    Fault(lock_let_go_without_release, lambda k: k[(2,)](torch.ones(256), torch.zeros(1, dtype=torch.int32), torch.zeros(1), BLOCK=128), "race", "store and load", "out", 0),
    Fault(running_sum_of_garbage, lambda k: k[(1,)](torch.ones(64), torch.zeros(64), BLOCK=64), "undefined", "load", "x"),
    Fault(two_lanes_one_element, lambda k: k[(1,)](torch.arange(64.0), torch.zeros(32), BLOCK=64), "two_lanes", "store", "out", 0),
    Fault(lock_let_go_too_early, lambda k: k[(2,)](torch.ones(256), torch.zeros(1, dtype=torch.int32), torch.zeros(1), BLOCK=128), "race", "store and load", "out", 0),
    Fault(lock_that_orders_nothing, lambda k: k[(2,)](torch.ones(256), torch.zeros(1, dtype=torch.int32), torch.zeros(1), BLOCK=128), "race", "store and load", "out", 0),
    Fault(normalised_too_early, lambda k: k[(2,)](torch.ones(256), torch.zeros(1), torch.ones(256), BLOCK=128), "race", "load and atomic", "total", 0),
    Fault(reads_what_others_store, lambda k: k[(2,)](torch.ones(256), torch.zeros(2), torch.ones(2), PROGRAMS=2, BLOCK=128), "race", "store and load", "parts", "any"),
    Fault(row_times_stride, lambda k: k[(1,)](torch.ones(64), torch.ones(16), 32768, BLOCK=16), "overflow", "compute", None),
    Fault(asserts, lambda k: k[(1,)](torch.zeros(16), torch.ones(16), BLOCK=16), "device_assert", "compute", None),
    Fault(asserts_as_python_does, lambda k: k[(1,)](torch.arange(16.0), torch.ones(16), BLOCK=16), "device_assert", "compute", None),
    Fault(dot_of_eight, lambda k: k[(1,)](torch.ones(16, 8, dtype=torch.float16), torch.ones(16, 16), B=16, K=8), "small_dot", "compute", None),
    Fault(sum_of_garbage, lambda k: k[(1,)](torch.ones(100), torch.zeros(1), 100, BLOCK=128), "undefined", "load", "x"),
    Fault(maximum_of_garbage, lambda k: k[(1,)](torch.ones(100), torch.zeros(1), 100, BLOCK=128), "undefined", "load", "x"),
    Fault(own_minimum_of_garbage, lambda k: k[(1,)](torch.ones(10), torch.zeros(1), 10, BLOCK=16), "undefined", "load", "x"),
    Fault(own_running_minimum_of_garbage, lambda k: k[(1,)](torch.ones(16), torch.zeros(16), BLOCK=16), "undefined", "load", "x"),
    Fault(dot_with_garbage, lambda k: k[(1,)](torch.ones(16, 12), torch.zeros(16, 16), 12, B=16), "undefined", "load", "x"),
    Fault(garbage_decides, lambda k: k[(1,)](torch.ones(4), torch.zeros(1), 2), "undefined", "load", "x"),
    Fault(reads_its_output, lambda k: k[(1,)](torch.ones(64), torch.empty(64), BLOCK=64), "uninitialised", "load", "out", 0, {"outputs": ["out"]}),
    Fault(adds_to_its_output, lambda k: k[(1,)](torch.ones(64), torch.empty(64), BLOCK=64), "uninitialised", "atomic", "out", 0, {"outputs": ["out"]}),
    Fault(writes_its_input, lambda k: k[(1,)](torch.ones(64), torch.empty(64), BLOCK=64), "input_written", "store", "x", 0, {"inputs": ["x"]}),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kernel.__name__}-{fault.kind}")
@pytest.mark.parametrize("seed", [None, 0, 7])
def test_a_planted_fault_is_found(fault, seed):
    with interpreting(Session(seed=seed, **fault.session)) as session:
        try:
            fault.launch(fault.kernel)
        except KernelFault as error:
            assert error.finding in session.findings
    accesses = fault.access if isinstance(fault.access, tuple) else (fault.access,)
    arguments = fault.argument if isinstance(fault.argument, tuple) else (fault.argument,)
    found = [f for f in session.findings if f.kind == fault.kind and f.access in accesses and f.argument in arguments]
    assert found, session.findings
    assert fault.index == "any" or found[0].index == fault.index
    marked = lines_marked(fault.marked_in or fault.kernel)
    assert {f.line for f in session.findings} <= {(__file__, line) for line in marked}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kernel.__name__}-{fault.kind}")
def test_the_sentence_for_hidden_tests_has_no_number(fault):
    with interpreting(Session(**fault.session)) as session:
        try:
            fault.launch(fault.kernel)
        except KernelFault as error:
            assert str(error) == sentence(error.finding)
    for finding in session.findings:
        told = plain_sentence(finding.kind, finding.access, finding.argument)
        assert not any(character.isdigit() for character in told)
        assert told.endswith("?")
        assert finding.argument is None or finding.argument in told
        assert sentence(finding).startswith(f"line {finding.line[1]}: ")
