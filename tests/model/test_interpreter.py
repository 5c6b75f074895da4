"""How kernels are launched: what triton itself offers works, and nothing of it is changed for afterwards."""

import os
import subprocess
import sys
import threading

import pytest
import torch
import triton
import triton.language as tl
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice
from triton.runtime.jit import JITFunction

from warpgrade.model.findings import KernelFault
from warpgrade.model.interpreter import install, interpreting
from warpgrade.model.sanitizer import Session


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr = 64):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, helper(tl.load(x + offsets, mask=offsets < n)), mask=offsets < n)


@triton.jit
def helper(value):
    return value * FACTOR


FACTOR: tl.constexpr = tl.constexpr(2)


def launched(session=None):
    x, out = torch.arange(100.0), torch.zeros(100)
    with interpreting(session or Session()):
        double[(2,)](x, out, 100)
    return torch.equal(out, 2 * x)


def snapshot():
    owners = (tl, tl.core, tl.math, tl.standard, tl.tensor, tl.dtype, tl.core.tensor_descriptor_base, libdevice)
    return [dict(vars(owner)) for owner in owners]


# --- before, between and after ----------------------------------------------------------------------------------


def test_triton_language_is_left_as_it_was():
    before = snapshot()
    assert launched()
    with interpreting(Session()), pytest.raises(KernelFault):
        double[(2,)](torch.ones(100), torch.ones(90), 100)
    assert snapshot() == before


def test_the_students_module_gets_no_new_names():
    before = set(double.fn.__globals__)
    assert launched()
    assert set(double.fn.__globals__) == before


def test_outside_of_the_block_a_launch_is_tritons():
    session = Session()
    assert launched(session)
    out = torch.zeros(100)
    # Without a driver triton cannot launch, with one it refuses tensors of the CPU.
    with pytest.raises((RuntimeError, ValueError)):
        double[(2,)](torch.ones(100), out, 100)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        helper(1.0)
    assert len(session.launches) == 1
    assert not out.any()


def test_the_same_object_can_be_compiled_before_and_after():
    def ptx():
        source = ASTSource(double, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64})
        return triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ptx"]

    first = ptx()
    assert isinstance(double, JITFunction)
    assert launched()
    assert ptx() == first
    assert "ld.global" in first


def test_install_twice_is_install_once():
    before = JITFunction.run
    install()
    assert JITFunction.run is before


def test_a_session_within_a_session_takes_the_launches():
    outer, inner = Session(), Session()
    with interpreting(outer):
        assert launched(inner)
        assert launched(outer)
    assert (len(outer.launches), len(inner.launches)) == (1, 1)


def test_a_launch_from_another_thread():
    result = []
    with interpreting(Session()) as session:
        x, out = torch.arange(100.0), torch.zeros(100)
        thread = threading.Thread(target=lambda: result.append(double[(2,)](x, out, 100)))
        thread.start()
        thread.join()
    assert torch.equal(out, 2 * x)
    assert len(session.launches) == 1


# --- ways to launch ---------------------------------------------------------------------------------------------


@triton.jit
def mark(out, n1, n2, ONE: tl.constexpr):
    at = (tl.program_id(0) * n1 + tl.program_id(1)) * n2 + tl.program_id(2)
    tl.store(out + at, ONE)


@pytest.mark.parametrize("grid", [(2, 3, 4), [2, 3, 4], lambda meta: (2, 3, 4 * meta["ONE"]), (torch.tensor(2), 3, 4)])
def test_grids(clean, grid):
    out = torch.zeros(24)
    mark[grid](out, 3, 4, ONE=1)
    assert out.all()
    assert clean.launches[0].grid == (2, 3, 4)


@pytest.mark.parametrize("grid", [(1, 65536), (1, 1, 65536), (-1,), (), (1, 1, 1, 1)])
def test_grids_that_cuda_refuses(grid):
    with interpreting(Session()), pytest.raises(ValueError, match=r"ax[ei]s"):
        mark[grid](torch.zeros(1), 1, 1, ONE=1)


def test_an_empty_grid_runs_nothing():
    with interpreting(Session()) as session:
        mark[(0,)](torch.zeros(1), 1, 1, ONE=1)
    assert session.launches[0].grid == (0, 1, 1)


