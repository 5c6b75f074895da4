"""One side of test_speed.py, in a process of its own: does one matmul for each line that it is sent, says how long it took.

`bare`: Triton's own interpreter (TRITON_INTERPRET=1). `sanitized`: ours. Processor time, so that what else the machine
does counts for neither.
"""

import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
side = contextlib.nullcontext
if sys.argv[1] == "sanitized":
    from warpgrade.model.interpreter import install, interpreting
    from warpgrade.model.sanitizer import Session

    install()

    def side():
        return interpreting(Session(outputs=("c",)))


from matmul_256 import matmul_256  # noqa: E402 - Triton reads TRITON_INTERPRET and our hooks when it is imported

with side():
    matmul_256()
print("ready", flush=True)
for _ in sys.stdin:
    start = time.process_time()
    with side():
        matmul_256()
    print(time.process_time() - start, flush=True)
