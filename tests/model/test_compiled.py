from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.model import compiled_kernels as kernels
from tests.model.compiled_kernels import fault_line
from warpgrade.model import stages
from warpgrade.model.architectures import ARCHITECTURES, blocks_per_multiprocessor, occupancy
from warpgrade.model.compile_errors import plain, understand
from warpgrade.model.compiled import compile_for, compile_kernel, trials
from warpgrade.model.signature import Specialisation, specialise
from warpgrade.wire.compiled import CompiledKernel, CompileProblem
from warpgrade.worker.module import SourceCell, SubmissionModule

F32 = torch.zeros(4096)
F16 = F32.half()


def facts(kernel: Any, *arguments: Any, arch: int = 80, **keywords: Any) -> CompiledKernel:
    result = compile_kernel(kernel, specialise(kernel, arguments, keywords), arch)
    assert isinstance(result, CompiledKernel), result
    return result


def problem(kernel: Any, *arguments: Any, arch: int = 80, **keywords: Any) -> CompileProblem:
    result = compile_kernel(kernel, specialise(kernel, arguments, keywords), arch)
    assert isinstance(result, CompileProblem), result
    return result


def matmul_arguments(x: torch.Tensor, size: int = 512) -> tuple[Any, ...]:
    return (x, x, x, size, size, size, size, 1, size, 1, size, 1)


def matmul(
    x: torch.Tensor = F16, *, arch: int = 80, size: int = 512, BM: int = 64, BN: int = 64, BK: int = 32, **keywords: Any
) -> CompiledKernel:
    return facts(kernels.matmul, *matmul_arguments(x, size), arch=arch, BM=BM, BN=BN, BK=BK, **keywords)


# --- loads and stores ---------------------------------------------------------------------------------------------


def test_aligned_vectors_move_128_bits_at_a_time() -> None:
    """1024 float32 on 128 threads are 8 each: two instructions of 4 for each of x, y and o."""
    found = facts(kernels.add, F32, F32, F32, 4096, BLOCK=1024)
    assert found.loads_by_bits == {128: 4}
    assert found.stores_by_bits == {128: 2}
    assert found.vectorised_loads and found.unaligned == found.narrowed_by == ()


def test_a_ragged_length_makes_each_access_scalar() -> None:
    """The mask may end anywhere, so none of the 8 elements of a thread can go together: 8 for each of x, y, o."""
    found = facts(kernels.add, F32, F32, F32, 4095, BLOCK=1024)
    assert found.loads_by_bits == {32: 16}
    assert found.stores_by_bits == {32: 8}
    assert not found.vectorised_loads
    assert found.narrowed_by == ("n",) and found.accesses_if_aligned == 6


def test_only_the_unaligned_pointer_is_to_blame() -> None:
    found = facts(kernels.add, F32[1:], F32, F32, 4080, BLOCK=1024)
    assert found.loads_by_bits == {32: 8, 128: 2}
    assert found.narrowed_by == found.unaligned_pointers == ("x",)
    narrow = [access for access in found.accesses if access.narrow]
    assert [(access.kind, access.count, access.widest_bits) for access in narrow] == [("load", 8, 128)]


def test_half_precision_goes_in_vectors_of_eight_and_alone_in_16_bits() -> None:
    assert facts(kernels.add, F16, F16, F16, 4096, BLOCK=1024).loads_by_bits == {128: 2}
    assert facts(kernels.add, F16, F16, F16, 4095, BLOCK=1024).loads_by_bits == {16: 16}


def test_one_element_a_thread_cannot_be_wider() -> None:
    found = facts(kernels.add, F32, F32, F32, 4096, BLOCK=128)
    assert found.loads_by_bits == {32: 2}
    assert found.vectorised_loads


def test_an_argument_is_not_blamed_where_alignment_would_not_help() -> None:
    """A column of a row-major matrix: a thread's four elements lie apart, whatever divides by 16."""
    for stride in (512, 511):
        found = facts(kernels.by_columns, F32, F32, stride, 512)
        assert not found.vectorised_loads
        assert found.narrowed_by == ()


