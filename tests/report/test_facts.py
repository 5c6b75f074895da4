from __future__ import annotations

from typing import Any

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.model import compiled_kernels as kernels
from warpgrade.model.allow_list import guard
from warpgrade.model.architectures import ARCHITECTURES
from warpgrade.model.compiled import compile_kernel
from warpgrade.model.signature import specialise
from warpgrade.report.facts import Remark, one_table, remarks
from warpgrade.wire.compiled import CompiledKernel, CompileProblem

F32 = torch.zeros(4096)
F16 = F32.half()


def said(kernel: Any, *arguments: Any, arch: int = 80, **keywords: Any) -> list[Remark]:
    return remarks(guard(kernel, specialise(kernel, arguments, keywords), arch))


def matmul_arguments(x: torch.Tensor, size: int = 512) -> tuple[Any, ...]:
    return (x, x, x, size, size, size, size, 1, size, 1, size, 1)


# --- right kernels ------------------------------------------------------------------------------------------------

DESCRIPTOR = TensorDescriptor.from_tensor(torch.zeros(64, 64), [32, 32])
TILE = {"BM": 64, "BN": 64, "BK": 32}
RIGHT: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "add": (kernels.add, (F32, F32, F32, 4096), {"BLOCK": 1024}),
    "add of one element a thread": (kernels.add, (F32, F32, F32, 4096), {"BLOCK": 128}),
    "softmax": (kernels.softmax, (F32, F32, 1024, 1024, 1024), {"BLOCK": 1024}),
    "layernorm": (kernels.layernorm, (F32, F32, F32, F32, F32, 1024, 1024, 1e-5), {"BLOCK": 1024}),
    "matmul": (kernels.matmul, matmul_arguments(F16), TILE),
    "matmul in bfloat16": (kernels.matmul, matmul_arguments(F16.bfloat16()), TILE),
    "flash": (kernels.flash, (F16, F16, F16, F16, 64 * 128, 64, 128, 0.125), {"BM": 64, "BN": 64, "D": 64}),
    "histogram": (kernels.histogram, (F32.int(), F32.int(), 4096), {"BLOCK": 1024}),
    "descriptors": (kernels.copy_by_descriptor, (DESCRIPTOR, DESCRIPTOR, 32, 32), {}),
    "tuples": (kernels.of_tuples, ((F32, F32), (48,), 128), {}),
}


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_a_right_kernel(name: str, arch: int) -> None:
    kernel, arguments, keywords = RIGHT[name]
    assert said(kernel, *arguments, arch=arch, **keywords) == []


# --- planted faults -----------------------------------------------------------------------------------------------

