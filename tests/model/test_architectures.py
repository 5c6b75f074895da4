"""The tables and the formula of occupancy: by hand, and against NVIDIA's own header where g++ is there to compile it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import triton

from warpgrade.model.architectures import ARCHITECTURES, Architecture, blocks_per_multiprocessor, occupancy

#: As printed in the CUDA Programming Guide 13, "Compute Capabilities": for each capability the KB of shared memory per
#: SM and per thread block, resident warps and blocks per SM, and the ratio of FP32 to FP64 throughput.
GUIDE = {
    75: (64, 64, 32, 16, 32),
    80: (164, 163, 64, 32, 2),
    86: (100, 99, 48, 16, 64),
    89: (100, 99, 48, 24, 64),
    90: (228, 227, 64, 32, 2),
    100: (228, 227, 64, 32, 2),
    120: (100, 99, 48, 24, 64),
}


def test_the_table_is_the_guides() -> None:
    def row(limits: Architecture) -> tuple[int, int, int, int, int]:
        shared = limits.shared_memory_per_multiprocessor_bytes // 1024, limits.shared_memory_per_block_bytes // 1024
        return (*shared, limits.max_warps, limits.max_blocks, limits.float64_slowdown)

    assert {arch: row(limits) for arch, limits in ARCHITECTURES.items()} == GUIDE


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_largest_block_and_what_the_driver_keeps_fill_a_multiprocessor(arch: int) -> None:
    limits = ARCHITECTURES[arch]
    used = limits.shared_memory_per_block_bytes + limits.reserved_shared_memory_bytes
    assert used == limits.shared_memory_per_multiprocessor_bytes


@pytest.mark.parametrize(
    ("arch", "registers", "shared_bytes", "warps", "blocks", "share"),
    [
        # Registers, blocks of fewer warps than there are schedulers: those of several blocks share a scheduler.
        (80, 64, 0, 1, 32, 32 / 64),  # 2048 a warp, 8 warps a scheduler: 32 warps
        (80, 128, 0, 1, 16, 16 / 64),  # 4096 a warp, 4 a scheduler: 16 warps
        (80, 128, 0, 2, 8, 16 / 64),
        # Registers of whole blocks.
        (90, 168, 0, 4, 3, 12 / 64),  # 5376 a warp, a multiple of 256: 3 a scheduler, 12 warps
        (90, 169, 0, 4, 2, 8 / 64),  # 5408, rounded to 5632: 2 a scheduler
        (90, 255, 0, 8, 1, 8 / 64),  # 8160, rounded to 8192: 2 a scheduler
        (90, 255, 0, 16, 0, 0.0),  # 16 x 8192 is twice what there is
        (80, 64, 0, 32, 1, 32 / 64),  # 32 x 2048 is all that there is
        (80, 65, 0, 32, 0, 0.0),
        (120, 40, 0, 8, 6, 1.0),  # 1280 a warp, 12 a scheduler: 48 warps, all that may be
        (120, 41, 0, 8, 5, 40 / 48),  # 1312, rounded to 1536: 10 a scheduler
        # Blocks.
        (75, 16, 0, 1, 16, 16 / 32),
        (89, 16, 0, 1, 24, 24 / 48),
        (100, 16, 0, 1, 32, 32 / 64),
        # Shared memory: what the driver keeps, and the unit.
        (86, 16, 32 * 1024, 4, 3, 12 / 48),  # 33 KB of 100
        (86, 16, 99 * 1024, 4, 1, 4 / 48),
        (86, 16, 99 * 1024 + 1, 4, 0, 0.0),
        (100, 16, 113 * 1024, 8, 2, 16 / 64),  # 114 KB of 228
        (100, 16, 113 * 1024 + 1, 8, 1, 8 / 64),
        (80, 16, 4393, 1, 30, 30 / 64),  # 5417 with 1 KB; rounded to 5504, 30 fit 167,936; unrounded 31
        (75, 16, 4992, 1, 12, 12 / 32),  # 39 x 128, rounded to 20 x 256 = 5120: 12 fit 65,536; unrounded 13
        # Threads: 2048 of 1024.
        (80, 16, 0, 64, 0, 0.0),
    ],
)
def test_how_many_blocks_are_resident(
    arch: int, registers: int, shared_bytes: int, warps: int, blocks: int, share: float
) -> None:
    use = {"registers": registers, "shared_memory_bytes": shared_bytes, "warps": warps}
    assert blocks_per_multiprocessor(arch, **use) == blocks
    assert occupancy(arch, **use) == share


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(KeyError):
        occupancy(70, registers=32, shared_memory_bytes=0, warps=4)


PROGRAM = r"""
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
    int major, minor, warps_of_sm, shared_of_block, shared_of_sm, reserved, registers, shared, warps;
    while (scanf("%d %d %d %d %d %d %d %d %d", &major, &minor, &warps_of_sm, &shared_of_block, &shared_of_sm, &reserved,
                 &registers, &shared, &warps) == 9) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = 32 * warps_of_sm;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 * 1024;
        device.sharedMemPerBlockOptin = shared_of_block;
        device.sharedMemPerMultiprocessor = shared_of_sm;
        device.reservedSharedMemPerBlock = reserved;
        device.numSms = 1;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = 0;
        kernel.maxDynamicSharedSizeBytes = shared;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, 32 * warps, shared))
            return 1;
        printf("%d\n", result.activeBlocksPerMultiprocessor);
    }
}
"""
HEADERS = Path(triton.__file__).parent / "backends" / "nvidia" / "include"


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiles a header of C++")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_formula_is_that_of_nvidias_header(arch: int, tmp_path: Path) -> None:
    """The header that comes with Triton says the same for every number of registers and sizes of all orders."""
    if not (HEADERS / "cuda_occupancy.h").is_file():
        pytest.skip("this Triton has no cuda_occupancy.h")
    if f"case {arch // 10}:" not in (HEADERS / "cuda_occupancy.h").read_text():
        pytest.skip(f"this Triton's cuda_occupancy.h does not know sm_{arch}")
    (tmp_path / "blocks.cpp").write_text(PROGRAM)
    subprocess.run(
        ["g++", "-w", f"-I{HEADERS}", tmp_path / "blocks.cpp", "-o", tmp_path / "blocks"], check=True, timeout=120
    )
    limits = ARCHITECTURES[arch]
    device = (
        arch // 10, arch % 10, limits.max_warps, limits.shared_memory_per_block_bytes,
        limits.shared_memory_per_multiprocessor_bytes, limits.reserved_shared_memory_bytes,
    )  # fmt: skip
    cases = [
        (registers, shared, warps)
        for registers in range(16, 256)
        for shared in [0, 1, 777, 3000, 4393, 4992, 9001, 16_384, 33_000, 50_001, 65_536, 101_376, 166_912, 232_448]
        for warps in (1, 2, 4, 8, 16, 32, 64)
    ]
    lines = "".join(" ".join(map(str, (*device, *case))) + "\n" for case in cases)
    done = subprocess.run([tmp_path / "blocks"], input=lines, capture_output=True, text=True, check=True, timeout=60)
    ours = [
        blocks_per_multiprocessor(arch, registers=registers, shared_memory_bytes=shared, warps=warps)
        for registers, shared, warps in cases
    ]
    assert ours == [int(line) for line in done.stdout.split()]
