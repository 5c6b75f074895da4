"""Right kernels whose memory access is the interesting part: nothing is found, and the results are PyTorch's."""

import pytest
import torch
import triton
import triton.language as tl

EPS = 2.0**-24
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@triton.jit
def flash_attention(
    q,
    k,
    v,
    out,
    stride_head,
    stride_row,
    n,
    scale,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    query = tl.load(
        q + head * stride_head + rows[:, None] * stride_row + inner[None, :], mask=rows[:, None] < n, other=0.0
    )
    highest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    result = tl.zeros([BM, D], tl.float32)
    end = min((block + 1) * BM, n) if CAUSAL else n
    for start in range(0, end, BN):
        columns = start + tl.arange(0, BN)
        key = tl.load(
            k + head * stride_head + columns[None, :] * stride_row + inner[:, None],
            mask=columns[None, :] < n,
            other=0.0,
        )
        score = tl.dot(query, key) * scale
        seen = columns[None, :] < n
        if CAUSAL:
            seen = seen & (rows[:, None] >= columns[None, :])
        score = tl.where(seen, score, -1.0e30)
        new = tl.maximum(highest, tl.max(score, 1))
        weight = tl.exp(score - new[:, None])
        fade = tl.exp(highest - new)
        total = total * fade + tl.sum(weight, 1)
        value = tl.load(
            v + head * stride_head + columns[:, None] * stride_row + inner[None, :],
            mask=columns[:, None] < n,
            other=0.0,
        )
        result = result * fade[:, None] + tl.dot(weight.to(value.dtype), value)
        highest = new
    result = result / total[:, None]
    tl.store(
        out + head * stride_head + rows[:, None] * stride_row + inner[None, :],
        result.to(out.dtype.element_ty),
        mask=rows[:, None] < n,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [64, 75])
def test_flash_attention(clean, near, dtype, causal, n):
    q, k, v = (torch.randn(2, n, 32).to(dtype) for _ in range(3))
    out = torch.empty_like(q)
    flash_attention[(triton.cdiv(n, 32), 2)](q, k, v, out, n * 32, 32, n, 32**-0.5, BM=32, BN=16, D=32, CAUSAL=causal)
    exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    # The weights are rounded to the operands' type (half a unit of 2^-24, 2^-11 or 2^-8), everything else is fp32.
    weights = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype]
    near(out, exact, work=(weights + (n + 64) * EPS) * v.double().abs().max())


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    tl.atomic_add(counts + value, 1, mask=offsets < n)


def test_histogram(clean):
    x, counts = torch.randint(0, 16, (5000,), dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    histogram[(5,)](x, counts, 5000, BLOCK=1024)
    assert torch.equal(counts.long(), torch.bincount(x.long(), minlength=16))


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * N + columns[None, :], mask=(rows[:, None] < M) & (columns[None, :] < N))
    tl.store(
        out + columns[:, None] * M + rows[None, :], tl.trans(tile), mask=(columns[:, None] < N) & (rows[None, :] < M)
    )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_transpose(clean, dtype):
    x = (torch.randn(50, 70) * 100).to(dtype)
    out = torch.empty(70, 50, dtype=dtype)
    transpose[(2, 3)](x, out, 50, 70, BM=32, BN=32)
    assert torch.equal(out, x.T)
    # Each of the two has an axis along which it is contiguous, and Triton lays the threads out along it. Rows that start
    # within a sector cost a third of the smallest type's; strided lanes would cost three quarters of the largest's.
    traffic = clean.launches[0].traffic
    assert traffic["x"].load_efficiency > 0.5
    assert traffic["out"].store_efficiency > 0.5


@triton.jit
def gather_rows(table, index, out, n, D, BM: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, BD)
    chosen = tl.load(index + rows, mask=rows < n)
    mask = (rows[:, None] < n) & (inner[None, :] < D)
    tl.store(
        out + rows[:, None] * D + inner[None, :],
        tl.load(table + chosen[:, None] * D + inner[None, :], mask=mask),
        mask=mask,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_gather_through_masked_indices(clean, dtype):
    """The indices that are masked off are garbage, and so are the addresses made of them; but none of them is used."""
    table, index = torch.randn(20, 24).to(dtype), torch.randint(0, 20, (50,))
    out = torch.empty(50, 24, dtype=dtype)
    gather_rows[(4,)](table, index, out, 50, 24, BM=16, BD=32)
    assert torch.equal(out, table[index])


@triton.jit
def sum_under_a_lock(x, lock, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    part = tl.load(x + tl.program_id(0) * BLOCK + offsets)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + offsets, tl.load(out + offsets) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def test_a_lock_is_no_race(clean):
    x, lock, out = torch.randint(0, 100, (8, 64)).float(), torch.zeros(1, dtype=torch.int32), torch.zeros(64)
    sum_under_a_lock[(8,)](x, lock, out, BLOCK=64)
    assert torch.equal(out, x.sum(0))
    assert lock.item() == 0


@triton.jit
def last_one_sums(x, parts, arrived, out, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    tl.store(parts + program, tl.sum(tl.load(x + program * BLOCK + tl.arange(0, BLOCK))))
    if tl.atomic_add(arrived, 1) == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS))))


