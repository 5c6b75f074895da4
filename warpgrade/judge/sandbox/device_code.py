"""What a submission finds of others' device code on the GPU tier: nothing, so that its own kernels have to do the work.

A list of the kernels that ran, made in the submission's process, can be forged; what is not there cannot be called.
So over the libraries of this environment others are mounted:

* NVIDIA's math libraries (cuBLAS, cuDNN, cuFFT, NCCL ...) become stubs: every function is there and fails. Their
  kernels lie in several places of the file, compressed or as code for a compiler, so taking them out is no option;
* of every other library with device code (libtorch_cuda above all) a copy with zeros in its place, which still
  allocates, copies and launches;
* Python files that hold Triton kernels, and PyTorch's compiler, which writes them, become empty: `torch.compile` of one
  line would be somebody else's fused kernel;
* archives that `nvcc` could link statically, and NVIDIA's libraries of device code for compilers, become empty.

The CUDA runtime, the compilers (NVRTC, nvJitLink, ptxas, libdevice) and the profiler stay: they have no kernels.
What this does not stop is device code that the submission brings along itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs

from warpgrade.judge.sandbox import SandboxUnavailable

#: Changes when what is made changes.
_VERSION = 1
#: Sections that hold device code, from CUDA's own link step.
_DEVICE_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_NO_BITS = 8  # SHT_NOBITS: takes no room in the file
#: Of NVIDIA's own libraries those that hold no kernels: the runtime, compilers, the profiler, file access.
_KEPT = re.compile(
    r"lib(cuda|cudart|nvrtc|nvrtc-builtins|nvJitLink|nvvm|nvfatbin|nvptxcompiler|cupti|checkpoint|pcsamplingutil|cufile"
    r"|cufile_rdma|nvperf_\w+|nvtx3interop|nvToolsExt|nvidia-\w+|OpenCL)(\.alt)?\.so"
)
#: Its math libraries, wherever a distribution put them.
_MATH = re.compile(r"lib(cublas|cudnn|cufft|curand|cusolver|cusparse|cutensor|nccl|nvblas|npp|nvjpeg|nvshmem)")
_KEPT_ARCHIVES = re.compile(r"lib(cudart_static|cudadevrt|culibos)\.a|lib(cupti|nvperf)\w*\.a")
#: Functions that return a text: a stub's 1 would be read as an address.
_RETURNS_TEXT = re.compile(r"(String|Name|LastError)$")
_MESSAGE = "not available to submissions: your own kernel has to do the work"
#: A decorator of Triton's at the beginning of a line: a kernel that could be imported.
_TRITON_KERNEL = re.compile(rb"^[ \t]*@triton(\.runtime)?\.(jit|autotune|heuristics)\b", re.MULTILINE)
_TOOLKIT = re.compile(r"cuda(-[0-9.]+)?")
_EXTENSION = re.compile(r"\.(cpython-|abi3\.)")
#: What writes or holds Triton kernels in other ways, and folders whose files all may.
_COMPILER_FOLDERS = ("torch/_inductor",)
#: Has the decorator in code that it writes out for people, and PyTorch needs it.
_HARMLESS = ("torch/_dynamo/repro/after_aot.py", "torch/_native/instrumentation.py")


@dataclass(frozen=True)
class Mounts:
    """What to mount over the environment: `files` as (there, instead), and paths that become empty."""

    files: list[tuple[Path, Path]]
    empty_files: list[Path]
    empty_folders: list[Path]

    def flags(self) -> list[str]:
        """For bubblewrap, after the binds of the folders themselves."""
        flags: list[str] = []
        for target, source in self.files:
            flags += ["--ro-bind", str(source), str(target)]
        for target in self.empty_files:
            flags += ["--ro-bind", os.devnull, str(target)]
        for target in self.empty_folders:
            flags += ["--perms", "0555", "--tmpfs", str(target), "--remount-ro", str(target)]
        return flags


def mounts(folders: Iterable[Path], cache: Path | None = None) -> Mounts:
    """What to mount over the libraries in `folders` (the Python environment, the CUDA toolkit), made once and kept.

    The first time takes some seconds and a few hundred megabytes in `cache` (default: the user's cache folder). Raises
    SandboxUnavailable where it cannot be made: without it PyTorch could do the work for a submission.
    """
    cache = cache or platformdirs.user_cache_path("warpgrade") / "without-device-code"
    folders = list(folders)
    stubbed: list[Path] = []
    zeroed: list[Path] = []
    empty: list[Path] = []
    for path in _files(folders):
        if ".so" in path.suffixes:
            if _is_nvidias(path):
                (stubbed if not _KEPT.match(path.name) else []).append(path)
            elif not _KEPT.match(path.name) and device_sections(path):
                zeroed.append(path)
        elif (
            (path.suffix == ".a" and _is_nvidias(path) and not _KEPT_ARCHIVES.fullmatch(path.name))
            or (path.suffix == ".bc" and _is_nvidias(path))
            or (path.suffix == ".py" and _has_kernels(path))
        ):
            empty.append(path)
    made = _made([*((path, True) for path in stubbed), *((path, False) for path in zeroed)], cache)
    hidden = [folder / name for folder in _site_packages(folders) for name in _COMPILER_FOLDERS]
    hidden = [path for path in hidden if path.is_dir()]
    empty = [path for path in empty if not any(path.is_relative_to(folder) for folder in hidden)]
    return Mounts(made, empty, hidden)


def device_sections(path: Path) -> list[tuple[int, int]]:
    """Offset and size, in bytes, of each part of an ELF file that holds device code; none for what is no such file.

    Raises SandboxUnavailable for a library that says it has sections and cannot be read.
    """
    try:
        with path.open("rb") as file:
            header = file.read(64)
            if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
                return []
            (table_offset,) = struct.unpack_from("<Q", header, 0x28)
            entry_bytes, count, names_index = struct.unpack_from("<HHH", header, 0x3A)
            if not table_offset or not count:
                return []
            file.seek(table_offset)
            table = file.read(entry_bytes * count)
            sections = [struct.unpack_from("<IIQQQQ", table, number * entry_bytes) for number in range(count)]
            file.seek(sections[names_index][4])
            names = file.read(sections[names_index][5])
    except (OSError, struct.error, IndexError) as error:
        raise SandboxUnavailable(f"{path} cannot be read, so what device code it has is not known: {error}") from error
    return [
        (offset, size)
        for name, kind, _, _, offset, size in sections
        if kind != _NO_BITS and names[name : names.find(b"\0", name)] in _DEVICE_SECTIONS
    ]


def copy_without(path: Path, target: Path, sections: Iterable[tuple[int, int]]) -> None:
    """Copy `path` with zeros for `sections` (offset and size in bytes), which take no room on the disk."""
    with path.open("rb") as source, target.open("wb") as copy:
        position = 0
        for offset, size in [*sorted(sections), (path.stat().st_size, 0)]:
            source.seek(position)
            copy.seek(position)
            while position < offset:
                block = source.read(min(1 << 24, offset - position))
                if not block:
                    raise OSError(f"{path} ended at byte {position}")
                position += copy.write(block)
            position = max(position, offset + size)
        copy.truncate(path.stat().st_size)


def write_stub(library: Path, target: Path) -> None:
    """A shared library with the functions of `library`, its name and its version, all of which fail.

    Raises SandboxUnavailable where there is no C compiler or it fails.
    """
    said = _run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)])
    functions, version = set(), ""
    for line in said.splitlines():
        kind, symbol = line.split()[-2:]
        name, _, of = symbol.partition("@@")
        if kind in "TWi" and re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith("_Z"):
            functions.add(name)
            version = version or of
    body = "".join(
        f'const char *{name}(void) {{ return "{_MESSAGE}"; }}\n'
        if _RETURNS_TEXT.search(name)
        else f"long {name}(void) {{ return 1; }}\n"
        for name in sorted(functions - {"_init", "_fini"})
    )
    dynamic = _run(["readelf", "-d", str(library)])
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "versions")
        source.write_text(body, encoding="utf-8")
        command = ["cc", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w", "-o", str(target), str(source)]
        command += [f"-Wl,-soname,{soname.group(1) if soname else library.name}"]
        if version:
            script.write_text(f"{version} {{ global: *; }};\n", encoding="utf-8")
            command += [f"-Wl,--version-script,{script}"]
        _run(command)


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise SandboxUnavailable(
            f"{command[0]} is not installed, and is needed to keep libraries' device code from submissions. Install a "
            "C compiler (Debian, Ubuntu: sudo apt-get install gcc)."
        ) from error
    except subprocess.CalledProcessError as error:
        raise SandboxUnavailable(f"{' '.join(command[:2])} failed: {error.stderr[-1000:]}") from error


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    """Every file in the folders, once, by its real path: what a link leads to is what is mounted over."""
    seen: set[Path] = set()
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                if name.endswith((".py", ".a", ".bc")) or ".so" in name:
                    path = Path(root, name).resolve()
                    if path not in seen and path.is_file():
                        seen.add(path)
                        yield path


def _is_nvidias(path: Path) -> bool:
    """Whether it is a library of the CUDA toolkit or of NVIDIA's packages; Python's extension modules are none."""
    within = path.parent.parts
    toolkit = any(_TOOLKIT.fullmatch(part) for part in within) and "site-packages" not in within
    named = toolkit or "nvidia" in within or _MATH.match(path.name) is not None
    return named and "triton" not in within and not _EXTENSION.search(path.name)


def _has_kernels(path: Path) -> bool:
    within = path.as_posix()
    if "/triton/" in within or within.endswith(_HARMLESS):
        return False
    return _TRITON_KERNEL.search(path.read_bytes()) is not None


def _site_packages(folders: Iterable[Path]) -> list[Path]:
    return sorted({path for folder in folders for path in folder.glob("**/site-packages") if path.is_dir()})


def _made(originals: list[tuple[Path, bool]], cache: Path) -> list[tuple[Path, Path]]:
    """For each library (and whether it becomes a stub) what is mounted over it."""
    key = hashlib.sha256(f"{_VERSION}\n{sys.platform}\n".encode())
    for path, stub in originals:
        about = path.stat()
        key.update(f"{path}\n{stub}\n{about.st_size}\n{about.st_mtime_ns}\n".encode())
    folder = cache / key.hexdigest()[:24]
    names = {path: f"{number:03}-{path.name}" for number, (path, _) in enumerate(originals)}
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(cache / "lock"):
            if not folder.is_dir():
                _make(originals, names, cache, folder)
    except OSError as error:
        raise SandboxUnavailable(
            f"copies of the CUDA libraries without device code cannot be made in {cache}: {error}"
        ) from error
    return [(path, folder / names[path]) for path, _ in originals]


def _make(originals: list[tuple[Path, bool]], names: dict[Path, str], cache: Path, folder: Path) -> None:
    print(f"warpgrade: preparing {len(originals)} CUDA libraries without device code, once", file=sys.stderr)
    new = Path(tempfile.mkdtemp(dir=cache, prefix=".new-"))
    try:
        for path, stub in originals:
            if stub:
                write_stub(path, new / names[path])
            else:
                copy_without(path, new / names[path], device_sections(path))
            (new / names[path]).chmod(0o755)
        new.chmod(0o755)
        new.rename(folder)  # whole or not at all
    finally:
        shutil.rmtree(new, ignore_errors=True)
