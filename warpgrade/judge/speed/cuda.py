"""The real GPU: `Device` by torch's own kernels, which the Judge's process has, and the driver's counters."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import psutil
import pynvml
import torch
from cuda.bindings import driver

from warpgrade.judge.speed.device import DeviceFacts, DeviceLost, DoesNotFit
from warpgrade.judge.verdict import DeviceState
from warpgrade.wire.device_memory import GRANULARITY_BYTES, HANDLE_TYPE, checked, map_handle

#: A canary copy takes about this long: enough to be measured to 1%, short beside a message.
_CANARY_S = 1e-3
#: For finding the speed of a large copy: more than any cache, less than a tenth of the smallest GPU's memory.
_PROBE_BYTES = 1 << 30
_PROBES = 20

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _on_device(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """What CUDA says is wrong, in this module's words."""

    def run(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with _errors():
            return method(*arguments, **keywords)

    run.__doc__, run.__name__ = method.__doc__, method.__name__
    return run


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DoesNotFit(str(error)[:500]) from error
    except (RuntimeError, pynvml.NVMLError) as error:
        if "CUDA_ERROR_OUT_OF_MEMORY" in str(error):
            raise DoesNotFit(str(error)[:500]) from error
        raise DeviceLost(f"{type(error).__name__}: {str(error)[:500]}") from error


class CudaDevice:
    """One GPU, by its index among those that CUDA sees. Raises DeviceLost where it cannot be used.

    Takes what it needs for canaries at once, and everything else in `block` and `private`.
    """

    @_on_device
    def __init__(self, index: int = 0) -> None:
        torch.cuda.set_device(index)
        torch.empty(1, device="cuda")  # torch's context becomes current
        pynvml.nvmlInit()
        properties = torch.cuda.get_device_properties(index)
        uuid = str(properties.uuid)
        self._nvml = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        #: The number of its device file, /dev/nvidia<minor>.
        self.minor = int(pynvml.nvmlDeviceGetMinorNumber(self._nvml))
        self._handles: list[tuple[Any, int, int]] = []
        self._descriptors: dict[int, int] = {}
        self._utilisation_seen_us = 0
        copy_gbps = _quiet_copy_gbps()
        self._canary = [
            torch.empty(int(_CANARY_S * copy_gbps * 1e9 / 2), dtype=torch.uint8, device="cuda") for _ in range(2)
        ]
        torch.cuda.empty_cache()
        free_bytes, _ = torch.cuda.mem_get_info()
        self.facts = DeviceFacts(
            name=properties.name,
            uuid=f"GPU-{uuid.removeprefix('GPU-')}",
            driver=_text(pynvml.nvmlSystemGetDriverVersion()),
            free_bytes=free_bytes,
            quiet_copy_gbps=copy_gbps,
            peak_bandwidth_gbps=self._peak_bandwidth_gbps(),
        )

    def _peak_bandwidth_gbps(self) -> float:
        """Twice the memory's clock (both edges) times its width."""
        clock_mhz = pynvml.nvmlDeviceGetMaxClockInfo(self._nvml, pynvml.NVML_CLOCK_MEM)
        width_bits = pynvml.nvmlDeviceGetMemoryBusWidth(self._nvml)
        return float(2 * clock_mhz * 1e6 * width_bits / 8 / 1e9)

    # --- Device --------------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        """See `Device.now_s`."""
        return time.perf_counter()

    @_on_device
    def synchronize(self) -> None:
        """See `Device.synchronize`."""
        torch.cuda.synchronize()

    @_on_device
    def block(self, size_bytes: int) -> torch.Tensor:
        """See `Device.block`."""
        torch.cuda.empty_cache()  # what torch keeps for later is not there for others
        mapped_bytes = -(-size_bytes // GRANULARITY_BYTES) * GRANULARITY_BYTES
        kind = driver.CUmemAllocationProp()
        kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        kind.location.id = torch.cuda.current_device()
        kind.requestedHandleTypes = HANDLE_TYPE
        handle = checked(driver.cuMemCreate(mapped_bytes, kind, 0))
        block = map_handle(handle, size_bytes)
        self._handles.append((handle, block.data_ptr(), mapped_bytes))
        self._descriptors[block.data_ptr()] = int(checked(driver.cuMemExportToShareableHandle(handle, HANDLE_TYPE, 0)))
        return block

    def descriptor(self, block: torch.Tensor) -> int:
        """See `Device.descriptor`."""
        return self._descriptors[block.data_ptr()]

    @_on_device
    def private(self, like: torch.Tensor) -> torch.Tensor:
        """See `Device.private`."""
        return torch.empty_like(like)

    @_on_device
    def normal_(self, tensor: torch.Tensor, seed: int, mean: float, std: float) -> None:
        """See `Device.normal_`."""
        tensor.normal_(mean, std, generator=torch.Generator("cuda").manual_seed(seed))

    @_on_device
    def copy_(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Device.copy_`."""
        target.copy_(source)

    @_on_device
    def poison_(self, tensor: torch.Tensor, word: int) -> None:
        """See `Device.poison_`."""
        tensor.view(torch.int32).fill_(word)

    @_on_device
    def gather(self, tensor: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """See `Device.gather`."""
        return tensor.flatten()[positions]

    @_on_device
    def positions(self, count: int, below: int, seed: int) -> torch.Tensor:
        """See `Device.positions`."""
        generator = torch.Generator("cuda").manual_seed(seed)
        return torch.randint(below, (count,), generator=generator, device="cuda")

    @_on_device
    def canary_ms(self) -> float:
        """See `Device.canary_ms`."""
        target, source = self._canary
        target[:4096].copy_(source[:4096])  # takes the turn from whoever had the GPU
        torch.cuda.synchronize()
        started_s = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - started_s)

    def canary_bytes(self) -> int:
        """See `Device.canary_bytes`."""
        return 2 * self._canary[0].numel()

    @_on_device
    def state(self) -> DeviceState:
        """See `Device.state`."""
        return DeviceState(
            sm_clock_mhz=_told(pynvml.nvmlDeviceGetClockInfo, self._nvml, pynvml.NVML_CLOCK_SM),
            memory_clock_mhz=_told(pynvml.nvmlDeviceGetClockInfo, self._nvml, pynvml.NVML_CLOCK_MEM),
            temperature_c=_told(pynvml.nvmlDeviceGetTemperature, self._nvml, pynvml.NVML_TEMPERATURE_GPU),
            throttle_reasons=self._throttle_reasons(),
            others_busy_percent=self._others_busy_percent(),
        )

    def _throttle_reasons(self) -> list[str]:
        bits = _told(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self._nvml) or 0
        prefix = "nvmlClocksThrottleReason"
        names = {
            name.removeprefix(prefix): getattr(pynvml, name)
            for name in dir(pynvml)
            if name.startswith(prefix) and name.removeprefix(prefix) not in ("All", "None", "GpuIdle")
        }
        return sorted(name for name, bit in names.items() if isinstance(bit, int) and bits & bit)

    def _others_busy_percent(self) -> int | None:
        """The busiest foreign process since the last time. None where the driver does not tell processes apart."""
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(self._nvml, self._utilisation_seen_us)
        except pynvml.NVMLError_NotFound:
            return 0  # nobody has used it since
        except pynvml.NVMLError_NotSupported:
            return None
        self._utilisation_seen_us = max([self._utilisation_seen_us, *(sample.timeStamp for sample in samples)])
        own = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        # A pid that does not live any more is one of our own Workers that has ended: a neighbour's comes again.
        others = [sample.smUtil for sample in samples if sample.pid not in own and psutil.pid_exists(sample.pid)]
        return int(max(others, default=0))

    @_on_device
    def release(self) -> None:
        """See `Device.release`. Tensors on it must not be used any more."""
        torch.cuda.synchronize()
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        for handle, address, mapped_bytes in self._handles:
            checked(driver.cuMemUnmap(address, mapped_bytes))
            checked(driver.cuMemAddressFree(address, mapped_bytes))
            checked(driver.cuMemRelease(handle))
        self._handles, self._descriptors = [], {}
        torch.cuda.empty_cache()


def _quiet_copy_gbps() -> float:
    """The fastest of some large copies, reads and writes together. A neighbour who is always busy makes it too slow:
    then the driver's count of others' work is what tells."""
    source, target = (torch.empty(_PROBE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    best_s = float("inf")
    for _ in range(_PROBES):
        torch.cuda.synchronize()
        started_s = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        best_s = min(best_s, time.perf_counter() - started_s)
    return 2 * _PROBE_BYTES / best_s / 1e9


def _told(ask: Callable[..., Any], *arguments: Any) -> int | None:
    """What the driver says; None where it says nothing about this."""
    try:
        return int(ask(*arguments))
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission):
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