def test_the_last_program_may_read_what_the_others_stored(clean):
    x, parts, arrived, out = (
        torch.randint(0, 100, (8, 64)).float(),
        torch.empty(8),
        torch.zeros(1, dtype=torch.int32),
        torch.empty(1),
    )
    last_one_sums[(8,)](x, parts, arrived, out, PROGRAMS=8, BLOCK=64)
    assert out.item() == x.sum().item()


@triton.jit
def last_one_resets(x, started, arrived, out, PROGRAMS: tl.constexpr):
    tl.atomic_add(started, 1, sem="release")
    tl.store(out + tl.program_id(0), tl.load(x))
    if tl.atomic_add(arrived, 1) == PROGRAMS - 1:
        tl.store(x, 0.0)


def test_the_last_program_may_overwrite_what_all_have_read(clean):
    x, started, arrived, out = (
        torch.ones(1),
        torch.zeros(1, dtype=torch.int32),
        torch.zeros(1, dtype=torch.int32),
        torch.empty(8),
    )
    last_one_resets[(8,)](x, started, arrived, out, PROGRAMS=8)
    assert torch.equal(out, torch.ones(8))
    assert x.item() == 0


@triton.jit
def sum_into_a_group(x, locks, counts, out, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    group = tl.program_id(0) % GROUPS
    part = tl.load(x + tl.program_id(0) * N + columns, mask=columns < N, other=0.0)
    where = out + group * N + columns
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    if tl.load(counts + group) == 0:
        tl.atomic_xchg(counts + group, 1)
    else:
        part += tl.load(where, mask=columns < N)
    tl.store(where, part, mask=columns < N)
    tl.atomic_xchg(locks + group, 0)


def test_a_counter_behind_a_lock_may_be_read_plainly(clean):
    clean.outputs = frozenset(["out"])
    x, out = torch.randint(0, 100, (16, 100)).float(), torch.empty(4, 100)
    sum_into_a_group[(16,)](
        x, torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32), out, 100, GROUPS=4, BLOCK=128
    )
    assert torch.equal(out.sum(0), x.sum(0))


@triton.jit
def copy_from_a_table(addresses, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    source = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * BLOCK + offsets, tl.load(source + offsets))


def test_a_table_of_pointers(clean):
    parts, out = [torch.randn(16) for _ in range(3)], torch.empty(48)
    clean.reachable = {f"part{i}": part for i, part in enumerate(parts)}
    copy_from_a_table[(3,)](torch.tensor([part.data_ptr() for part in parts]), out, BLOCK=16)
    assert torch.equal(out, torch.cat(parts))


@triton.jit
def methods(x, sums, highest, ranks, BM: tl.constexpr, BN: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + rows[:, None] * BN + columns[None, :])
    tl.store(sums + rows, tile.sum(1))
    tl.store(highest + columns, tile.max(axis=0))
    tl.store(ranks + rows[:, None] * BN + columns[None, :], tl.sort(tile).to(tl.float32))


def test_reductions_as_methods_and_sorting(clean):
    x = torch.randint(-100, 100, (8, 16)).float()
    sums, highest, ranks = torch.empty(8), torch.empty(16), torch.empty(8, 16)
    methods[(1,)](x, sums, highest, ranks, BM=8, BN=16)
    assert torch.equal(sums, x.sum(1))
    assert torch.equal(highest, x.max(0).values)
    assert torch.equal(ranks, x.sort(1).values)


@triton.jit
def scale_in_place(x, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) * factor, mask=mask)


@pytest.mark.parametrize("dtype", FLOATS)
def test_in_place(clean, dtype):
    x = torch.randn(300).to(dtype)
    expected = x * 2
    scale_in_place[(3,)](x, 300, 2.0, BLOCK=128)
    assert torch.equal(x, expected)


@triton.jit
def split_complex(x, real, imaginary, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pairs = offsets[:, None] * 2 + tl.arange(0, 2)[None, :]
    both = tl.load(x + pairs, mask=offsets[:, None] < n)
    first, second = tl.split(both)
    tl.store(real + offsets, first, mask=offsets < n)
    tl.store(imaginary + offsets, second, mask=offsets < n)


def test_split(clean):
    x = torch.randn(100, dtype=torch.complex64)
    real, imaginary = torch.empty(100), torch.empty(100)
    split_complex[(2,)](torch.view_as_real(x), real, imaginary, 100, BLOCK=64)
    assert torch.equal(torch.complex(real, imaginary), x)


@triton.jit
def ragged_means(x, starts, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first, end = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, end, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x + offsets, mask=offsets < end, other=0.0)
    tl.store(out + row, tl.sum(total) / (end - first))


def test_ragged_rows(clean, near):
    lengths = torch.tensor([5, 64, 1, 130])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    x, out = torch.randn(200), torch.empty(4)
    ragged_means[(4,)](x, starts, out, BLOCK=32)
    exact = torch.stack([part.double().mean() for part in x.split(lengths.tolist())])
    near(out, exact, work=130 * EPS * 4)
