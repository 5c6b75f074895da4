"""The promise: at most 10% slower than Triton's bare interpreter, measured as a ratio within one run."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from warpgrade.model.interpreter import install, interpreting
from warpgrade.model.sanitizer import Session

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
