"""Device memory that crosses by a file descriptor: `cuMemCreate` on the Judge's side, mapped by both.

Imported only where there is a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from cuda.bindings import driver

#: Memory of `cuMemCreate` is mapped in units of this (design/on-the-gpu: 2 MiB).
GRANULARITY_BYTES = 2 * 1024**2
HANDLE_TYPE = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def checked(result: tuple[Any, ...]) -> Any:
    """What a call of the driver gave. Raises RuntimeError with the driver's name of the error."""
    error, *values = result
    if int(error):
        raise RuntimeError(f"CUDA driver: {error.name}")
    return values[0] if len(values) == 1 else values


class _Memory:
    """Device memory as torch takes it, without a copy."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def map_handle(handle: Any, size_bytes: int) -> torch.Tensor:
    """Map physical memory for reading and writing: uint8, 1-D, for the life of the process. Raises RuntimeError."""
    mapped_bytes = -(-size_bytes // GRANULARITY_BYTES) * GRANULARITY_BYTES
    address = checked(driver.cuMemAddressReserve(mapped_bytes, 0, 0, 0))
    checked(driver.cuMemMap(address, mapped_bytes, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = torch.cuda.current_device()
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    checked(driver.cuMemSetAccess(address, mapped_bytes, [access], 1))
    return torch.as_tensor(_Memory(int(address), size_bytes), device="cuda")
