"""Drives Triton's compiler without a GPU, a driver or a cache: the one place that touches its stages.

`triton.compile` keeps a cache in the user's home, which must not be touched, may be read-only, and could hold what a
student put there. So its stages are driven one by one here; `ptxas` works in the folder of temporary files. What is
private to Triton and used here is pinned by `tests/model/test_compiled.py`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITCallable, JITFunction

from warpgrade.model.architectures import THREADS_PER_WARP
from warpgrade.model.signature import Specialisation


@dataclass
class Output:
    """What the stages left: the text of each, Triton's metadata, ptxas's report.

    Texts are "source" (what the student's code says, before any pass), "ttir", "ttgir", "llir" and "ptx".
    """

    texts: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    ptxas_report: str = ""


@dataclass
class Complaints:
    """What helps to understand a failure: what was written to descriptor 2 meanwhile (MLIR's diagnostics, with file
    and line), and the PTX if the failure is ptxas's."""

    text: str = ""
    ptx: str = ""


def run(
    kernel: JITFunction[Any], specialisation: Specialisation, arch: int, complaints: Complaints, last: str
) -> Output:
    """Compile for compute capability `arch`, up to the stage named `last`: "ttir", "ttgir", "llir", "ptx", "cubin".

    Raises whatever Triton raises (`compile_errors` makes sense of it) and whatever student code raises that runs at
    compile time. Standard output and error are kept from the terminal meanwhile, for the whole process: Triton prints
    entire programs where something fails.
    """
    _check_names(kernel)
    target = GPUTarget("cuda", arch, THREADS_PER_WARP)
    backend = make_backend(target)
    with _silenced(complaints) as printed, knobs.nvidia.scope():
        options = backend.parse_options(dict(specialisation.options))
        source = ASTSource(kernel, specialisation.signature, specialisation.constants, specialisation.attributes)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, Language.TRITON)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        output = Output(metadata={"target": target, **options.__dict__})
        functions = backend.get_codegen_implementation(options)
        module = source.make_ir(target, options, functions, backend.get_module_map(), context)
        output.texts["source"] = str(module)
        knobs.nvidia.dump_ptxas_log = True
        for name, stage in stages.items():
            printed.seek(0)
            printed.truncate()
            module = stage(module, output.metadata)
            if name == "cubin":
                output.ptxas_report = printed.getvalue()
            else:
                output.texts[name] = str(module)
            if name == "ptx":
                complaints.ptx = output.texts[name]
            if name == last:
                break
    return output


def _check_names(kernel: JITFunction[Any]) -> None:
    """Refuse what a launch refuses before it compiles: ordinary Python functions called in the kernel.

    Triton finds them while it computes a cache key, which it keeps on each function. After a failure the half-made
    key would stay, and the next launch would not look again; so it is taken back.
    """
    try:
        _ = kernel.cache_key
    except Exception as error:
        traceback = error.__traceback__
        while traceback is not None:
            owner = traceback.tb_frame.f_locals.get("self")
            if isinstance(owner, JITCallable):
                owner.hash = None
            traceback = traceback.tb_next
        raise


@contextlib.contextmanager
def _silenced(complaints: Complaints) -> Iterator[io.StringIO]:
    """Keep standard output and descriptor 2 to ourselves; the latter's text goes to `complaints`."""
    printed = io.StringIO()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log, contextlib.redirect_stdout(printed):
        terminal = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield printed
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            log.seek(0)
            complaints.text = log.read().decode("utf-8", "replace")