MATMUL = kernels.matmul
#: Fault: kernel, arguments, keywords, architecture; kind of the remark, parts of its text; "marked" or the line.
FAULTS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], int, str, list[str], Any]] = {
    # 256 x 128 accumulators on 128 threads are 256 registers each, of 255.
    "spills": (MATMUL, matmul_arguments(F16), {"BM": 256, "BN": 128, "BK": 32}, 80, "spills",
               ["255 registers a thread", "bytes spilled", "num_warps=4 now"], 0),
    # 5 of 6 stages of 2 x 128 x 64 halves.
    "shared memory": (MATMUL, matmul_arguments(F16), {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8, "num_stages": 6}, 86,
                      "problem", ["the tiles need 160 KB", "sm_86 has 99 KB a block", "num_stages=6 now"], "def"),
    "threads": (kernels.add, (F32, F32, F32, 4096), {"BLOCK": 4096, "num_warps": 64}, 80, "problem",
                ["2048 threads", "fewer warps"], "def"),
    "K block of 8": (MATMUL, matmul_arguments(F16), {"BM": 64, "BN": 64, "BK": 8}, 80, "problem",
                     ["K >= 16", "a block at least that large"], "marked"),
    "rows too few for wgmma": (MATMUL, matmul_arguments(F16), {"BM": 32, "BN": 64, "BK": 32}, 90, "older_tensor_cores",
                               ["mma.sync, not the faster wgmma", "64 rows", "the block has 32"], "marked"),
    "warps too few for wgmma": (MATMUL, matmul_arguments(F16), {**TILE, "num_warps": 2}, 90, "older_tensor_cores",
                                ["four warps together", "num_warps=2"], "marked"),
    "no tensor cores on sm_75": (MATMUL, matmul_arguments(F16), TILE, 75, "no_tensor_cores",
                                 ["No tensor cores on sm_75", "float16"], "marked"),
    "ieee": (MATMUL, matmul_arguments(F32), {**TILE, "PRECISION": "ieee"}, 80, "no_tensor_cores",
             ["ordinary cores for float32 with input_precision='ieee'", "'tf32x3'"], "marked"),
    "TF32": (MATMUL, matmul_arguments(F32), {**TILE, "PRECISION": "tf32"}, 80, "tf32",
             ["TF32 is used", "10 bits of mantissa", "input_precision='ieee'"], "marked"),
    "ragged length": (kernels.add, (F32, F32, F32, 4095), {"BLOCK": 1024}, 80, "narrow_access",
                      ["16 loads of 32 bits", "8 stores of 32 bits", "128 bits", "n is not known to divide by 16",
                       "6 accesses, not 24"], None),
    "unaligned slice": (kernels.add, (F32[1:], F32, F32, 4080), {"BLOCK": 1024}, 80, "narrow_access",
                        ["8 loads of 32 bits", "x is not at an address that divides by 16 bytes"], None),
    "column": (kernels.by_columns, (F32, F32, 512, 512), {}, 80, "narrow_access", ["4 loads of 32 bits"], "marked"),
    "float64": (kernels.double_precision, (F32, F32, 512, 64), {}, 86, "float64", ["1/64 of float32's rate on sm_86"], "marked"),
    "int64 offsets": (kernels.wide_offsets, (F32, F32, 4096, 512), {}, 80, "wide_offsets",
                      ["int64 offsets", "two registers"], "marked"),
    "missing constexpr": (kernels.missing_constexpr, (F32, F32, 64), {}, 80, "problem",
                          ["tl.constexpr", "`NAME: tl.constexpr`"], "marked"),
    "block of 24": (kernels.not_a_power_of_two, (F32, F32, 24), {}, 80, "problem",
                    ["power of 2", "triton.next_power_of_2"], "marked"),
    "type changes in a loop": (kernels.changes_type_in_loop, (F32, F32, 4, 64), {}, 80, "problem",
                               ["total", "before the loop"], "marked"),
    "shapes of a dot": (kernels.wrong_shapes_in_dot, (F32, F32, 64), {}, 80, "problem",
                        ["equal reduction dimensions", "the rows of the second"], "marked"),
    "try": (kernels.unsupported_python, (F32, F32, 64), {}, 80, "problem", ["no try"], "marked"),
    "undefined name": (kernels.undefined_name, (F32, F32, 64), {}, 80, "problem", ["offset is not defined"], "marked"),
    "numpy": (kernels.calls_numpy, (F32, F32, 64), {}, 80, "problem", ["use tl.exp"], "marked"),
    "stub": (kernels.stub, (F32, F32, 64), {}, 80, "problem", ["not implemented yet"], "marked"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_said_with_its_reason_and_line(name: str) -> None:
    kernel, arguments, keywords, arch, kind, parts, where = FAULTS[name]
    found = said(kernel, *arguments, arch=arch, **keywords)
    (remark,) = (remark for remark in found if remark.kind == kind)
    assert [part for part in parts if part not in remark.text] == [], remark.text
    if where == "marked":
        assert remark.line == kernels.fault_line(kernel)
    elif where == "def":
        assert remark.line == kernels.definition(kernel)[1]
    elif where is not None:
        assert remark.line == where


def test_no_reason_is_said_that_is_not_known() -> None:
    """A column's loads are narrow whatever the stride; and on sm_75 it is Triton that makes no tensor-core code."""
    (column,) = said(kernels.by_columns, F32, F32, 511, 512)
    for word in ("divide", "stride", "otherwise"):
        assert word not in column.text
    version = specialise(kernels.add, (F32, F32, F32, 4095), {"BLOCK": 1024})
    (unexplained,) = remarks(compile_kernel(kernels.add, version, explain=False))
    assert "16 loads of 32 bits" in unexplained.text
    assert unexplained.text.endswith("Perhaps because n is not known to divide by 16; that was not tried.")


def test_only_the_arguments_that_matter_are_blamed() -> None:
    """Rows of A and B lie along K and N; M only bounds the rows, so any M would do."""
    found = said(kernels.matmul, *matmul_arguments(F16, size=500), **TILE)
    (narrow,) = (remark for remark in found if remark.kind == "narrow_access")
    assert "128 bits: N, K, sam, sbk and scm are not known to divide by 16;" in narrow.text


def test_of_a_large_kernel_reasons_are_only_supposed():
    arguments = (F32, F32, F32, 257, 191, 130, 130, 1, 191, 1, 191, 1)
    found = compile_kernel(kernels.matmul, specialise(kernels.matmul, arguments, {"BM": 64, "BN": 64, "BK": 64}))
    (narrow,) = (remark for remark in remarks(found) if remark.kind == "narrow_access")
    assert "128 bits. Perhaps because M, N, K, sam, sbk and scm are not known to divide by 16; that was" in narrow.text
    assert "otherwise" not in narrow.text


def test_maxnreg_is_named_where_it_is_the_limit() -> None:
    found = said(kernels.matmul, *matmul_arguments(F16), BM=128, BN=128, BK=32, num_warps=4, maxnreg=64)
    (spills,) = (remark for remark in found if remark.kind == "spills")
    assert "maxnreg=64 leaves a thread no more" in spills.text


def test_integers_of_64_bits_are_named_beside_the_offsets() -> None:
    found = said(kernels.by_columns, F32, F32, 2**31, 512)
    (wide,) = (remark for remark in found if remark.kind == "wide_offsets")
    assert "stride is passed as int64" in wide.text and wide.line == kernels.fault_line(kernels.by_columns)


def test_a_problem_with_facts_says_both() -> None:
    kinds = [
        remark.kind for remark in said(kernels.matmul, *matmul_arguments(F16), BM=256, BN=128, BK=64, num_stages=6)
    ]
    assert kinds == ["problem", "spills"]


# --- the table ----------------------------------------------------------------------------------------------------


def test_one_table_of_three_architectures() -> None:
    version = specialise(
        kernels.matmul, matmul_arguments(F16), {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8, "num_stages": 6}
    )
    results = {arch: compile_kernel(kernels.matmul, version, arch) for arch in (80, 86)}
    facts = results[80]
    assert isinstance(facts, CompiledKernel) and isinstance(results[86], CompileProblem)
    results[90] = CompileProblem("error", 90, "no")
    lines = one_table(results).splitlines()
    rows = {line[:20].strip(): line[20:].split("  ") for line in lines}
    cells = {name: [cell.strip() for cell in row if cell.strip()] for name, row in rows.items()}
    assert lines[0].split() == ["sm_80", "sm_86", "sm_90"]
    assert cells["runs"] == ["yes", "no: shared memory", "no: error"]
    assert cells["registers a thread"][0] == str(facts.registers_per_thread) and cells["registers a thread"][2] == "-"
    assert cells["shared memory"] == ["160 KB of 163 KB", "160 KB of 99 KB", "-"]
    assert "atomics" not in cells and "barriers" in cells, "what is plainly absent is left out"
    assert cells["tensor cores"] == ["64 mma.sync f16", "64 mma.sync f16", "-"]  # 128*128*64 / (16*8*16) on 8 warps
    assert cells["warps"] == ["8", "8", "-"]
    assert cells["occupancy at most"][1] == "0%"
    assert len({len(line) for line in lines[1:]}) == 1, "columns are aligned"


def test_limits_are_those_of_the_programming_guide() -> None:
    """CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", maximum shared memory a block."""
    kib = {arch: limits.shared_memory_per_block_bytes // 1024 for arch, limits in ARCHITECTURES.items()}
    assert kib == {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
