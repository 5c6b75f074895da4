"""The GPU figures that the notebooks state, measured again: `python benchmarks/notebook_figures.py --out FILE`.

Needs an NVIDIA GPU, torch and triton, and nothing of warpgrade. Times are medians of triton.testing.do_bench.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum(x, sums, columns, stride, BLOCK: tl.constexpr, ACCUMULATOR: tl.constexpr):
    row = x + tl.program_id(0).to(tl.int64) * stride
    total = tl.zeros((BLOCK,), dtype=ACCUMULATOR)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(row + offsets, mask=offsets < columns, other=0.0).to(ACCUMULATOR)
    tl.store(sums + tl.program_id(0), tl.sum(total).to(sums.dtype.element_ty))


def median_ms(work) -> float:
    return triton.testing.do_bench(work, return_mode="median")


def copy_gbps() -> float:
    """PyTorch's copy of 2**28 float32, reads and writes counted."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * 2**28 / median_ms(lambda: target.copy_(source)) / 1e6


def row_sum_us(accumulator: tl.dtype) -> float:
    """16,384 rows of 8,192 float16, one program a row, blocks of 1024."""
    x = torch.rand(16_384, 8_192, device="cuda", dtype=torch.float16)
    sums = torch.empty(16_384, device="cuda", dtype=torch.float32)

    def launch() -> None:
        row_sum[(16_384,)](x, sums, 8_192, x.stride(0), BLOCK=1024, ACCUMULATOR=accumulator)

    launch()
    # Values below 1, sums of some 4,096: float16 carries 11 bits, so a partial sum of 8 is off by 2**-8 at most.
    torch.testing.assert_close(sums, x.float().sum(1), rtol=0.02, atol=0)
    return 1000 * median_ms(launch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    document = {
        "date": time.strftime("%Y-%m-%d"),
        "gpu": gpu,
        "driver": driver,
        "versions": {"torch": str(torch.__version__), "triton": triton.__version__},
        "copy_gbps": round(copy_gbps(), 1),
        "row_sum_float32_sums_us": round(row_sum_us(tl.float32), 2),
        "row_sum_float16_sums_us": round(row_sum_us(tl.float16), 2),
    }
    text = json.dumps(document, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
