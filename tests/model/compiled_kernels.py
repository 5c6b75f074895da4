"""Kernels that the tests of the compiled tier share: right ones, and one planted fault each.

Faults are marked `# <- fault` on the line that must be named; `fault_line` finds it.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import triton
import triton.language as tl

from warpgrade.model.compile_errors import definition
from warpgrade.model.signature import jit_function

PYTHON_NUMBER = 3


def fault_line(kernel: Any) -> int:
    """The line of the marker in the kernel's file, from 1."""
    path, first = definition(jit_function(kernel))
    for line in range(first, first + 60):
        if "# <- fault" in linecache.getline(path, line):
            return line
    raise LookupError(kernel)


# --- right --------------------------------------------------------------------------------------------------------


@triton.jit
def add(x, y, o, n, BLOCK: tl.constexpr):
    off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = off < n
    tl.store(o + off, tl.load(x + off, mask=mask) + tl.load(y + off, mask=mask), mask=mask)


@triton.jit
def softmax(o, x, so, sx, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * sx + c, mask=c < n_cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + row * so + c, e / tl.sum(e, axis=0), mask=c < n_cols)


@triton.jit
def layernorm(x, y, w, b, mean_out, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < n
    v = tl.load(x + row * stride + c, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(mask, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(mean_out + row, mean)
    out = d * rstd * tl.load(w + c, mask=mask) + tl.load(b + c, mask=mask)
    tl.store(y + row * stride + c, out, mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr = "tf32"):  # fmt: skip
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * sam + ok[None, :] * sak
    bp = b + ok[:, None] * sbk + on[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        av = tl.load(ap, mask=(om[:, None] < M) & (ok[None, :] < K - k * BK), other=0.0)
        bv = tl.load(bp, mask=(ok[:, None] < K - k * BK) & (on[None, :] < N), other=0.0)
        acc = tl.dot(av, bv, acc, input_precision=PRECISION)  # <- fault
        ap += BK * sak
        bp += BK * sbk
    tl.store(
        c + om[:, None] * scm + on[None, :] * scn,
        acc.to(c.dtype.element_ty),
        mask=(om[:, None] < M) & (on[None, :] < N),
    )


@triton.jit
def flash(Q, K, V, Out, sh, sm, n_ctx, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    h = tl.program_id(1)
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.arange(0, BN)
    od = tl.arange(0, D)
    q = tl.load(Q + h * sh + om[:, None] * sm + od[None, :], mask=om[:, None] < n_ctx, other=0.0)
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for s in range(0, n_ctx, BN):
        kk = tl.load(K + h * sh + (s + on)[None, :] * sm + od[:, None], mask=(s + on)[None, :] < n_ctx, other=0.0)
        qk = tl.where((s + on)[None, :] < n_ctx, tl.dot(q, kk) * scale, -1.0e30)
        m_n = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_n[:, None])
        al = tl.exp(m_i - m_n)
        l_i = l_i * al + tl.sum(p, 1)
        vv = tl.load(V + h * sh + (s + on)[:, None] * sm + od[None, :], mask=(s + on)[:, None] < n_ctx, other=0.0)
        acc = acc * al[:, None] + tl.dot(p.to(vv.dtype), vv)
        m_i = m_n
    tl.store(
        Out + h * sh + om[:, None] * sm + od[None, :],
        (acc / l_i[:, None]).to(Out.dtype.element_ty),
        mask=om[:, None] < n_ctx,
    )


@triton.jit
def histogram(x, h, n, BLOCK: tl.constexpr):
    off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(h + tl.load(x + off, mask=off < n, other=0), 1, mask=off < n)


@triton.jit
def copy_by_descriptor(source, target, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    target.store([i, j], source.load([i, j]))


@triton.jit
def of_tuples(pointers, sizes, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(pointers[1] + off, tl.load(pointers[0] + off, mask=off < sizes[0]), mask=off < sizes[0])


# --- one fault each -----------------------------------------------------------------------------------------------


@triton.jit
def stub(x, o, BLOCK: tl.constexpr):
    """Double each element."""
    raise NotImplementedError()  # <- fault


@triton.jit
def stub_helper(v):
    raise NotImplementedError("write me")  # <- fault


@triton.jit
def calls_stub_helper(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, stub_helper(tl.load(x + off)))


@triton.jit
def other_raise(x, o, BLOCK: tl.constexpr):
    raise ValueError("no")  # <- fault


@triton.jit
def undefined_name(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, tl.load(x + offset))  # <- fault # noqa: F821


@triton.jit
def missing_constexpr(x, o, BLOCK):
    off = tl.arange(0, BLOCK)  # <- fault
    tl.store(o + off, tl.load(x + off))


@triton.jit
def not_a_power_of_two(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)  # <- fault
    tl.store(o + off, tl.load(x + off))


@triton.jit
def changes_type_in_loop(x, o, n, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    total = 0
    for i in range(0, n):
        total = total + tl.sum(tl.load(x + i * BLOCK + off), 0)  # <- fault
    tl.store(o, total)


@triton.jit
def wrong_shapes_in_dot(x, o, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    half = tl.arange(0, BLOCK // 2)
    a = tl.load(x + r[:, None] * BLOCK + half[None, :])
    tl.store(o + r[:, None] * BLOCK + half[None, :], tl.dot(a, a))  # <- fault


@triton.jit
def unsupported_python(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    try:  # <- fault # noqa: SIM105
        tl.store(o + off, tl.load(x + off))
    except ValueError:
        pass


def plain_function(v):
    return v * 2


@triton.jit
def calls_plain_python(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, plain_function(tl.load(x + off)))  # <- fault


@triton.jit
def calls_numpy(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, np.exp(tl.load(x + off)))  # <- fault


@triton.jit
def reads_python_global(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, tl.load(x + off) * PYTHON_NUMBER)  # <- fault


@triton.jit
def static_assertion(x, o, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 128, "BLOCK is too small")  # <- fault
    off = tl.arange(0, BLOCK)
    tl.store(o + off, tl.load(x + off))


@triton.jit
def inner_fault(v):
    return v + missing  # <- fault # noqa: F821


@triton.jit
def middle(v):
    return inner_fault(v)


@triton.jit
def nested_fault(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, middle(tl.load(x + off)))


@triton.jit
def fault_inside_library(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o, tl.sum(tl.load(x + off), axis=5))  # <- fault


@triton.jit
def double_precision(x, o, n, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for i in range(0, n, BLOCK):
        total += tl.load(x + i + off)  # <- fault
    tl.store(o, tl.sum(total, 0).to(tl.float32))


@triton.jit
def wide_offsets(x, o, n, BLOCK: tl.constexpr):
    off = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + off, mask=off < n)  # <- fault
    tl.store(o + off, v, mask=off < n)


@triton.jit
def by_columns(x, o, stride, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    v = tl.load(x + r * stride)  # <- fault
    tl.store(o + r, v)
