"""Triton's own interpreter, in a process of its own: times one matmul for each line that it is sent.

Run with TRITON_INTERPRET=1 by test_speed.py, which sends lines in turn with its own measurements.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from matmul_256 import matmul_256

matmul_256()
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    matmul_256()
    print(time.perf_counter() - start, flush=True)
