"""The launch that both sides of test_speed.py time: 256^3 in fp32, blocks of 64x64x32."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_tile = a + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_tile = b + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(a_tile, mask=(rows[:, None] < M) & (inner[None, :] < K - k * BK), other=0.0)
        right = tl.load(b_tile, mask=(inner[:, None] < K - k * BK) & (columns[None, :] < N), other=0.0)
        total = tl.dot(left, right, total)
        a_tile += BK * stride_ak
        b_tile += BK * stride_bk
    where = c + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(where, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


torch.set_num_threads(1)
_a, _b = torch.randn(256, 256), torch.randn(256, 256)


def matmul_256():
    c = torch.empty(256, 256)
    matmul[(4, 4)](_a, _b, c, 256, 256, 256, 256, 1, 256, 1, 256, 1, BM=64, BN=64, BK=32)
    return c, _a @ _b