#: A float32 matmul of 257 x 130 by 130 x 191, row-major, all lengths and strides odd or nearly so.
RAGGED = (F32, F32, F32, 257, 191, 130, 130, 1, 191, 1, 191, 1)


def counted(kernel: Any, version: Specialisation, aligned: tuple[str, ...], arch: int) -> int:
    """Accesses of the version in which `aligned` are known to divide by 16, from a compilation of its own."""
    found = compile_kernel(kernel, version.assuming_aligned(aligned), arch, explain=False)
    assert isinstance(found, CompiledKernel)
    return found.access_count


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("block", [16, 64])
def test_those_blamed_are_enough_even_where_trials_run_out(arch: int, block: int) -> None:
    version = specialise(kernels.matmul, RAGGED, {"BM": block, "BN": block, "BK": 16})
    assert version.unaligned == ("M", "N", "K", "sam", "sbk", "scm")
    found = facts(kernels.matmul, *RAGGED, arch=arch, BM=block, BN=block, BK=16)
    assert set(found.narrowed_by) <= set(found.unaligned)
    assert counted(kernels.matmul, version, found.narrowed_by, arch) == found.accesses_if_aligned < found.access_count


@pytest.mark.parametrize("arch", [80, 90])
def test_with_trials_enough_none_of_those_blamed_can_be_left_out(arch: int) -> None:
    """The mask needs the number of columns, each row its stride."""
    arguments = (F32, F32, 1001, 1001, 1000)
    version = specialise(kernels.softmax, arguments, {"BLOCK": 1024})
    found = facts(kernels.softmax, *arguments, arch=arch, BLOCK=1024)
    assert found.narrowed_by == ("so", "sx", "n_cols")
    assert counted(kernels.softmax, version, found.narrowed_by, arch) == found.accesses_if_aligned
    for name in found.narrowed_by:
        rest = tuple(other for other in found.narrowed_by if other != name)
        assert counted(kernels.softmax, version, rest, arch) > found.accesses_if_aligned, name


def test_a_bound_on_rows_is_not_blamed() -> None:
    """Along the rows that M bounds no thread moves more than one element; the other five all matter."""
    found = facts(kernels.matmul, *RAGGED, BM=32, BN=32, BK=32)
    assert found.narrowed_by == ("N", "K", "sam", "sbk", "scm")


def test_trials_are_few_for_large_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """None at all where the kernel itself takes most of a second."""
    assert trials(100) > trials(400) > trials(1600) == 1 > trials(2300) == 0
    compiled: list[str] = []
    original = stages.run

    def run(*arguments: Any, last: str) -> stages.Output:
        compiled.append(last)
        return original(*arguments, last=last)

    monkeypatch.setattr(stages, "run", run)
    found = facts(kernels.matmul, *RAGGED, BM=64, BN=64, BK=64)
    assert compiled == ["cubin"]
    assert (found.explained, found.narrowed_by, len(found.unaligned)) == (False, (), 6)
    compiled.clear()
    assert facts(kernels.matmul, *RAGGED, BM=64, BN=64, BK=32).explained
    assert compiled == ["cubin", "ptx"]
    compiled.clear()
    facts(kernels.softmax, F32, F32, 1001, 1001, 1000, BLOCK=1024)
    assert compiled == ["cubin", "ptx", "ptx", "ptx", "ptx"]  # all three, and each left out


def test_without_explanation_nobody_is_blamed() -> None:
    version = specialise(kernels.add, (F32, F32, F32, 4095), {"BLOCK": 1024})
    found = compile_kernel(kernels.add, version, 80, explain=False)
    assert isinstance(found, CompiledKernel)
    assert found.unaligned == ("n",) and found.narrowed_by == ()


def test_accesses_know_their_line() -> None:
    found = facts(kernels.by_columns, F32, F32, 512, 512)
    (load,) = (access for access in found.accesses if access.kind == "load")
    assert load.line == fault_line(kernels.by_columns)


