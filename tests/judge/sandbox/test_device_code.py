"""Libraries without device code: what is taken out, what stays, and that PyTorch and Triton still work without it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.bubblewrap import python_folders
from warpgrade.judge.sandbox.device_code import copy_without, device_sections, mounts, write_stub

LIBRARY = r"""
__attribute__((section(".nv_fatbin"))) const volatile char kernels[4096] = "device code";
const char host[] = "host data";
int answer(void) { return 42 + kernels[0]; }
const char *answerGetErrorString(int e) { return host; }
int _ZN5innerEv(void) { return 7; }
"""


def library(folder: Path, name: str = "libanswer.so.1", *, version: str = "", source: str = LIBRARY) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    code, script = folder / "library.c", folder / "versions"
    code.write_text(source)
    command = ["cc", "-shared", "-fPIC", "-o", str(path), str(code), f"-Wl,-soname,{name.split('/')[-1]}"]
    if version:
        script.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script,{script}")
    subprocess.run(command, check=True)
    return path


# --- zeros -----------------------------------------------------------------------------------------------------------


def test_device_code_is_found_and_taken_out_and_nothing_else(tmp_path: Path) -> None:
    path, copy = library(tmp_path), tmp_path / "copy.so"
    ((offset, size),) = device_sections(path)
    assert path.read_bytes()[offset : offset + 11] == b"device code"
    copy_without(path, copy, [(offset, size)])
    before, after = path.read_bytes(), copy.read_bytes()
    assert after[offset : offset + size] == bytes(size)
    assert (after[:offset], after[offset + size :]) == (before[:offset], before[offset + size :])
    # its code runs as before, and finds zeros
    assert ctypes.CDLL(str(path)).answer() == 42 + ord("d")
    assert ctypes.CDLL(str(copy)).answer() == 42


def test_several_parts_and_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(1, 101)))
    copy_without(path, tmp_path / "copy", [(90, 10), (3, 4)])
    expected = bytearray(range(1, 101))
    expected[3:7] = bytes(4)
    expected[90:] = bytes(10)
    assert (tmp_path / "copy").read_bytes() == expected


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF", b"GROUP ( libc.so.6 )", b"\x7fELF\x02\x01" + bytes(58)]
)
def test_what_is_no_library_has_no_device_code(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    assert device_sections(path) == []


def test_a_library_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    path = library(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SandboxUnavailable, match="cannot be read"):
        device_sections(path)


# --- stubs -----------------------------------------------------------------------------------------------------------


def test_a_stub_has_every_function_and_all_fail(tmp_path: Path) -> None:
    stub = tmp_path / "stub.so"
    write_stub(library(tmp_path), stub)
    loaded = ctypes.CDLL(str(stub))
    assert loaded.answer() == 1
    loaded.answerGetErrorString.restype = ctypes.c_char_p
    assert b"your own kernel" in loaded.answerGetErrorString(3)
    assert b"device code" not in stub.read_bytes()


def test_a_program_that_was_linked_with_the_library_starts_with_the_stub(tmp_path: Path) -> None:
    """With symbol versions, as cuBLAS has them: the loader refuses a library without."""
    path = library(tmp_path, version="libanswer.so.1")
    code, program = tmp_path / "main.c", tmp_path / "program"
    code.write_text("int answer(void); int main(void) { return answer(); }")
    subprocess.run(["cc", "-o", str(program), str(code), str(path), f"-Wl,-rpath,{tmp_path / 'used'}"], check=True)
    (tmp_path / "used").mkdir()
    write_stub(path, tmp_path / "used" / path.name)
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install gcc"):
        write_stub(path, tmp_path / "stub.so")


# --- an environment --------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A small one, with something of every kind."""
    site = tmp_path / "env/lib/python3.11/site-packages"
    for name in ("nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/lib/libcudart.so.13", "torch/lib/libtorch_cuda.so",
                 "other/_C.so"):  # fmt: skip
        library(site, name)
    for name in ("torch/lib/libtorch_cpu.so", "nvidia/bindings/nvml.cpython-311-x86_64-linux-gnu.so"):
        library(site, name, source="int f(void) { return 1; }")
    kernel = "import triton\n@triton.jit\ndef kernel(x): pass\n"
    for name in (
        "torch/_inductor/codegen.py",
        "torch/sparse/_triton_ops.py",
        "liger/ops.py",
        "triton/language/core.py",
    ):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(kernel)
    (site / "torch/__init__.py").write_text("# use @triton.jit\n")
    for name in ("libcublas_static.a", "libcudart_static.a", "libdevice_of_nccl.bc"):
        (site / "nvidia/cu13/lib" / name).write_text("archive")
    (site / "torch/lib/libtorch.so").symlink_to("libtorch_cuda.so")
    return tmp_path / "env"


