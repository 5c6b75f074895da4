"""Does Triton's interpreter work here? Asked before any student code runs: where it does not, every kernel of a class
would be `crashed` or `wrong`, and it would be the versions' fault (triton 3.6 breaks with numpy 2.4)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_VALUES = (1.0, 2.0, 3.0)


@triton.jit  # type: ignore[untyped-decorator]
def _sums(x: torch.Tensor, sums: torch.Tensor, n: int, BLOCK: tl.constexpr) -> None:  # noqa: N803 - Triton's custom
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.store(sums + offsets, tl.sum(values) + values, mask=offsets < n)


def problem() -> str:
    """What is wrong with the interpreter, as a sentence; "" if a masked kernel with a reduction is right."""
    values = torch.tensor(_VALUES)
    found = torch.zeros_like(values)
    versions = f"triton {triton.__version__}, torch {torch.__version__}"
    try:
        _sums[(1,)](values, found, len(_VALUES), BLOCK=4)
    except Exception as error:  # noqa: BLE001 - whatever it raises, it does not work
        return f"Triton's interpreter does not work here ({versions}): {type(error).__name__}: {str(error)[:1000]}"
    if found.tolist() != [sum(_VALUES) + value for value in _VALUES]:
        return f"Triton's interpreter gives wrong results here ({versions})"
    return ""