def test_descriptors_become_bulk_copies_from_hopper_on() -> None:
    descriptor = TensorDescriptor.from_tensor(torch.zeros(64, 64), [32, 32])
    found = {arch: facts(kernels.copy_by_descriptor, descriptor, descriptor, 32, 32, arch=arch) for arch in (80, 90)}
    assert found[90].bulk_copies == 2 and found[90].access_count == 0  # one in, one out
    assert found[80].bulk_copies == 0 and found[80].access_count > 0
    assert found[80].wide_offset_lines == ()  # Triton's 64-bit offsets, not the student's


def test_atomics_shuffles_and_barriers_are_counted() -> None:
    integers = torch.zeros(1024, dtype=torch.int32)
    histogram = facts(kernels.histogram, integers, integers, 1024, BLOCK=1024)
    assert histogram.atomics == 8  # 1024 on 128 threads
    softmax = facts(kernels.softmax, F32, F32, 1024, 1024, 1000, BLOCK=1024)
    # Within a warp a maximum takes 5 steps (32 = 2**5), across four warps 2 more, and so does the sum.
    assert softmax.shuffles == 14
    assert softmax.barriers >= 2  # warps exchange through shared memory, twice
    add = facts(kernels.add, F32, F32, F32, 4096, BLOCK=1024)
    assert (add.atomics, add.shuffles, add.barriers, add.shared_memory_bytes) == (0, 0, 0, 0)


# --- tensor cores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        (75, {}),
        (80, {"mma.sync f16": 16}),  # m16n8k16: 64*64*32 / (16*8*16) = 64, on four warps
        (86, {"mma.sync f16": 16}),
        (89, {"mma.sync f16": 16}),
        (90, {"wgmma f16": 2}),  # m64n64k16, by all four warps: 32 / 16
        (120, {"mma.sync f16": 16}),
    ],
)
def test_a_half_precision_dot_on_each_architecture(arch: int, expected: dict[str, int]) -> None:
    found = matmul(arch=arch)
    assert found.tensor_core_instructions == expected
    assert found.uses_tensor_cores == bool(expected)
    assert not found.uses_tf32


def test_blackwell_has_tensor_memory() -> None:
    found = matmul(arch=100)
    assert set(found.tensor_core_instructions) == {"tcgen05 kind::f16"}
    assert found.tensor_memory_columns == 64  # the accumulator's columns


@pytest.mark.parametrize(
    ("precision", "uses_tensor_cores", "uses_tf32"),
    [("ieee", False, False), ("tf32", True, True), ("tf32x3", True, False)],
)
def test_single_precision_uses_what_was_asked_for(precision: str, uses_tensor_cores: bool, uses_tf32: bool) -> None:
    for arch in (80, 90):
        found = matmul(F32, arch=arch, PRECISION=precision)
        assert found.uses_tensor_cores is uses_tensor_cores
        assert found.uses_tf32 is uses_tf32
        (dot,) = found.dots
        assert (dot.m, dot.n, dot.k, dot.operand, dot.precision) == (64, 64, 32, "float32", precision)
        assert dot.line == fault_line(kernels.matmul)


@pytest.mark.parametrize(
    ("dtype", "arch", "operand", "instruction"),
    [
        (torch.bfloat16, 80, "bfloat16", "mma.sync bf16"),
        (torch.float8_e5m2, 90, "float8e5", "wgmma e5m2"),
        (torch.float8_e4m3fn, 89, "float8e4nv", "mma.sync e4m3"),
    ],
)
def test_other_operands(dtype: torch.dtype, arch: int, operand: str, instruction: str) -> None:
    found = matmul(F32.to(dtype), arch=arch)
    assert [dot.operand for dot in found.dots] == [operand]
    assert set(found.tensor_core_instructions) == {instruction}


def test_flash_attention_has_two_dots() -> None:
    found = facts(kernels.flash, F16, F16, F16, F16, 64 * 128, 64, 128, 0.125, BM=128, BN=64, D=64)
    assert [(dot.m, dot.n, dot.k) for dot in found.dots] == [(128, 64, 64), (128, 64, 64)]
    assert found.tensor_core_instructions == {"mma.sync f16": 128}  # 2 * 128*64*64 / (16*8*16) on four warps
    assert found.vectorised_loads


