"""Counts of memory traffic, as a GPU would see it.

Global memory moves in 32-byte sectors, and the accesses of a warp's 32 threads are coalesced into as many sectors as
they touch (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory": for compute capability 6.0 and above,
"the concurrent accesses of the threads of a warp will coalesce into a number of transactions equal to the number of
32-byte transactions necessary to service all of the threads of the warp").

Which lanes share a warp is the compiler's choice. Counted here: groups of 32 neighbours of the block, along the axis
that is contiguous in memory if there is one, because Triton's coalescing pass lays threads out along that axis.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SECTOR_BYTES = 32
_SECTOR_SHIFT = np.uint64(5)
_WARP_LANES = 32


@dataclass
class Traffic:
    """What one argument saw in one launch.

    Bytes are useful ones: a lane that is masked off moves nothing, and lanes of a group that share an address count
    once. An atomic counts as a store. `loads` and `stores` count executed block instructions, summed over programs.
    """

    loads: int = 0
    stores: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    sectors_loaded: int = 0
    sectors_stored: int = 0

    @property
    def load_efficiency(self) -> float:
        """Useful bytes per byte moved by loads, 0 to 1; 1 if nothing was loaded."""
        return self.bytes_loaded / (SECTOR_BYTES * self.sectors_loaded) if self.sectors_loaded else 1.0

    @property
    def store_efficiency(self) -> float:
        """Useful bytes per byte moved by stores, 0 to 1; 1 if nothing was stored."""
        return self.bytes_stored / (SECTOR_BYTES * self.sectors_stored) if self.sectors_stored else 1.0

    def add(self, *, stored: bool, useful_bytes: int, sectors: int) -> None:
        """Count one instruction."""
        if stored:
            self.stores += 1
            self.bytes_stored += useful_bytes
            self.sectors_stored += sectors
        else:
            self.loads += 1
            self.bytes_loaded += useful_bytes
            self.sectors_loaded += sectors


def total(traffic: Collection[Traffic]) -> Traffic:
    """The sum of all."""
    return Traffic(*(sum(getattr(one, name) for one in traffic) for name in Traffic.__dataclass_fields__))


def coalesce(addresses: Array, mask: Array | None, item_bytes: int) -> tuple[int, int]:
    """(useful bytes, sectors) of one access: `addresses` uint64 in the block's shape, `mask` bool of it or None."""
    if addresses.size == 1:
        return item_bytes, _straddled(addresses.reshape(-1), item_bytes)
    if addresses.ndim > 1:
        axis = _contiguous_axis(addresses, item_bytes)
        addresses = np.moveaxis(addresses, axis, -1)
        mask = None if mask is None else np.moveaxis(mask, axis, -1)
    lanes = addresses.reshape(-1, min(_WARP_LANES, addresses.size))
    if mask is not None:
        active = mask.reshape(lanes.shape)
        busy = active.any(axis=1)
        lanes, active = lanes[busy], active[busy]
        # A lane that does nothing takes the address of one that does something, and so adds neither bytes nor sectors.
        lanes = np.where(active, lanes, np.where(active, lanes, np.uint64(0)).max(axis=1, keepdims=True))
    if not (lanes[:, 1:] >= lanes[:, :-1]).all():
        lanes = np.sort(lanes, axis=1)
    sectors = lanes >> _SECTOR_SHIFT
    return item_bytes * _distinct(lanes), _distinct(sectors)


def _distinct(rows: Array) -> int:
    """Distinct values in each sorted row, summed."""
    return int(rows.shape[0] + np.count_nonzero(rows[:, 1:] != rows[:, :-1]))


def _straddled(addresses: Array, item_bytes: int) -> int:
    first = int(addresses[0])
    return (first + item_bytes - 1) // SECTOR_BYTES - first // SECTOR_BYTES + 1


def _contiguous_axis(addresses: Array, item_bytes: int) -> int:
    """The last axis along which neighbours are adjacent in memory; the last axis if there is none."""
    first = addresses[(0,) * addresses.ndim]
    for axis in reversed(range(addresses.ndim)):
        if addresses.shape[axis] > 1:
            neighbour = addresses[tuple(int(a == axis) for a in range(addresses.ndim))]
            if int(neighbour) - int(first) == item_bytes:
                return axis
    return addresses.ndim - 1
