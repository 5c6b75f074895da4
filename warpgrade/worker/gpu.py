"""On the GPU: shared blocks by descriptor, and constants without a library's kernels.

In the sandbox of the GPU tier no library has device code, so `torch.zeros`, `ones`, `full`, `zero_` and `fill_` would
fail. They are no compute, and honest launchers need them; here the driver's own memset does them.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from cuda.bindings import driver
from torch.utils._python_dispatch import TorchDispatchMode

from warpgrade.wire.device_memory import HANDLE_TYPE, checked, map_handle

_FILLS = frozenset(
    {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"}
)
_EMPTY_FOR = {"": "empty", "_like": "empty_like", "new_": "new_empty"}


def map_block(descriptor: int, size_bytes: int) -> torch.Tensor:
    """The block of device memory behind a descriptor, as uint8. Closes the descriptor. Raises RuntimeError."""
    torch.empty(1, device="cuda")  # torch's context becomes current
    try:
        handle = checked(driver.cuMemImportFromShareableHandle(descriptor, HANDLE_TYPE))
    finally:
        os.close(descriptor)
    return map_handle(handle, size_bytes)


def fill(tensor: torch.Tensor, value: float) -> None:
    """Queue filling a contiguous tensor on the GPU with `value`, on torch's current stream. Raises RuntimeError."""
    count, itemsize = tensor.numel(), tensor.element_size()
    if not count:
        return
    raw = torch.tensor([value], dtype=tensor.dtype).view(torch.uint8).numpy().tobytes()
    stream, address = torch.cuda.current_stream().cuda_stream, tensor.data_ptr()
    if itemsize == 8 and raw[:4] != raw[4:]:
        for half in (0, 4):  # 32 bits of each element, and then the others
            word = int.from_bytes(raw[half : half + 4], "little")
            checked(driver.cuMemsetD2D32Async(address + half, 8, word, 1, count, stream))
        return
    if itemsize == 8:
        raw, count, itemsize = raw[:4], 2 * count, 4
    memset = {1: driver.cuMemsetD8Async, 2: driver.cuMemsetD16Async, 4: driver.cuMemsetD32Async}[itemsize]
    checked(memset(address, int.from_bytes(raw, "little"), count, stream))


class Constants(TorchDispatchMode):
    """While active, tensors on the GPU are made and filled with a constant without a kernel of torch's."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """See `watch.Watch`."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name in _FILLS:
            return self._made(func, name, args, kwargs)
        if name in ("zero_", "fill_") and args[0].is_cuda and args[0].is_contiguous():
            value = 0 if name == "zero_" else args[1]
            if not isinstance(value, torch.Tensor) or not value.is_cuda:
                fill(args[0], value.item() if isinstance(value, torch.Tensor) else value)
                return args[0]
        return func(*args, **kwargs)

    def _made(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = kwargs.get("device")
        like = args[0] if isinstance(args[0], torch.Tensor) else None
        on_gpu = torch.device(device).type == "cuda" if device is not None else like is not None and like.is_cuda
        if not on_gpu:
            return func(*args, **kwargs)
        filled = "full" in name
        value = args[-1] if filled else 1 if "ones" in name else 0
        shape = args[: len(args) - filled]
        if filled and like is None and kwargs.get("dtype") is None:
            kwargs = {**kwargs, "dtype": torch.tensor(value).dtype}
        kind = "new_" if name.startswith("new_") else "_like" if name.endswith("_like") else ""
        made = getattr(torch.ops.aten, _EMPTY_FOR[kind])(*shape, **kwargs)
        fill(made, value)
        return made


def provide_constants() -> None:
    """Have `Constants` active for the life of the process."""
    Constants().__enter__()  # type: ignore[no-untyped-call]
