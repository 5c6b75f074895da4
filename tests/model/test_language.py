"""What a kernel may call by another way than through triton.language, and reductions with a function of its own."""

from typing import NamedTuple

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.errors import UnsupportedLanguageConstruct
from triton.language import arange, load, store

from warpgrade.model.interpreter import interpreting
from warpgrade.model.sanitizer import Session


@triton.jit
def by_name(x, out, BLOCK: tl.constexpr):
    offsets = arange(0, BLOCK)
    store(out + offsets, load(x + offsets) + 1)


def test_names_imported_out_of_the_language(clean):
    x, out = torch.arange(16.0), torch.empty(16)
    by_name[(1,)](x, out, BLOCK=16)
    assert torch.equal(out, x + 1)


@triton.jit
def clamped(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, min(max(tl.load(x + offsets), 3.0), 7.0))


def test_max_and_min_are_tritons(clean):
    x, out = torch.arange(16.0), torch.empty(16)
    clamped[(1,)](x, out, BLOCK=16)
    assert torch.equal(out, x.clamp(3, 7))


@triton.jit
def either(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    big = tl.load(x + offsets, mask=offsets < n) > 2
    tl.store(out + offsets, tl.where(big | (offsets >= n), 1.0, 0.0))


def test_a_lane_that_one_side_of_an_or_decides_is_defined(clean):
    x, out = torch.arange(10.0), torch.empty(16)
    either[(1,)](x, out, 10, BLOCK=16)
    assert out.tolist() == [0.0] * 3 + [1.0] * 13


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def products(x, out, running, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + at)
    tl.store(out + tl.arange(0, M), tl.reduce(value, 1, times))
    tl.store(running + at, tl.associative_scan(value, 1, times, reverse=True))


def test_a_reduction_and_a_scan_with_the_kernels_own_function(clean):
    x = torch.randint(1, 3, (4, 8), dtype=torch.int32)
    out, running = torch.empty(4, dtype=torch.int32), torch.empty(4, 8, dtype=torch.int32)
    products[(1,)](x, out, running, M=4, N=8)
    assert torch.equal(out.long(), x.prod(1))
    assert torch.equal(running.long(), x.flip(1).cumprod(1).flip(1))


def test_a_grid_of_floats_is_refused():
    with interpreting(Session()), pytest.raises(TypeError):
        by_name[(1.0,)](torch.ones(16), torch.ones(16), BLOCK=16)


@triton.constexpr_function
def padded(n):
    return 2 ** (n - 1).bit_length()


@triton.jit
def with_a_function_of_constants(x, out, N: tl.constexpr):
    offsets = tl.arange(0, padded(N))
    value = tl.load(x + offsets, mask=offsets < N, other=0.0)
    tl.store(out + offsets, value, mask=offsets < N)


@triton.jit
def with_a_number_of_the_gpu(x, out, n):
    tl.store(out, tl.load(x) + padded(n))


def test_a_function_of_constants_is_ordinary_python(clean):
    x, out = torch.arange(1.0, 6.0), torch.zeros(5)
    with_a_function_of_constants[(1,)](x, out, N=5)
    assert torch.equal(out, x)
    with pytest.raises(UnsupportedLanguageConstruct, match="padded is a constexpr_function"):
        with_a_number_of_the_gpu[(1,)](x, out, 5)


class Sizes(NamedTuple):
    rows: int
    columns: int


@triton.jit
def fill(out, sizes, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, sizes.rows * 1.0, mask=offsets < sizes.columns)


def test_a_named_tuple_is_still_one_in_what_is_kept_of_a_launch(clean):
    out = torch.zeros(3)
    fill[(1,)](out, Sizes(2, 3), BLOCK=4)
    assert out.tolist() == [2.0, 2.0, 2.0]
    (launch,) = clean.launches
    assert launch.arguments["sizes"] == Sizes(2, 3)
    assert launch.arguments["sizes"].columns == 3


def test_a_function_may_say_that_it_has_another_name(clean):
    @triton.jit
    def kernel(out):
        tl.store(out, 1.0)

    kernel.fn.__name__ = "another"
    out = torch.zeros(1)
    kernel[(1,)](out)
    assert out.item() == 1.0
