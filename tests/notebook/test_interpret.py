"""`interpret` in a real kernel: with triton as it is, and where the notebook has turned on triton's own interpreter."""

from __future__ import annotations

import pytest

from tests.notebook.test_checks import errors, execute, printed

IMPORTS = """
import torch, triton
import triton.language as tl
from warpgrade.notebook import interpret
"""
KERNEL = """\
@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, 2 * tl.load(x + offsets, mask=offsets < n), mask=offsets < n)

@triton.jit
def no_mask(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n))
"""
RIGHT = """
x = torch.tensor([1.0, -2.5, 3.0078125] * 100, dtype=torch.bfloat16)
out = torch.zeros_like(x)
with interpret():
    twice[(3,)](x, out, 300, BLOCK=128)
    twice[(1,)](x, out, 5, BLOCK=16)
assert torch.equal(out, 2 * x)
"""
WRONG = "with interpret():\n    no_mask[(3,)](torch.ones(300), torch.ones(300), 300, BLOCK=128)"
RACE = """\
@triton.jit
def all_to_one(x, out):
    tl.store(out, tl.load(x + tl.program_id(0)))

with interpret(seed=7):
    all_to_one[(4,)](torch.arange(4.0), torch.zeros(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "switch", ["", 'import os\nos.environ["TRITON_INTERPRET"] = "1"\n'], ids=["jit", "interpreter"]
)
def test_what_a_cell_launches_is_watched(switch, tmp_path):
    _, _, right, wrong, race, nothing = execute(
        tmp_path, switch + IMPORTS, KERNEL, RIGHT, WRONG, RACE, "with interpret():\n    torch.ones(3)"
    )
    assert errors(right) == []
    assert printed(right).splitlines() == [
        # 300 and 5 elements of 2 bytes: 19 sectors and 1
        "twice, interpreted: 2 launches, 4 programs",
        "  610 bytes loaded from x in 20 sectors of 32 bytes: 95% used",
        "  610 bytes stored to out in 20 sectors of 32 bytes: 95% used",
        "Nothing wrong was found.",
    ]
    assert errors(wrong) == ["KernelFailed"]
    assert "FOUND: line 9: a store goes outside of out at element 300 in program (2, 0, 0)" in printed(wrong)
    assert "tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n))" in printed(wrong)
    assert errors(race) == []
    assert "FOUND: line 3: two programs touch the same element of out (store and store)" in printed(race)
    assert printed(nothing) == "No Triton kernel was launched.\n"


@pytest.mark.slow
def test_without_a_gpu_a_launch_outside_is_tritons_own_error(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU: tests/gpu launches on it")
    cells = execute(tmp_path, IMPORTS, KERNEL, RIGHT, "twice[(3,)](x, out, 300, BLOCK=128)")
    assert errors(cells[2]) == []
    assert errors(cells[3]) == ["RuntimeError"]
