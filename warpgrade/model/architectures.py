"""What each GPU architecture offers a block, and how many blocks fit one multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

#: Compiled for where the caller names none: the two that the course's exercises are written for.
DEFAULT_ARCHITECTURES = (80, 90)
#: "Maximum number of threads per block" and "Warp size" (CUDA Programming Guide 13, "Compute Capabilities", table
#: "Device and Streaming Multiprocessor (SM) Information per Compute Capability"): one value for all of them.
MAX_THREADS_PER_BLOCK = 1024
THREADS_PER_WARP = 32
#: "Number of 32-bit registers per SM", as many for one block, and "Maximum number of 32-bit registers per thread"
#: (same guide, table "Memory Information per Compute Capability"): one value for all.
REGISTERS_PER_MULTIPROCESSOR = 65_536
MAX_REGISTERS_PER_THREAD = 255
#: Columns of tensor memory on one multiprocessor of sm_100 ("512 columns and 128 rows per CTA": PTX ISA, "Tensor
#: Memory"). Blocks that find too little of it wait, so it is no limit on how many are resident.
MAX_TENSOR_MEMORY_COLUMNS = 512
#: Registers are handed out to a warp in units of 256, and warps to the four schedulers of a multiprocessor evenly
#: (cuda_occupancy.h of the CUDA Toolkit 13: cudaOccRegAllocationGranularity, cudaOccSubPartitionsPerMultiprocessor;
#: the same from sm_75 to sm_120).
_REGISTER_UNIT = 256
_SCHEDULERS = 4
_KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """Limits of one compute capability.

    Source, where a field names no other: CUDA Programming Guide 13, "Compute Capabilities" (the CUDA C++ Programming
    Guide's "Technical Specifications per Compute Capability" until 12), whose KB are 1024 bytes. The numbers of
    blocks are in cuda_occupancy.h too (cudaOccMaxBlocksPerMultiprocessor).
    """

    #: "Maximum amount of shared memory per thread block": the opt-in maximum, which Triton's launcher asks for.
    shared_memory_per_block_bytes: int
    #: "Maximum amount of shared memory per SM".
    shared_memory_per_multiprocessor_bytes: int
    #: "Maximum number of resident warps per SM".
    max_warps: int
    #: "Maximum number of resident blocks per SM".
    max_blocks: int
    #: How many float32 operations a multiprocessor makes in the time of one in float64: "Ratio of FP32 to FP64
    #: Throughput", tensor cores aside.
    float64_slowdown: int
    #: What the driver keeps of each block's shared memory ("the 1 KB of shared memory not made available to a thread
    #: block is reserved for system use": the guide's 13.1, "Shared Memory" of 8.x to 12.0; none on 7.5).
    reserved_shared_memory_bytes: int = 1 * _KIB
    #: Shared memory is handed out in these units (cuda_occupancy.h: cudaOccSMemAllocationGranularity).
    shared_memory_unit_bytes: int = 128


ARCHITECTURES = {
    75: Architecture(
        64 * _KIB, 64 * _KIB, max_warps=32, max_blocks=16, float64_slowdown=32, reserved_shared_memory_bytes=0,
        shared_memory_unit_bytes=256,
    ),
    80: Architecture(163 * _KIB, 164 * _KIB, max_warps=64, max_blocks=32, float64_slowdown=2),
    86: Architecture(99 * _KIB, 100 * _KIB, max_warps=48, max_blocks=16, float64_slowdown=64),
    89: Architecture(99 * _KIB, 100 * _KIB, max_warps=48, max_blocks=24, float64_slowdown=64),
    90: Architecture(227 * _KIB, 228 * _KIB, max_warps=64, max_blocks=32, float64_slowdown=2),
    100: Architecture(227 * _KIB, 228 * _KIB, max_warps=64, max_blocks=32, float64_slowdown=2),
    120: Architecture(99 * _KIB, 100 * _KIB, max_warps=48, max_blocks=24, float64_slowdown=64),
}  # fmt: skip


def blocks_per_multiprocessor(arch: int, *, registers: int, shared_memory_bytes: int, warps: int) -> int:
    """How many blocks can be resident on one multiprocessor at once: an upper bound, 0 if none fits.

    `registers` are a thread's, `shared_memory_bytes` and `warps` a block's. The smallest of what blocks, warps,
    registers and shared memory allow, by the rules of cuda_occupancy.h (CUDA Toolkit 13: the functions
    cudaOccMaxBlocksPerSMWarpsLimit, ...RegsLimit and ...SmemLimit). A warp takes its 32 x `registers` rounded up to
    256; each of the four schedulers has a quarter of the registers; a block launches only if as many warps as fill
    the schedulers evenly have room. Left out are named barriers, tensor memory and clusters, which may allow fewer.
    Raises KeyError for an unknown `arch`.
    """
    limits = ARCHITECTURES[arch]
    registers_per_warp = _round_up(max(registers, 1) * THREADS_PER_WARP, _REGISTER_UNIT)
    shared_of_block = _round_up(
        shared_memory_bytes + limits.reserved_shared_memory_bytes, limits.shared_memory_unit_bytes
    )
    if (
        warps * THREADS_PER_WARP > MAX_THREADS_PER_BLOCK
        or registers_per_warp * _round_up(warps, _SCHEDULERS) > REGISTERS_PER_MULTIPROCESSOR
        or shared_memory_bytes > limits.shared_memory_per_block_bytes
    ):
        return 0
    warps_by_registers = REGISTERS_PER_MULTIPROCESSOR // _SCHEDULERS // registers_per_warp * _SCHEDULERS
    by_shared_memory = limits.shared_memory_per_multiprocessor_bytes // max(shared_of_block, 1)
    return min(limits.max_blocks, limits.max_warps // warps, warps_by_registers // warps, by_shared_memory)


def occupancy(arch: int, *, registers: int, shared_memory_bytes: int, warps: int) -> float:
    """Resident warps as a fraction of the most that the multiprocessor holds: 0.0 to 1.0, an upper bound."""
    blocks = blocks_per_multiprocessor(arch, registers=registers, shared_memory_bytes=shared_memory_bytes, warps=warps)
    return blocks * warps / ARCHITECTURES[arch].max_warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