# --- registers, shared memory, occupancy --------------------------------------------------------------------------


def test_a_tile_too_large_for_the_registers_spills() -> None:
    """256 x 128 float32 accumulators on 128 threads are 256 registers each, and there are 255."""
    found = matmul(BM=256, BN=128, BK=32, num_warps=4)
    assert found.registers_per_thread == 255
    assert found.spills and found.spill_store_bytes > 0 and found.stack_bytes > 0
    assert not matmul(BM=128, BN=128, BK=32, num_warps=8).spills  # 64 each


def test_more_shared_memory_than_a_block_may_have_is_a_problem_with_its_facts() -> None:
    """Each stage holds 128x64 and 64x128 halves, 32 KB; on sm_80 and sm_86 four stages keep three: 96 KB; six, 160."""
    arguments = matmul_arguments(F16)
    tiles = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8}
    assert facts(kernels.matmul, *arguments, arch=86, **tiles, num_stages=4).shared_memory_bytes == 96 * 1024
    found = problem(kernels.matmul, *arguments, arch=86, **tiles, num_stages=6)
    assert found.kind == "shared_memory"
    assert "160 KB" in found.message and "sm_86 has 99 KB" in found.message
    assert found.facts is not None and not found.facts.fits_shared_memory and found.facts.occupancy == 0.0
    assert facts(kernels.matmul, *arguments, arch=80, **tiles, num_stages=6).fits_shared_memory


def test_a_block_has_at_most_1024_threads() -> None:
    found = problem(kernels.add, F32, F32, F32, 4096, BLOCK=4096, num_warps=64)
    assert found.kind == "threads" and "2048 threads" in found.message


def test_options_reach_the_compiler() -> None:
    found = matmul(num_warps=8, num_stages=2, maxnreg=64)
    assert (found.warps, found.stages, found.maxnreg) == (8, 2, 64)
    assert found.registers_per_thread <= 64
    assert facts(kernels.add, F32, F32, F32, 4096, arch=90, BLOCK=1024, num_ctas=2).ctas == 2
    refused = problem(kernels.add, F32, F32, F32, 4096, arch=80, BLOCK=1024, num_ctas=2)
    assert refused.kind == "options" and "num_ctas" in refused.message


@pytest.mark.parametrize(
    ("arch", "registers", "shared_kib", "warps", "blocks"),
    [
        (80, 32, 0, 4, 16),  # 64 warps of 4
        (80, 64, 0, 8, 4),  # 2048 registers a warp: 8 warps a scheduler, 32 in all
        (80, 65, 0, 8, 3),  # 2080, rounded to 2304: 7 warps a scheduler, 28 in all
        (80, 73, 0, 4, 6),  # 2336, rounded to 2560: 6 warps a scheduler; 7 without the rounding
        (80, 255, 0, 4, 2),  # 8192 a warp: 2 a scheduler
        (80, 16, 48, 4, 3),  # 164 KB, 49 with what the driver keeps
        (80, 16, 163, 4, 1),
        (80, 16, 164, 4, 0),
        (86, 16, 0, 1, 16),  # no more than 16 blocks
        (89, 16, 0, 1, 24),
        (75, 16, 32, 4, 2),  # 64 KB, none kept
        (90, 16, 113, 4, 2),  # 228 KB
    ],
)
def test_how_many_blocks_fit(arch: int, registers: int, shared_kib: int, warps: int, blocks: int) -> None:
    found = blocks_per_multiprocessor(arch, registers=registers, shared_memory_bytes=shared_kib * 1024, warps=warps)
    assert found == blocks
    share = occupancy(arch, registers=registers, shared_memory_bytes=shared_kib * 1024, warps=warps)
    assert share == blocks * warps / ARCHITECTURES[arch].max_warps


# --- what is wrong ------------------------------------------------------------------------------------------------

