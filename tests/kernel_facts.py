"""Facts about a kernel with nothing special to it, for tests of what is made of facts."""

from __future__ import annotations

from typing import Any

import msgspec

from warpgrade.wire.compiled import CompiledKernel

_PLAIN = CompiledKernel(
    name="double", arch=80, registers_per_thread=16, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0,
    shared_memory_bytes=0, shared_memory_limit_bytes=1, tensor_memory_columns=0, warps=4, stages=3, maxnreg=0, ctas=1,
    dots=(), tensor_core_instructions={}, accesses=(), loads_by_bits={}, stores_by_bits={}, bulk_copies=0,
    async_copies=0, atomics=0, shuffles=0, barriers=0, occupancy=1.0, wide_offset_lines=(), float64_lines=(),
    unaligned=(), unaligned_pointers=(), explained=True, narrowed_by=(), accesses_if_aligned=0, wide_integers=(), compile_s=0.1,
)  # fmt: skip


def facts(arch: int, **changes: Any) -> CompiledKernel:
    """Facts for one architecture, with some of them changed."""
    return msgspec.structs.replace(_PLAIN, arch=arch, **changes)