def test_run_and_warmup():
    x, out = torch.arange(100.0), torch.zeros(100)
    with interpreting(Session()) as session:
        assert double.warmup(x, out, 100, grid=(2,)) is None
        assert not session.launches
        double.run(x, out, 100, grid=(2,), warmup=False, num_warps=8)
    assert torch.equal(out, 2 * x)
    assert session.launches[0].options == {"num_warps": 8}


@pytest.mark.parametrize(("arguments", "options", "error"), [
    ((), {}, TypeError),
    ((1, 2, 3, 4, 5), {}, TypeError),
    ((1, 2, 3), {"n": 3}, TypeError),
    ((1, 2, 3), {"num_wraps": 4}, KeyError),
])  # fmt: skip
def test_arguments_that_do_not_fit(arguments, options, error):
    with interpreting(Session()), pytest.raises(error):
        double[(1,)](*arguments, **options)


def test_tensors_of_another_device_are_refused():
    with interpreting(Session()), pytest.raises(ValueError, match="x is on meta"):
        double[(1,)](torch.ones(4, device="meta"), torch.ones(4), 4)


@triton.jit
def all_sorts(out, flag, nothing, real, big, pair, WIDE: tl.constexpr):
    tl.static_assert(WIDE == 8, "constexprs stay Python values")
    total = tl.zeros((WIDE,), tl.float64) + real
    if flag:
        total += big
    if nothing is None:
        total += pair[0] + tl.load(pair[1])
    tl.store(out + tl.arange(0, WIDE), total)


def test_arguments_of_all_sorts(clean):
    out = torch.empty(8, dtype=torch.float64)
    all_sorts[(1,)](out, True, None, 0.1, 2**40, (3, torch.tensor([4.0])), WIDE=8)
    # A float argument is an fp32 on a GPU.
    assert torch.equal(out, torch.full((8,), 2**40 + 7 + torch.tensor(0.1).double().item(), dtype=torch.float64))


def test_a_reinterpreted_tensor(clean):
    x, out = torch.arange(100, dtype=torch.int16), torch.zeros(100, dtype=torch.int16)
    double[(2,)](triton.reinterpret(x, tl.uint16), triton.reinterpret(out, tl.uint16), 100)
    assert torch.equal(out, 2 * x)


def test_closures():
    width = 16

    def make(step):
        @triton.jit
        def kernel(out):
            tl.store(out + tl.arange(0, width), tl.arange(0, width) * step)

        return kernel

    first, second = torch.zeros(16), torch.zeros(16)
    with interpreting(Session()):
        make(3)[(1,)](first)
        make(5)[(1,)](second)
    assert torch.equal(first, torch.arange(16.0) * 3)
    assert torch.equal(second, torch.arange(16.0) * 5)


# --- the autotuner, heuristics, benchmarks ----------------------------------------------------------------------


def counting(**options):
    @triton.autotune(
        configs=[triton.Config({"STEP": 1}), triton.Config({"STEP": 10}), triton.Config({"STEP": 100})],
        key=["n"],
        **options,
    )
    @triton.jit
    def count(out, n, STEP: tl.constexpr):
        tl.store(out, tl.load(out) + STEP)

    return count


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 112), ({"reset_to_zero": ["out"]}, 1), ({"restore_value": ["out"]}, 1), ({"cache_results": True}, 112)],
)
def test_every_configuration_runs_once_and_the_first_ones_result_stands(options, expected):
    count, out = counting(**options), torch.zeros(1)
    with interpreting(Session()) as session:
        count[(1,)](out, 1)
    assert [launch.constexprs["STEP"] for launch in session.launches] == [1, 10, 100, 1]
    assert out.item() == expected


def test_a_choice_holds_for_its_key_and_its_session_alone():
    count, out = counting(), torch.zeros(1)
    with interpreting(Session()) as session:
        for n in (1, 1, 2):
            count[(1,)](out, n)
    assert [launch.constexprs["STEP"] for launch in session.launches] == [1, 10, 100, 1, 1, 1, 10, 100, 1]
    assert count.cache == {}, "what the interpreter chose is not for a GPU"
    with interpreting(Session()) as session:
        count[(1,)](out, 1)
    assert len(session.launches) == 4


def test_the_autotuner_may_zero_an_output():
    count, out = counting(reset_to_zero=["out"]), torch.empty(1)
    with interpreting(Session(outputs=["out"])) as session:
        count[(1,)](out, 1)
    assert session.findings == []
    with interpreting(Session(outputs=["out"])) as session:
        counting()[(1,)](torch.empty(1), 1)
    assert [finding.kind for finding in session.findings] == ["uninitialised"]