#: Kernels of (x, o, BLOCK) with one fault: kind of problem, part of its message, BLOCK.
FAULTS: dict[str, tuple[str, str, int]] = {
    "stub": ("not_implemented", "not implemented yet", 64),
    "calls_stub_helper": ("not_implemented", "not implemented yet", 64),
    "other_raise": ("unsupported", "Raise", 64),
    "undefined_name": ("error", "offset is not defined", 64),
    "missing_constexpr": ("error", "must be of type tl.constexpr", 64),
    "not_a_power_of_two": ("error", "power of 2", 24),
    "wrong_shapes_in_dot": ("error", "equal reduction dimensions", 64),
    "unsupported_python": ("unsupported", "Try", 64),
    "calls_plain_python": ("unsupported", "plain_function", 64),
    "calls_numpy": ("unsupported", "exp", 64),
    "reads_python_global": ("error", "PYTHON_NUMBER", 64),
    "static_assertion": ("static_assert", "BLOCK is too small", 64),
    "nested_fault": ("error", "missing is not defined", 64),
    "fault_inside_library": ("error", "invalid axis 5", 64),
}
#: Where the marked line is in a function that the kernel calls.
INNER = {"calls_stub_helper": "stub_helper", "nested_fault": "inner_fault"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_on_its_line(name: str) -> None:
    kind, text, block = FAULTS[name]
    found = problem(getattr(kernels, name), F32, F32, block)
    assert found.kind == kind
    assert text in found.message
    assert found.file == "compiled_kernels.py"
    assert found.line == fault_line(getattr(kernels, INNER.get(name, name)))
    again = problem(getattr(kernels, name), F32, F32, block)
    assert again == found, "a second look finds the same: Triton keeps a half-made key after the first"


def test_a_variable_that_changes_its_type_in_a_loop_is_named_with_the_assignment() -> None:
    found = problem(kernels.changes_type_in_loop, F32, F32, 4, 64)
    assert found.kind == "error" and "total" in found.message
    assert found.line == fault_line(kernels.changes_type_in_loop)


def test_a_dot_too_small_for_the_tensor_cores() -> None:
    found = problem(kernels.matmul, *matmul_arguments(F16), BM=64, BN=64, BK=8)
    assert "K >= 16" in found.message and found.line == fault_line(kernels.matmul)


def test_double_precision_is_placed() -> None:
    assert fault_line(kernels.double_precision) in facts(kernels.double_precision, F32, F32, 512, 64).float64_lines
    assert facts(kernels.softmax, F32, F32, 1024, 1024, 1000, BLOCK=1024).float64_lines == ()


def test_wide_offsets_are_placed() -> None:
    found = facts(kernels.wide_offsets, F32, F32, 4096, 512)
    line = fault_line(kernels.wide_offsets)
    assert found.wide_offset_lines == (line, line + 1)  # the load and the store
    assert facts(kernels.add, F32, F32, F32, 4096, BLOCK=1024).wide_offset_lines == ()


@triton.jit
def nonsense_assembly(x, o, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    v = tl.load(x + off)
    v = tl.inline_asm_elementwise("gibberish $0, $1;", "=r,r", [v], dtype=tl.float32, is_pure=True, pack=1)  # <- fault
    tl.store(o + off, v)


def test_what_ptxas_refuses_is_short_and_silent(capfd: pytest.CaptureFixture[str]) -> None:
    found = problem(nonsense_assembly, F32, F32, 128)
    assert found.kind == "ptxas" and "gibberish" in found.message
    assert (found.file, found.line) == ("test_compiled.py", fault_line(nonsense_assembly))
    assert "/" not in found.message and len(found.message) < 300
    assert capfd.readouterr() == ("", "")  # Triton prints the whole program
    print("afterwards", file=sys.stderr)
    os.write(2, b"the descriptor too")
    assert capfd.readouterr().err == "afterwards\nthe descriptor too"


def test_a_diagnostic_of_mlir_gives_message_and_line() -> None:
    """Its format: file:line:column: error: text. No kernel is known that gets so far in all versions of Triton."""
    found = understand(RuntimeError("PassManager::run failed"), "/tmp/job/submission.py:12:5: error: out of luck\nnote")
    assert (found.kind, found.message, found.file, found.line) == ("compiler", "out of luck", "submission.py", 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no /home/teacher/course/x.py here", "no x.py here"),
        ("ratio a/b and 3 / 4 stay", "ratio a/b and 3 / 4 stay"),
        ("<function f at 0x7f00aa>", "<function f>"),
        ("x" * 5000, "x" * 2000),
    ],
)
def test_messages_name_no_path_of_this_machine(text: str, expected: str) -> None:
    assert plain(text) == expected


# --- surroundings -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    triton.__version__ < "3.7" and tuple(map(int, np.__version__.split(".")[:2])) >= (2, 4),
    reason="the interpreter of triton 3.6 breaks with numpy 2.4 and later",
)
def test_the_kernel_can_be_interpreted_afterwards() -> None:
    x = torch.arange(64, dtype=torch.float32)
    out = torch.zeros(64)
    facts(kernels.add, x, x, out, 64, BLOCK=64)
    assert kernels.add.device_caches == {}
    InterpretedFunction(kernels.add.fn)[(1,)](x, x, out, 64, BLOCK=64)
    assert torch.equal(out, 2 * x)


