"""Two promises: at most 10% slower than Triton's bare interpreter, as a ratio within one run; and facts within 1 s."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.model import compiled_kernels as kernels
from warpgrade.model.compiled import compile_kernel
from warpgrade.model.interpreter import install, interpreting
from warpgrade.model.sanitizer import Session
from warpgrade.model.signature import specialise
from warpgrade.wire.compiled import CompiledKernel

HERE = Path(__file__).parent
ROUNDS = 11


class Side:
    """A process that does one matmul after another, each when it is told to."""

    def __init__(self, name: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1" if name == "bare" else "0"}
        # The package that is tested, wherever these tests run from.
        environment["PYTHONPATH"] = str(Path(sys.modules["warpgrade"].__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, HERE / "timed_matmul.py", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self._process.stdout.readline() == "ready\n"

    def seconds(self) -> float:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(60)


def test_what_is_timed_is_right(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    from matmul_256 import matmul_256

    install()
    with interpreting(Session(outputs=("c",))) as session:
        c, expected = matmul_256()
    # 256 products of about 1 each, a rounding of 2^-24 each, and sums of up to 40 or so.
    torch.testing.assert_close(c, expected, rtol=0, atol=256 * 2**-24 * 40)
    assert not session.findings


@pytest.mark.slow
def test_the_sanitizer_costs_at_most_a_tenth_of_the_bare_interpreter():
    """In turn, each in a process of its own; the best of each is what neither was disturbed in."""
    with contextlib.closing(Side("bare")) as bare, contextlib.closing(Side("sanitized")) as sanitized:
        samples = [(bare.seconds(), sanitized.seconds()) for _ in range(ROUNDS)]
    bare_s, sanitized_s = (min(side) for side in zip(*samples, strict=True))
    assert sanitized_s <= 1.10 * bare_s, f"bare {bare_s:.3f} s, sanitized {sanitized_s:.3f} s"


F32 = torch.zeros(4096)
F16 = F32.half()


def ragged(x, block, depth):
    """A row-major matmul of 257 x 130 by 130 x 191: nothing divides by 16."""
    arguments = (x, x, x, 257, 191, 130, 130, 1, 191, 1, 191, 1)
    return kernels.matmul, arguments, {"BM": block, "BN": block, "BK": depth}


#: Kernels of the sizes that exercises ask for. Each has something that does not divide by 16, so is compiled again.
EXPLAINED = {
    "add": (kernels.add, (F32, F32, F32, 4095), {"BLOCK": 1024}),
    "softmax": (kernels.softmax, (F32, F32, 1001, 1001, 1000), {"BLOCK": 1024}),
    "layernorm": (kernels.layernorm, (F32, F32, F32, F32, F32, 1001, 1001, 1e-5), {"BLOCK": 1024}),
    "histogram": (kernels.histogram, (F32.int(), F32.int(), 1001), {"BLOCK": 1024}),
    "fp16 16": ragged(F16, 16, 16),
    "fp16 32": ragged(F16, 32, 32),
    "fp16 64": ragged(F16, 64, 32),
    "fp32 16": ragged(F32, 16, 16),
    "fp32 32": ragged(F32, 32, 32),
}
#: Larger ones: one trial, or none.
LARGE = {
    "fp16 64 64": ragged(F16, 64, 64),
    "fp32 64 32": ragged(F32, 64, 32),
    "fp32 64 64": ragged(F32, 64, 64),
    "flash": (kernels.flash, (F16, F16, F16, F16, 63 * 101, 63, 101, 0.125), {"BM": 64, "BN": 64, "D": 64}),
}
#: Seconds of processor in which the machine that the limit of 1 s is set for compiles, without explaining, `EXPLAINED`'s
#: fp16 matmul of 64 x 64 x 32 for sm_80: 0.30 to 0.34 (x86-64, 2 cores, Triton 3.8).
USUAL_S = 0.35


def compiling_s(case, arch, *, explain=True):
    """The best of 3, which nobody disturbed, of the processor, ptxas's too: the wait depends on who else is there."""

    def spent_s():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    kernel, arguments, keywords = case
    version = specialise(kernel, arguments, keywords)
    samples_s = []
    for _ in range(3):
        start_s = spent_s()
        assert isinstance(compile_kernel(kernel, version, arch, explain=explain), CompiledKernel)
        samples_s.append(spent_s() - start_s)
    return min(samples_s)


def slowness():
    """How many times slower than usual this machine compiles just now, 1 at least. The first one is not counted."""
    compiling_s(EXPLAINED["add"], 80)
    return max(1.0, compiling_s(EXPLAINED["fp16 64"], 80, explain=False) / USUAL_S)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", EXPLAINED | LARGE)
def test_facts_with_their_reasons_take_less_than_a_second(name, arch):
    """1 s is what a student waits without losing the thread (a requirement of ours); more on a machine that is slower.

    A shared machine is slow for seconds at a time: the best of three tries, each with the machine's slowness beside it.
    """
    tries = []
    for _ in range(3):
        slower = slowness()
        tries.append((compiling_s((EXPLAINED | LARGE)[name], arch), slower))
        if tries[-1][0] < 1.0 * slower:
            return
    pytest.fail(
        ", ".join(f"{spent_s:.2f} s, machine {slower:.1f} times slower than usual" for spent_s, slower in tries)
    )