@triton.autotune(
    configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=[], do_bench=lambda call, quantiles: 1 / 0
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def fill(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.static_assert(BLOCK >= 64, "too small")
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, EVEN + 1, mask=offsets < n)


def test_heuristics_and_a_configuration_that_a_static_assert_rules_out():
    out = torch.zeros(100)
    with interpreting(Session()) as session:
        fill[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](out, 100)
    assert torch.equal(out, torch.ones(100))
    assert fill.best_config.kwargs == {"BLOCK": 64}
    assert [launch.constexprs for launch in session.launches] == [
        {"BLOCK": 16, "EVEN": False},
        *[{"BLOCK": 64, "EVEN": False}] * 2,
    ]


@pytest.mark.parametrize("bench", [triton.testing.do_bench, triton.testing.do_bench_cudagraph])
def test_benchmarks_call_once_and_need_no_driver(bench):
    bench = getattr(triton.testing, bench.__name__)  # the hooked one, as a notebook imports it after install()
    calls = []
    with interpreting(Session()):
        took_ms = bench(lambda: calls.append(1))
        assert isinstance(took_ms, float)
        assert bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8]) == [1.0, 1.0, 1.0]
        assert len(bench(lambda: calls.append(1), return_mode="all")) == 1
        assert bench(lambda: calls.append(1), 10, quantiles=[0.5]) == 1.0
    assert len(calls) == 4


# --- the order of programs --------------------------------------------------------------------------------------


@triton.jit
def arrival(out, counter):
    tl.store(out + tl.atomic_add(counter, 1), tl.program_id(0))


def arrivals(seed):
    out, counter = torch.empty(16), torch.zeros(1, dtype=torch.int32)
    with interpreting(Session(seed=seed)):
        arrival[(16,)](out, counter)
    return out.tolist()


def test_programs_run_in_an_order_that_the_seed_decides():
    in_turn = [float(n) for n in range(16)]
    assert arrivals(None) == in_turn
    assert arrivals(1) == arrivals(1)
    assert len({tuple(arrivals(seed)) for seed in range(5)}) == 5
    assert all(sorted(arrivals(seed)) == in_turn for seed in range(5))


def test_each_launch_of_a_session_has_an_order_of_its_own():
    orders = []
    with interpreting(Session(seed=3)):
        for _ in range(3):
            out, counter = torch.empty(16), torch.zeros(1, dtype=torch.int32)
            arrival[(16,)](out, counter)
            orders.append(tuple(out.tolist()))
    assert len(set(orders)) == 3


# --- libdevice, and TRITON_INTERPRET ----------------------------------------------------------------------------


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, mask=offsets < n)
    result = 0.5 * value * (1 + libdevice.tanh(0.7978845608028654 * (value + 0.044715 * libdevice.pow(value, 3.0))))
    tl.store(out + offsets, result, mask=offsets < n)


def test_libdevice(clean, near):
    x, out = torch.randn(100), torch.empty(100)
    gelu[(1,)](x, out, 100, BLOCK=128)
    exact = torch.nn.functional.gelu(x.double(), approximate="tanh")
    near(out, exact, work=32 * 2.0**-24 * (1 + x.double().abs() ** 3))


INTERPRET = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from warpgrade.model.findings import OutOfBounds
from warpgrade.model.interpreter import install, interpreting
from warpgrade.model.sanitizer import Session
install()

@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n, other=0.0)))

tuned = triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=[])(total)
out = torch.empty(1)
with interpreting(Session()) as session:
    tuned[(1,)](torch.ones(100), out, 100)
    assert (out.item(), len(session.launches)) == (100.0, 3)
    try:
        total[(1,)](torch.ones(99), out, 100, BLOCK=128)
    except OutOfBounds as error:
        print(error.finding.argument, error.finding.index, error.finding.line[1])
total[(1,)](torch.ones(50), out, 50, BLOCK=128)
assert out.item() == 50.0, "outside of the block triton's own interpreter runs it"
"""


def test_a_notebook_that_sets_triton_interpret(tmp_path):
    script = tmp_path / "notebook.py"
    script.write_text(INTERPRET)
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["x", "99", "12"]
