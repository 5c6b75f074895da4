"""What a kernel may call by another way than through triton.language, and reductions with a function of its own."""

import pytest
import torch
import triton
import triton.language as tl
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
