import subprocess
import sys

import triton
import triton.language as tl


@triton.jit
def nothing(x, BLOCK: tl.constexpr):
    tl.arange(0, BLOCK)


MARKER = "warpgrade-attack-daemon"


def relu(x):
    nothing[(1,)](x, BLOCK=16)
    code = "import os, time; os.setsid() if os.getpid() != os.getsid(0) else 0; time.sleep(45)"
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, MARKER], start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return x