def test_nothing_is_written_to_the_home_folder(tmp_path: Path) -> None:
    """A process of its own, because Triton reads HOME when it is imported."""
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import torch; from tests.model import test_compiled as t\n"
        "print(t.facts(t.kernels.add, t.F32, t.F32, t.F32, 4096, BLOCK=1024).loads_by_bits)"
    )
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "{128: 4}\n", done.stderr
    assert list(home.rglob("*triton*")) == []


def test_a_fault_of_this_machine_is_not_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    version = specialise(kernels.add, (F32, F32, F32, 4096), {"BLOCK": 1024})
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    with pytest.raises(OSError, match="/no/such/folder"):
        compile_kernel(kernels.add, version)


def test_a_kernel_of_a_notebook_is_placed_in_the_file_that_the_worker_wrote(tmp_path: Path) -> None:
    cells = [
        SourceCell(1, "import triton\nimport triton.language as tl"),
        SourceCell(
            2,
            "@triton.jit\ndef twice(x, n, BLOCK: tl.constexpr):\n    off = tl.arange(0, BLOCK)\n    tl.store(x + of, 2)",
        ),
    ]
    submission = SubmissionModule(cells, tmp_path, statement_limit_s=5)
    found = problem(submission.module.twice, F32, 64, BLOCK=64)
    assert (found.file, found.line, found.message) == ("submission.py", 6, "of is not defined")


def test_facts_and_problems_travel_as_json() -> None:
    found = matmul()
    assert msgspec.json.decode(msgspec.json.encode(found), type=CompiledKernel) == found
    wrong = problem(kernels.stub, F32, F32, 64)
    assert msgspec.json.decode(msgspec.json.encode(wrong), type=CompileProblem) == wrong


def test_the_default_is_two_architectures() -> None:
    version = specialise(kernels.add, (F32, F32, F32, 4096), {"BLOCK": 1024})
    found = compile_for(kernels.add, version)
    assert {arch: result.arch for arch, result in found.items()} == {80: 80, 90: 90}


def test_the_private_names_of_triton_that_compiling_rests_on() -> None:
    from triton import knobs
    from triton._C.libtriton import ir
    from triton.compiler import code_generator, errors
    from triton.runtime import jit

    look = "look at warpgrade/model/stages.py"
    assert callable(ir.context) and callable(ir.load_dialects), look
    assert hasattr(knobs.nvidia, "dump_ptxas_log") and hasattr(knobs.nvidia, "scope"), look
    assert hasattr(kernels.add, "hash") and hasattr(kernels.add, "cache_key"), look
    look = "look at warpgrade/model/compile_errors.py"
    assert {"src", "node", "error_message"} <= vars(errors.CompilationError("", None, "")).keys(), look  # type: ignore[arg-type]
    assert hasattr(kernels.add, "raw_src") and hasattr(kernels.add, "starting_line_number"), look
    assert {"jit_fn", "cur_node"} <= set(code_generator.CodeGenerator.__init__.__code__.co_names), look
    assert hasattr(jit.DependenciesFinder, "visit_Name"), look
