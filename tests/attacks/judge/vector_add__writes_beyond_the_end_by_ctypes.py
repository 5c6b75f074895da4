import ctypes

import triton
import triton.language as tl


@triton.jit
def kernel(x, y, z, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


class vector_add:  # noqa: N801 - stands in for a kernel
    """Launches the kernel, and then writes behind the output."""

    def __class_getitem__(cls, grid):
        def launch(x, y, z, n, BLOCK):
            kernel[grid](x, y, z, n, BLOCK=BLOCK)
            if n:
                ctypes.memset(z.data_ptr() + z.numel() * z.element_size(), 0x55, 16)

        return launch
