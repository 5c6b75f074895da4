"""Right matrix products: nothing is found, and the results are PyTorch's.

A dot of K terms accumulated in fp32 is off by at most K * 2^-24 of |a| @ |b|; products of fp16 and bf16 are exact in fp32.
"""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

EPS = 2.0**-24


@triton.jit
def naive(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        left = tl.load(a + rows * K + k, mask=rows < M, other=0.0).to(tl.float32)
        right = tl.load(b + k * N + columns, mask=columns < N, other=0.0).to(tl.float32)
        total += left[:, None] * right[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    wide = tl.cdiv(N, BN)
    group = pid // (GROUP * wide)
    first = group * GROUP
    size = min(tl.cdiv(M, BM) - first, GROUP)
    return first + (pid % (GROUP * wide)) % size, (pid % (GROUP * wide)) // size


@triton.jit
def one_tile(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    row,
    column,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TOTAL: tl.constexpr,
):
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left_at = a + rows[:, None] * sam + inner[None, :] * sak
    right_at = b + inner[:, None] * sbk + columns[None, :] * sbn
    total = tl.zeros((BM, BN), dtype=TOTAL)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(left_at, mask=(rows[:, None] < M) & (inner[None, :] < K - k * BK), other=0)
        right = tl.load(right_at, mask=(inner[:, None] < K - k * BK) & (columns[None, :] < N), other=0)
        total = tl.dot(left, right, total, out_dtype=TOTAL)
        left_at += BK * sak
        right_at += BK * sbk
    where = c + rows[:, None] * N + columns[None, :]
    tl.store(where, total.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def grouped(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TOTAL: tl.constexpr,
):
    row, column = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    one_tile(a, b, c, M, N, K, sam, sak, sbk, sbn, row, column, BM, BN, BK, TOTAL)


@triton.jit
def persistent(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TOTAL: tl.constexpr,
):
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        row, column = tile_of(tile, M, N, BM, BN, GROUP)
        one_tile(a, b, c, M, N, K, sam, sak, sbk, sbn, row, column, BM, BN, BK, TOTAL)


autotuned = triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 64, "BK": 32, "GROUP": 2}, num_warps=4, num_stages=2),
        triton.Config({"BM": 64, "BN": 32, "BK": 16, "GROUP": 4}, num_warps=8),
    ],
    key=["M", "N", "K"],
)(grouped)


def operands(dtype, M, N, K):
    if dtype == torch.int8:
        return torch.randint(-128, 128, (M, K), dtype=dtype), torch.randint(-128, 128, (K, N), dtype=dtype)
    return torch.randn(M, K).to(dtype), torch.randn(K, N).to(dtype)


def check(near, c, a, b):
    exact = a.double() @ b.double()
    near(c, exact, work=a.shape[1] * EPS * (a.double().abs() @ b.double().abs()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_naive(clean, near, dtype):
    a, b = operands(dtype, 20, 24, 30)
    c = torch.empty(20, 24, dtype=dtype)
    naive[(2, 2)](a, b, c, 20, 24, 30, BM=16, BN=16)
    check(near, c, a, b)


DTYPES = [
    (torch.float32, torch.float32, tl.float32),
    (torch.float16, torch.float16, tl.float32),
    (torch.bfloat16, torch.bfloat16, tl.float32),
    (torch.int8, torch.int32, tl.int32),
]


@pytest.mark.parametrize(("dtype", "result", "total"), DTYPES)
@pytest.mark.parametrize(("kernel", "programs"), [(grouped, 9), (persistent, 2)])
def test_tiled(clean, near, kernel, programs, dtype, result, total):
    M, N, K = 65, 70, 50
    a, b = operands(dtype, M, N, K)
    c = torch.empty(M, N, dtype=result)
    kernel[(programs,)](a, b, c, M, N, K, K, 1, N, 1, BM=32, BN=32, BK=32, GROUP=2, TOTAL=total)
    check(near, c, a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_tiled_with_a_transposed_operand(clean, near, dtype):
    a, b = operands(dtype, 40, 40, 40)
    c = torch.empty(40, 40, dtype=dtype)
    grouped[(4,)](a.T, b, c, 40, 40, 40, 1, 40, 40, 1, BM=32, BN=32, BK=32, GROUP=1, TOTAL=tl.float32)
    check(near, c, a.T, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autotuned(clean, near, dtype):
    a, b = operands(dtype, 50, 60, 33)
    c = torch.empty(50, 60, dtype=dtype)
    autotuned[lambda meta: (triton.cdiv(50, meta["BM"]) * triton.cdiv(60, meta["BN"]),)](
        a, b, c, 50, 60, 33, 33, 1, 60, 1, TOTAL=tl.float32
    )
    check(near, c, a, b)
    assert [launch.constexprs["BM"] for launch in clean.launches] == [32, 64, 32]


@triton.jit
def with_block_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left_at = tl.make_block_ptr(a, (M, K), (K, 1), (tl.program_id(0) * BM, 0), (BM, BK), (1, 0))
    right_at = tl.make_block_ptr(b, (K, N), (N, 1), (0, tl.program_id(1) * BN), (BK, BN), (1, 0))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        left = tl.load(left_at, boundary_check=(0, 1), padding_option="zero")
        right = tl.load(right_at, boundary_check=(0, 1), padding_option="zero")
        total += tl.dot(left, right)
        left_at = tl.advance(left_at, (0, BK))
        right_at = tl.advance(right_at, (BK, 0))
    where = tl.make_block_ptr(c, (M, N), (N, 1), (tl.program_id(0) * BM, tl.program_id(1) * BN), (BM, BN), (1, 0))
    tl.store(where, total.to(c.dtype.element_ty), boundary_check=(0, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_block_pointers(clean, near, dtype):
    a, b = operands(dtype, 40, 50, 60)
    c = torch.empty(40, 50, dtype=dtype)
    with_block_pointers[(2, 2)](a, b, c, 40, 50, 60, BM=32, BN=32, BK=16)
    check(near, c, a, b)


@triton.jit
def with_host_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


@triton.jit
def with_device_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    with_host_descriptors(a, b, c, K, BM, BN, BK)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("where", ["host", "device"])
def test_tensor_descriptors(clean, near, dtype, where):
    a, b = operands(dtype, 40, 48, 56)
    c = torch.empty(40, 48, dtype=dtype)
    if where == "host":
        a_block, b_block, c_block = (
            TensorDescriptor.from_tensor(t, s) for t, s in ((a, [32, 16]), (b, [16, 32]), (c, [32, 32]))
        )
        with_host_descriptors[(2, 2)](a_block, b_block, c_block, 56, BM=32, BN=32, BK=16)
    else:
        with_device_descriptors[(2, 2)](a, b, c, 40, 48, 56, BM=32, BN=32, BK=16)
    check(near, c, a, b)
