"""What a sandbox shows of an NVIDIA GPU: its device files, the driver's libraries, and no library's device code."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.device_code import Mounts, mounts

#: Beside the environment itself: where distributions and NVIDIA's installers put libraries with device code.
_SYSTEM_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local")
#: What CUDA opens besides the GPU itself.
_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")


@dataclass(frozen=True)
class GpuAccess:
    """`devices` and `libraries` (folders) are shown; `hidden` is mounted over what has device code, None: nothing."""

    devices: list[Path]
    libraries: list[Path]
    hidden: Mounts | None

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find the driver's libraries."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}

    def device_flags(self) -> list[str]:
        """For bubblewrap, where /dev is made."""
        return [flag for path in self.devices for flag in ("--dev-bind", str(path), str(path))]

    def library_flags(self) -> list[str]:
        """For bubblewrap, after the binds of all folders."""
        outside = [path for path in self.libraries if not path.is_relative_to("/usr")]
        flags = [flag for path in outside for flag in ("--ro-bind", str(path), str(path))]
        return flags + (self.hidden.flags() if self.hidden else [])


def gpu_access(
    environment: list[Path], minor: int = 0, *, trusted: bool = False, dev: Path = Path("/dev")
) -> GpuAccess:
    """Access to the GPU with this minor number, and to no other, for a sandbox with the Python `environment` (folders).

    A second GPU could read the first one's memory while the judge fills it. `trusted`: for our own baselines, which may
    call libraries. Raises SandboxUnavailable where there is no such GPU.
    """
    gpu = dev / f"nvidia{minor}"
    if not gpu.exists():
        raise SandboxUnavailable(f"there is no NVIDIA GPU here: no {gpu}. `warpgrade doctor` says more")
    devices = [gpu, *(dev / name for name in _DEVICES if (dev / name).exists())]
    named = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    libraries = [folder for folder in named if any(folder.glob("libcuda.so*"))]
    return GpuAccess(devices, libraries, None if trusted else _hidden(tuple(environment)))


@functools.cache
def _hidden(environment: tuple[Path, ...]) -> Mounts:
    """Once in a process: every file of the environment is looked at, which takes seconds."""
    return mounts([*environment, *map(Path, _SYSTEM_FOLDERS)])
