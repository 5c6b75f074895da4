"""The promise: at most 10% slower than Triton's bare interpreter, measured as a ratio within one run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from warpgrade.model.interpreter import install, interpreting
from warpgrade.model.sanitizer import Session

sys.path.insert(0, str(Path(__file__).parent))
ROUNDS = 9


@pytest.mark.slow
def test_the_sanitizer_costs_at_most_a_tenth_of_the_bare_interpreter():
    """Both sides run in turn, so that a busy machine slows both; the best of each is what neither was disturbed in."""
    from matmul_256 import matmul_256

    install()
    with interpreting(Session(outputs=("c",))) as session:
        c, expected = matmul_256()
    torch.testing.assert_close(c, expected, rtol=0, atol=256 * 2**-24 * 40)
    assert not session.findings

    here = Path(__file__).parent
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    bare = subprocess.Popen(
        [sys.executable, here / "bare_matmul.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    bare_s, sanitized_s = [], []
    try:
        assert bare.stdout.readline() == "ready\n"
        for _ in range(ROUNDS):
            bare.stdin.write("\n")
            bare.stdin.flush()
            bare_s.append(float(bare.stdout.readline()))
            start = time.perf_counter()
            with interpreting(Session(outputs=("c",))):
                matmul_256()
            sanitized_s.append(time.perf_counter() - start)
    finally:
        bare.stdin.close()
        bare.wait(timeout=60)
    ratio = min(sanitized_s) / min(bare_s)
    print(f"bare {min(bare_s):.3f} s, sanitized {min(sanitized_s):.3f} s, ratio {ratio:.3f}")
    assert ratio <= 1.10
