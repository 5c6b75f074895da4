"""Do the interpreter and the compiler work here? Asked before any student code runs: where one does not, every kernel
of a class would be `crashed`, `wrong` or `does_not_compile`, and it would be the versions' fault (triton 3.6 breaks
with numpy 2.4)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from warpgrade.model.compiled import compile_kernel
from warpgrade.model.interpreter import interpreting
from warpgrade.model.sanitizer import Session
from warpgrade.model.signature import specialise
from warpgrade.wire.compiled import CompiledKernel

_VALUES = (1.0, 2.0, 3.0)


@triton.jit  # type: ignore[untyped-decorator]
def _sums(x: torch.Tensor, sums: torch.Tensor, n: int, BLOCK: tl.constexpr) -> None:  # noqa: N803 - Triton's custom
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.store(sums + offsets, tl.sum(values) + values, mask=offsets < n)


def problem() -> str:
    """What is wrong, as a sentence; "" if a masked kernel with a reduction gives the right result, without a finding,
    and compiles."""
    versions = f"triton {triton.__version__}, torch {torch.__version__}"
    try:
        if wrong := _interpreted():
            return f"Triton's interpreter {wrong} here ({versions})"
        compiled = compile_kernel(_sums, specialise(_sums, *_arguments()), explain=False)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it does not work
        return f"Triton does not work here ({versions}): {type(error).__name__}: {str(error)[:1000]}"
    if not isinstance(compiled, CompiledKernel):
        return f"Triton's compiler does not work here ({versions}): {compiled.message[:1000]}"
    return ""


def problem_on_gpu() -> str:
    """Likewise for a launch on the GPU."""
    versions = f"triton {triton.__version__}, torch {torch.__version__}"
    try:
        arguments, keywords = _arguments()
        values, sums, count = arguments
        on_gpu = values.cuda(), sums.cuda(), count
        _sums[(1,)](*on_gpu, **keywords)
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever it raises, it does not work
        return f"Triton does not work on this GPU ({versions}): {type(error).__name__}: {str(error)[:1000]}"
    right = [sum(_VALUES) + value for value in _VALUES]
    return "" if on_gpu[1].cpu().tolist() == right else f"Triton gives wrong results on this GPU ({versions})"


def _arguments() -> tuple[tuple[torch.Tensor, torch.Tensor, int], dict[str, int]]:
    values = torch.tensor(_VALUES)
    return (values, torch.zeros_like(values), len(_VALUES)), {"BLOCK": 4}


def _interpreted() -> str:
    arguments, keywords = _arguments()
    with interpreting(Session()) as session:
        _sums[(1,)](*arguments, **keywords)
    if session.findings:
        return f"finds {session.findings[0]} in a right kernel"
    right = [sum(_VALUES) + value for value in _VALUES]
    return "" if arguments[1].tolist() == right else "gives wrong results"
