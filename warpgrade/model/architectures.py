"""What each GPU architecture offers a block, and how many blocks fit one multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

#: Compiled for where the caller names none: the two that the course's exercises are written for.
DEFAULT_ARCHITECTURES = (80, 90)
MAX_THREADS_PER_BLOCK = 1024
THREADS_PER_WARP = 32
REGISTERS_PER_MULTIPROCESSOR = 65_536
MAX_REGISTERS_PER_THREAD = 255
#: Columns of tensor memory on one multiprocessor of sm_100 (PTX ISA, "Tensor Memory Addressing").
MAX_TENSOR_MEMORY_COLUMNS = 512
#: Registers are handed out to a warp in units of 256, and warps to the four schedulers of a multiprocessor evenly
#: (cuda_occupancy.h of the CUDA Toolkit: cudaOccRegAllocationGranularity, cudaOccSubPartitionsPerMultiprocessor).
_REGISTER_UNIT = 256
_SCHEDULERS = 4
_KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """Limits of one compute capability.

    Source: CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute
    Capability". Shared memory of a block is the opt-in maximum, which Triton's launcher asks for.
    """

    shared_memory_per_block_bytes: int
    shared_memory_per_multiprocessor_bytes: int
    max_warps: int
    max_blocks: int
    #: How many float32 operations a multiprocessor makes in the time of one in float64 (same guide, "Throughput of
    #: Native Arithmetic Instructions").
    float64_slowdown: int
    #: What the driver keeps of each block's shared memory (same guide, "Shared Memory" of each capability).
    reserved_shared_memory_bytes: int = 1 * _KIB


ARCHITECTURES = {
    75: Architecture(
        64 * _KIB, 64 * _KIB, max_warps=32, max_blocks=16, float64_slowdown=32, reserved_shared_memory_bytes=0
    ),
    80: Architecture(163 * _KIB, 164 * _KIB, max_warps=64, max_blocks=32, float64_slowdown=2),
    86: Architecture(99 * _KIB, 100 * _KIB, max_warps=48, max_blocks=16, float64_slowdown=64),
    89: Architecture(99 * _KIB, 100 * _KIB, max_warps=48, max_blocks=24, float64_slowdown=64),
    90: Architecture(227 * _KIB, 228 * _KIB, max_warps=64, max_blocks=32, float64_slowdown=2),
    100: Architecture(227 * _KIB, 228 * _KIB, max_warps=64, max_blocks=32, float64_slowdown=2),
    120: Architecture(99 * _KIB, 100 * _KIB, max_warps=48, max_blocks=24, float64_slowdown=64),
}


def blocks_per_multiprocessor(arch: int, *, registers: int, shared_memory_bytes: int, warps: int) -> int:
    """How many blocks can be resident on one multiprocessor at once: an upper bound, 0 if none fits.

    `registers` are a thread's, `shared_memory_bytes` and `warps` a block's. The smallest of what blocks, warps,
    registers and shared memory allow, with the roundings of cuda_occupancy.h (CUDA Toolkit): a warp takes its
    32 x `registers` rounded up to 256, and the warps that registers allow are a multiple of the four schedulers.
    """
    limits = ARCHITECTURES[arch]
    registers_per_warp = _round_up(max(registers, 1) * THREADS_PER_WARP, _REGISTER_UNIT)
    warps_by_registers = REGISTERS_PER_MULTIPROCESSOR // _SCHEDULERS // registers_per_warp * _SCHEDULERS
    by_registers = warps_by_registers // _round_up(warps, _SCHEDULERS)
    shared_of_block = shared_memory_bytes + limits.reserved_shared_memory_bytes
    fits = shared_memory_bytes <= limits.shared_memory_per_block_bytes
    by_shared_memory = limits.shared_memory_per_multiprocessor_bytes // max(shared_of_block, 1) if fits else 0
    return min(limits.max_blocks, limits.max_warps // warps, by_registers, by_shared_memory)


def occupancy(arch: int, *, registers: int, shared_memory_bytes: int, warps: int) -> float:
    """Resident warps as a fraction of the most that the multiprocessor holds: 0.0 to 1.0, an upper bound."""
    blocks = blocks_per_multiprocessor(arch, registers=registers, shared_memory_bytes=shared_memory_bytes, warps=warps)
    return blocks * warps / ARCHITECTURES[arch].max_warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