def names(paths: list[Path]) -> set[str]:
    return {path.name for path in paths}


def test_each_kind_is_treated_as_it_should_be(environment: Path, tmp_path: Path) -> None:
    made = mounts([environment], tmp_path / "cache")
    instead = {target.name: source for target, source in made.files}
    assert set(instead) == {"libcublas.so.13", "libtorch_cuda.so", "_C.so"}
    assert ctypes.CDLL(str(instead["libcublas.so.13"])).answer() == 1
    assert ctypes.CDLL(str(instead["libtorch_cuda.so"])).answer() == 42
    assert names(made.empty_files) == {"_triton_ops.py", "ops.py", "libcublas_static.a", "libdevice_of_nccl.bc"}
    assert names(made.empty_folders) == {"_inductor"}
    assert all(stat_mode(source) & 0o444 == 0o444 for source in instead.values()), "for whoever the Worker is"


def stat_mode(path: Path) -> int:
    return path.stat().st_mode


def test_it_is_made_once_and_again_when_a_library_changes(environment: Path, tmp_path: Path, capfd: object) -> None:
    cache = tmp_path / "cache"
    first = mounts([environment], cache)
    assert mounts([environment], cache) == first
    (target, source) = next(pair for pair in first.files if pair[0].name == "libtorch_cuda.so")
    os.utime(target, ns=(1, 1))
    second = dict(mounts([environment], cache).files)
    assert second[target] != source
    assert source.exists()
    assert not list(cache.glob(".new-*"))


def test_where_it_cannot_be_kept_nothing_is_judged(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(SandboxUnavailable, match="cannot be made"):
        mounts([environment], tmp_path / "cache")


def test_flags_mount_over_what_is_there(environment: Path, tmp_path: Path) -> None:
    flags = mounts([environment], tmp_path / "cache").flags()
    assert flags.count("--ro-bind") == 3 + 4
    compiler = str(environment / "lib/python3.11/site-packages/torch/_inductor")
    assert flags[-6:] == ["--perms", "0555", "--tmpfs", compiler, "--remount-ro", compiler]


INSIDE = """
import ctypes, torch, triton
x = torch.arange(6.0).reshape(2, 3)
assert (x @ x.t()).sum() == 83
cublas = ctypes.CDLL("libcublas.so.13")
assert cublas.cublasCreate_v2(0) == 1
for name in ("libcudnn.so.9", "libnccl.so.2", "libcusolver.so.12"):
    ctypes.CDLL(name)
try:
    torch.compile(lambda x: x + 1)(x)
except ImportError:
    pass
else:
    raise SystemExit("torch.compile works")
from warpgrade.model import interpreter
from warpgrade.worker import probe
interpreter.install()
print(probe.problem() or "works")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux libraries")
def test_pytorch_and_triton_of_this_environment_work_without_device_code(tmp_path: Path) -> None:
    """Loading, computing on the CPU, interpreting and compiling: what a GPU is not needed for."""
    made = mounts(python_folders(), tmp_path / "cache")
    assert {"libtorch_cuda.so", "libcublas.so.13", "libcudnn.so.9"} <= names([target for target, _ in made.files])
    command = ["bwrap", "--dev-bind", "/", "/", *made.flags(), "--unshare-net", "--", sys.executable, "-c"]
    ran = subprocess.run(
        [*command, textwrap.dedent(INSIDE)], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert (ran.stdout.strip(), ran.returncode) == ("works", 0), ran.stderr[-2000:]
