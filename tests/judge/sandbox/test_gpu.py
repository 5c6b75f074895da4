"""What the sandbox is told of a GPU: tried with invented devices, for there is none in CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpgrade.course import Limits
from warpgrade.judge.sandbox import SandboxUnavailable, gpu
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox
from warpgrade.judge.sandbox.device_code import Mounts
from warpgrade.judge.sandbox.gpu import GpuAccess, gpu_access


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    (folder / "nvidia-caps").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "sda", "null"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("minor", [0, 1])
def test_one_gpu_and_what_cuda_opens_are_shown(dev: Path, minor: int) -> None:
    access = gpu_access([], minor, trusted=True, dev=dev)
    assert [path.name for path in access.devices] == [f"nvidia{minor}", "nvidiactl", "nvidia-uvm"]
    flags = access.device_flags()
    assert flags[3:6] == ["--dev-bind", str(dev / "nvidiactl"), str(dev / "nvidiactl")]


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="no NVIDIA GPU"):
        gpu_access([], dev=tmp_path)


def test_without_this_gpu_it_says_so(dev: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="nvidia7"):
        gpu_access([], 7, dev=dev)


def test_the_drivers_folder_is_passed_on(dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, other = tmp_path / "driver", tmp_path / "other"
    driver.mkdir()
    other.mkdir()
    (driver / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{other}:relative:{driver}")
    access = gpu_access([], trusted=True, dev=dev)
    assert access.environment == {"LD_LIBRARY_PATH": str(driver)}
    assert access.library_flags() == ["--ro-bind", str(driver), str(driver)]


def test_submissions_get_no_device_code_and_baselines_do(
    dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(gpu, "mounts", lambda folders: asked.append(folders) or Mounts([], [tmp_path / "x.a"], []))
    gpu._hidden.cache_clear()
    assert gpu_access([tmp_path], trusted=True, dev=dev).hidden is None
    assert asked == []
    for _ in range(2):
        assert gpu_access([tmp_path], dev=dev).hidden is not None
    gpu._hidden.cache_clear()
    ((first, *system),) = asked  # once for a process
    assert first == tmp_path
    assert Path("/usr/local") in system


def test_the_sandbox_mounts_it_over_the_environment_and_before_it_is_sealed(tmp_path: Path) -> None:
    access = GpuAccess([Path("/dev/null")], [], Mounts([(Path("/usr/lib/a.so"), tmp_path / "stub")], [], []))
    sandbox = BubblewrapSandbox(access)
    flags = sandbox._flags(Limits(), [Path("/opt/env")], {}, [3, 4, 5])
    over = flags.index(str(tmp_path / "stub"))
    assert flags[over + 1] == "/usr/lib/a.so"
    assert flags.index("/opt/env") < over < flags.index("--remount-ro", over)
    device = flags.index("--dev-bind")
    assert flags[device + 1 : device + 3] == ["/dev/null", "/dev/null"]
    assert flags.index("--dev") < device
    assert "--dev-bind" not in BubblewrapSandbox()._flags(Limits(), [], {}, [3, 4, 5])
