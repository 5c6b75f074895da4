"""One kernel object, interpreted and launched on the GPU in any order, in one process."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.model import compiled_kernels as kernels
from warpgrade.model.compiled import compile_kernel
from warpgrade.model.signature import specialise
from warpgrade.notebook import KernelFailed, interpret
from warpgrade.wire.compiled import CompiledKernel

N = 1000


def added(device: str, dtype: torch.dtype) -> torch.Tensor:
    x = (torch.arange(N, dtype=torch.float64) / 7).to(dtype).to(device)
    y, out = (3 - x).flip(0).contiguous(), torch.full_like(x, float("nan"))
    kernels.add[(triton.cdiv(N, 256),)](x, y, out, N, BLOCK=256)
    return out.cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_the_same_bits_whichever_comes_first(dtype: torch.dtype) -> None:
    on_gpu = added("cuda", dtype)
    with interpret():
        interpreted = added("cpu", dtype)
    assert torch.equal(interpreted, on_gpu)
    assert torch.equal(added("cuda", dtype), on_gpu), "the GPU again, after the interpreter"
    assert not on_gpu.isnan().any()


def test_a_tensor_on_the_gpu_is_refused_where_kernels_are_interpreted() -> None:
    with pytest.raises(ValueError, match="cuda"), interpret():
        added("cuda", torch.float32)
    assert not added("cuda", torch.float32).isnan().any()


def test_a_fault_is_found_where_the_gpu_says_nothing() -> None:
    with pytest.raises(KernelFailed, match="goes outside of"), interpret():
        no_mask[(4,)](torch.ones(N), torch.ones(N), BLOCK=256)
    front = torch.zeros(1024, device="cuda")
    no_mask[(4,)](torch.ones(1024, device="cuda")[:N], front[:N], BLOCK=256)
    assert front[N:].tolist() == [1.0] * 24, "over the memory of somebody else"


@triton.jit
def no_mask(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 1024}, num_warps=8)],
    key=["n"],
    reset_to_zero=["out"],
)
@triton.jit
def counted(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + offsets, mask=offsets < n, other=0)))


def total(device: str) -> int:
    x, out = torch.arange(N, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    counted[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, out, N)
    return int(out)


def test_a_tuner_chooses_for_the_gpu_on_the_gpu() -> None:
    with interpret():
        assert total("cpu") == N * (N - 1) // 2
    assert counted.cache == {}, "what the interpreter chose is not for the GPU"
    assert total("cuda") == N * (N - 1) // 2
    (chosen,) = counted.cache.values()
    with interpret():
        assert total("cpu") == N * (N - 1) // 2
    assert list(counted.cache.values()) == [chosen]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_facts_are_those_of_the_code_that_runs(dtype: torch.dtype) -> None:
    """Compiled without a device for this GPU's architecture, and as Triton compiled it to launch it."""
    major, minor = torch.cuda.get_device_capability()
    a = torch.ones(256, 256, dtype=dtype, device="cuda")
    row = torch.ones(4096, dtype=dtype, device="cuda")
    sizes = (256, 256, 256, 256, 1, 256, 1, 256, 1)
    for kernel, grid, arguments, constants in (
        (kernels.add, (16,), (row, row, row.clone(), 4096), {"BLOCK": 256}),
        (kernels.softmax, (2,), (row.clone(), row, 2048, 2048, 2000), {"BLOCK": 2048}),
        (kernels.matmul, (4, 4), (a, a, a.clone(), *sizes), {"BM": 64, "BN": 64, "BK": 32}),
    ):
        ran = kernel[grid](*arguments, **constants)
        said = compile_kernel(kernel, specialise(kernel, arguments, constants), 10 * major + minor)
        assert isinstance(said, CompiledKernel)
        assert (said.registers_per_thread, said.shared_memory_bytes) == (ran.n_regs, ran.metadata.shared)
        assert said.stack_bytes == 4 * ran.n_spills, "Triton counts the words of all local memory"
