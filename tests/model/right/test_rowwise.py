"""Right kernels that work along vectors and rows: nothing is found, and the results are PyTorch's.

Tolerances: a sum of n terms in fp32 is off by at most n * 2^-24 of the sum of their magnitudes; numpy's exp and log are
good to a few units in the last place; the result is rounded once to the output's type (`near` allows for that).
"""

import pytest
import torch
import triton
import triton.language as tl

EPS = 2.0**-24
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.float64])
@pytest.mark.parametrize("n", [1, 128, 1000])
def test_vector_add(clean, near, dtype, n):
    x, y = (torch.randn(n) * 100).to(dtype), (torch.randn(n) * 100).to(dtype)
    out = torch.empty_like(x)
    vector_add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
    assert torch.equal(out, x + y)


@triton.jit
def softmax(x, out, stride_x, stride_out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride_x + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * stride_out + columns, value / tl.sum(value, axis=0), mask=columns < N)


@triton.jit
def online_softmax(x, out, stride_x, stride_out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride_x + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(highest, tl.max(value, 0))
        total = total * tl.exp(highest - new) + tl.sum(tl.exp(value - new), 0)
        highest = new
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride_x + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
        tl.store(out + row * stride_out + columns, tl.exp(value - highest) / total, mask=columns < N)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kernel", "block"), [(softmax, 1024), (online_softmax, 128)])
def test_softmax_of_rows_of_a_view(clean, near, dtype, kernel, block):
    whole = torch.randn(5, 800).to(dtype)
    x = whole[:, :781]
    out = torch.empty(5, 781, dtype=dtype)
    kernel[(5,)](x, out, x.stride(0), out.stride(0), 781, BLOCK=block)
    exact = x.double().softmax(-1)
    # exp's argument is off by EPS * |argument| (up to 8) absolutely, the sum by 781 EPS, the rest by a few EPS.
    near(out, exact, work=exact * EPS * (781 + 16 + 8))


@triton.jit
def layernorm(x, w, b, out, mean_out, scale_out, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    value = tl.load(x + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / N
    centred = tl.where(mask, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / N + eps)
    tl.store(mean_out + row, mean)
    tl.store(scale_out + row, scale)
    result = centred * scale * tl.load(w + columns, mask=mask) + tl.load(b + columns, mask=mask)
    tl.store(out + row * stride + columns, result, mask=mask)


@triton.jit
def layernorm_backward(x, w, dy, dx, dw, db, means, scales, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    value = tl.load(x + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    grad = tl.load(dy + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(w + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.load(means + row)
    scale = tl.load(scales + row)
    normal = tl.where(mask, (value - mean) * scale, 0.0)
    weighted = weight * grad
    first = tl.sum(normal * weighted, 0) / N
    second = tl.sum(weighted, 0) / N
    tl.store(dx + row * stride + columns, (weighted - (normal * first + second)) * scale, mask=mask)
    tl.atomic_add(dw + columns, grad * normal, mask=mask)
    tl.atomic_add(db + columns, grad, mask=mask)


@pytest.mark.parametrize("dtype", FLOATS)
def test_layernorm_forward_and_backward_with_atomics(clean, near, dtype):
    M, N = 6, 200
    x, dy = torch.randn(M, N).to(dtype), torch.randn(M, N).to(dtype)
    w, b = torch.randn(N).to(dtype), torch.randn(N).to(dtype)
    exact_x, exact_w, exact_b = (t.double().requires_grad_() for t in (x, w, b))
    exact = torch.nn.functional.layer_norm(exact_x, (N,), exact_w, exact_b, 1e-5)
    exact.backward(dy.double())
    out, mean, scale = torch.empty(M, N, dtype=dtype), torch.empty(M), torch.empty(M)
    layernorm[(M,)](x, w, b, out, mean, scale, N, N, 1e-5, BLOCK=256)
    dx, dw, db = torch.empty(M, N, dtype=dtype), torch.zeros(N), torch.zeros(N)
    layernorm_backward[(M,)](x, w, dy, dx, dw, db, mean, scale, N, N, BLOCK=256)
    # Values up to about 4, sums of N of them; each term passes a handful of roundings.
    work = 16 * N * EPS
    near(out, exact.detach(), work=work)
    near(dx, exact_x.grad, work=work)
    near(dw, exact_w.grad, work=M * work)
    near(db, exact_b.grad, work=M * work)


@triton.jit
def cross_entropy(logits, targets, loss, stride, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    pointers = logits + row * stride
    highest = -float("inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(pointers + columns, mask=columns < V, other=-float("inf")).to(tl.float32)
        new = tl.maximum(highest, tl.max(value, 0))
        total = total * tl.exp(highest - new) + tl.sum(tl.exp(value - new), 0)
        highest = new
    target = tl.load(targets + row)
    tl.store(loss + row, highest + tl.log(total) - tl.load(pointers + target).to(tl.float32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_cross_entropy(clean, near, dtype):
    x, targets, loss = torch.randn(4, 1000).to(dtype), torch.randint(0, 1000, (4,)), torch.empty(4)
    cross_entropy[(4,)](x, targets, loss, 1000, 1000, BLOCK=256)
    near(loss, torch.nn.functional.cross_entropy(x.double(), targets, reduction="none"), work=(1000 + 32) * EPS)


@triton.jit
def running_sum(x, out, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    value = tl.load(
        x + tl.program_id(0) * N + columns, mask=columns < N
    )  # what is garbage comes last, and spoils nothing
    tl.store(out + tl.program_id(0) * N + columns, tl.cumsum(value, 0), mask=columns < N)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_cumsum(clean, near, dtype):
    x = (torch.randn(3, 100) * 8).to(dtype)
    out = torch.empty(3, 100, dtype=torch.int32 if dtype == torch.int32 else torch.float32)
    running_sum[(3,)](x, out, 100, BLOCK=128)
    near(out, x.double().cumsum(1), work=x.double().abs().cumsum(1) * 100 * EPS)


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def product(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, BLOCK)), 0, times))


@triton.jit
def step_after_step(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(a, b, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    _, state = tl.associative_scan((tl.load(a + offsets), tl.load(b + offsets)), 0, step_after_step)
    tl.store(out + offsets, state)


def test_custom_reduction(clean, near):
    x, out = torch.rand(64) + 0.5, torch.empty(1)
    product[(1,)](x, out, BLOCK=64)
    exact = x.double().prod()
    near(out, exact, work=exact * 64 * EPS)


def test_associative_scan_of_pairs(clean, near):
    a, b, out = torch.rand(64), torch.rand(64), torch.empty(64)
    recurrence[(1,)](a, b, out, BLOCK=64)
    state, exact = 0.0, []
    for x, y in zip(a.double().tolist(), b.double().tolist(), strict=True):
        state = x * state + y
        exact.append(state)
    near(out, torch.tensor(exact, dtype=torch.float64), work=64 * 2 * EPS * max(exact))


@triton.jit
def argmax_of_rows(x, out, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * N + columns, mask=columns < N, other=-float("inf"))
    tl.store(out + tl.program_id(0), tl.argmax(value, axis=-1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_argmax(clean, dtype):
    x, out = torch.randn(4, 50).to(dtype), torch.empty(4, dtype=torch.int32)
    argmax_of_rows[(4,)](x, out, 50, BLOCK=64)
    assert torch.equal(torch.gather(x, 1, out.long()[:, None])[:, 0], x.max(1).values)


@triton.jit
def relu_dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    value = tl.where(keep and (value > 0), value / (1 - p), 0.0)
    tl.store(out + offsets, value, mask=mask)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(clean, near, dtype):
    x = torch.randn(2000).to(dtype)
    out, again = torch.empty_like(x), torch.empty_like(x)
    for result, block in ((out, 128), (again, 512)):
        relu_dropout[(triton.cdiv(2000, block),)](x, result, 2000, 0.25, 42, BLOCK=block)
    assert torch.equal(out, again), "random numbers depend on the offset, not on the block"
    kept = out != 0
    near(
        out[kept],
        x[kept].double() / 0.75,
        work=x[kept].double() * 4 * EPS + (0 if dtype == torch.float32 else 2.0**-20),
    )
    assert (out[x <= 0] == 0).all()
    # 1000 or so positive values, each kept with probability 3/4: five standard deviations are 0.07.
    assert abs(kept.sum() / (x > 0).sum() - 0.75) < 0.07
