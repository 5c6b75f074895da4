"""Kernels in the Worker, as the Judge hears of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
import torch

from warpgrade.course import Exercise, Form
from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.verdict import Outcome, Tier
from warpgrade.model.compiled import compile_kernel
from warpgrade.model.sanitizer import Launch
from warpgrade.model.signature import specialise
from warpgrade.model.traffic import Traffic
from warpgrade.submission import CodeCell, Submission
from warpgrade.wire.compiled import CompiledKernel, CompileProblem
from warpgrade.wire.messages import Compile, Location, Returned, WorkerMessage
from warpgrade.worker import probe
from warpgrade.worker.kernels import Kernels
from warpgrade.worker.module import SubmissionModule

X = torch.arange(1, 11, dtype=torch.float32)
NOT_ASCII = """\
@triton.jit
def köpie(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def in_another_language(x):
    y = torch.empty_like(x)
    köpie[(1,)](x, y, x.numel(), BLOCK=16)
    return y
"""
CELLS = (
    """\
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton
import triton.language as tl
""",
    """\
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, 2 * v, mask=i < n)

@triton.jit
def beyond(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, v, mask=i < n)

@triton.jit
def all_to_one(x, y, BLOCK: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, BLOCK))))

@triton.jit
def add_to(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@triton.jit
def python_in_it(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    import math
    tl.store(y + i, tl.load(x + i, mask=i < n) * math.floor(2.5), mask=i < n)

@triton.jit
def in_turn(x, y, BLOCK: tl.constexpr):
    total = 0.0
    for _ in range(2):
        total = tl.sum(tl.load(x + tl.arange(0, BLOCK))) + total.to(x.dtype.element_ty)
    tl.store(y, total)

@triton.jit
def square(x, y, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    product = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, N, BLOCK):
        left = tl.load(x + i[:, None] * N + k + i[None, :])
        product += tl.dot(left, tl.load(x + (k + i[:, None]) * N + i[None, :]))
    tl.store(y + i[:, None] * N + i[None, :], product)

configs = [triton.Config({"BLOCK": 64}, num_stages=20), triton.Config({"BLOCK": 64}, num_stages=21)]
square_tuned = triton.autotune(configs=configs, key=[])(square)
tuned = triton.autotune(configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"])(scale)

@triton.jit
def one_block(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))

@triton.jit
def size_written(y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, n.to(tl.float32), mask=i < n)
""",
    """\
def right(x):
    y = torch.empty_like(x)
    scale[(3,)](x, y, 10, BLOCK=4)
    return y

def reads_beyond(x):
    y = torch.empty_like(x)
    beyond[(1,)](x, y, 10, BLOCK=16)
    return y

def swallows(x):
    try:
        return reads_beyond(x)
    except Exception:
        return x.clone()

def races(x):
    y = torch.empty(1)
    all_to_one[(2,)](x, y, BLOCK=8)
    return y

def reads_nothing(x):
    y = torch.empty_like(x)
    add_to[(1,)](x, y, 10, BLOCK=16)
    return x.clone()

def by_halves(x):
    y = x.new_empty(10)
    scale[(1,)](x, y[:4], 4, BLOCK=4)
    scale[(2,)](x[4:], y[4:], 6, BLOCK=4)
    add_to[(1,)](x, y, 10, BLOCK=16)
    return y

def in_place(x):
    y = torch.empty_like(x)
    y.zero_()
    add_to[(1,)](x, y, 10, BLOCK=16)
    return y

def by_python(x):
    y = torch.empty_like(x)
    python_in_it[(1,)](x, y, 10, BLOCK=16)
    return y

def adds_in_turn(x):
    y = torch.empty(1, dtype=x.dtype)
    in_turn[(1,)](x, y, BLOCK=16)
    return y

def too_large(x):
    y = torch.empty_like(x)
    square[(1,)](x, y, 64, BLOCK=64, num_stages=20)
    return y

def too_large_tuned(x):
    y = torch.empty_like(x)
    square_tuned[(1,)](x, y, 64)
    return y

def by_tuning(x):
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, 10)
    return y

def block_as_long(x):
    y = torch.empty_like(x)
    one_block[(1,)](x, y, BLOCK=x.numel())
    return y

def size_as_float(x):
    y = torch.empty_like(x)
    size_written[(1,)](y, x.numel(), BLOCK=16)
    return y
""",
    NOT_ASCII,
)


@pytest.fixture(scope="module")
def remote() -> Iterator[RemoteSubmission]:
    exercise = Exercise(title="t", points=1.0, form=Form.PLAIN, signature="f(x)", summary="", arguments=[], id="unused",
                        own_kernel=False)  # fmt: skip
    code = tuple(CodeCell(number, source) for number, source in enumerate(CELLS, start=1))
    started = RemoteSubmission(exercise, Submission(code, "", "", frozenset()), NoSandbox(), Tier.MODEL, [])
    yield started
    started.close()


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("reads_beyond", Outcome.MEMORY_ERROR, "A load goes outside of x (cell 2, line 10)"),
        ("swallows", Outcome.MEMORY_ERROR, "A load goes outside of x (cell 2, line 10)"),
        ("races", Outcome.MEMORY_ERROR, "Two programs touch the same element of y (store and store)"),
        ("reads_nothing", Outcome.MEMORY_ERROR, "reads y before anything was written to it (cell 2, line 20)"),
    ],
)
def test_a_fault_fails_the_call_although_the_result_is_right(
    name: str, outcome: Outcome, words: str, remote: RemoteSubmission
) -> None:
    with pytest.raises(Failure) as caught:
        getattr(remote, name)(X)
    assert caught.value.outcome is outcome
    assert words in caught.value.sentence


@pytest.mark.parametrize(("name", "factor"), [("right", 2), ("by_halves", 3), ("in_place", 1), ("by_tuning", 2)])
def test_a_right_use_of_empty_memory_is_none(name: str, factor: int, remote: RemoteSubmission) -> None:
    assert torch.equal(getattr(remote, name)(X).tensor, factor * X)


def answer_of(remote: RemoteSubmission, name: str, monkeypatch: pytest.MonkeyPatch, x: torch.Tensor = X) -> Returned:
    answers: list[WorkerMessage] = []
    ask = remote._ask
    with monkeypatch.context() as patched:
        patched.setattr(remote, "_ask", lambda *arguments: (answers.append((got := ask(*arguments))[0]), got)[1])
        getattr(remote, name)(x)
    return next(answer for answer in reversed(answers) if isinstance(answer, Returned))


def test_launches_of_an_autotuner_that_compares_do_not_count(
    remote: RemoteSubmission, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = answer_of(remote, "by_tuning", monkeypatch)
    (kernel,) = answer.kernels
    assert (answer.kernel_launches, kernel.launches, kernel.tuned, kernel.name) == (1, 1, True, "scale")
    assert kernel.traffic["x"].bytes_loaded == 40
    assert kernel.traffic["y"].bytes_stored == 40


def test_a_kernel_is_compiled_with_lines_as_the_notebook_counts(
    remote: RemoteSubmission, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernel,) = answer_of(remote, "right", monkeypatch).kernels
    channel = remote._ensure_loaded()
    compiled, _ = remote._ask(channel, Compile(kernel.number, 80), bytearray(), 60.0, "compiling")
    assert isinstance(compiled, CompiledKernel)
    assert (compiled.name, compiled.cell) == ("scale", 2)
    assert {access.line for access in compiled.accesses} == {4, 5}


# --- the compiler as the second guard ---------------------------------------------------------------------------------


def test_what_only_python_has_does_not_compile_although_the_interpreter_runs_it(remote: RemoteSubmission) -> None:
    for _ in range(2):  # asked once, and remembered
        with pytest.raises(Failure) as caught:
            remote.by_python(X)
        assert caught.value.outcome is Outcome.DOES_NOT_COMPILE
        assert caught.value.location == Location(2, 25, "import math")
        assert "(cell 2, line 25)" in caught.value.sentence
        assert "an import stands outside the kernel" in caught.value.evidence["compiler"]


def test_a_kernel_that_compiles_for_one_type_may_not_for_another(
    remote: RemoteSubmission, monkeypatch: pytest.MonkeyPatch
) -> None:
    singles = torch.ones(16)
    (first,) = answer_of(remote, "adds_in_turn", monkeypatch, singles).kernels
    (second,) = answer_of(remote, "adds_in_turn", monkeypatch, singles).kernels
    assert first.number == second.number
    with pytest.raises(Failure) as caught:
        remote.adds_in_turn(singles.half())
    assert caught.value.outcome is Outcome.DOES_NOT_COMPILE
    assert caught.value.location is not None
    assert caught.value.location.text.startswith("total = tl.sum(tl.load(")
    assert torch.equal(remote.adds_in_turn(singles).tensor, 32 * torch.ones(1)), "the first still compiles"


def test_a_block_that_does_not_compile_costs_its_own_launch_only(remote: RemoteSubmission) -> None:
    for count, runs in ((64, True), (100, False), (128, True), (100, False), (64, True)):
        if runs:
            assert torch.equal(remote.block_as_long(torch.ones(count)).tensor, torch.ones(count))
            continue
        with pytest.raises(Failure) as caught:
            remote.block_as_long(torch.ones(count))
        assert caught.value.outcome is Outcome.DOES_NOT_COMPILE
        assert "power of 2" in caught.value.evidence["compiler"]


def test_a_size_of_one_is_a_version_of_its_own(remote: RemoteSubmission) -> None:
    """On a GPU too: the compiler makes a constant of it, and a constant has no methods."""
    assert torch.equal(remote.size_as_float(torch.zeros(4)).tensor, torch.full((4,), 4.0))
    with pytest.raises(Failure) as caught:
        remote.size_as_float(torch.zeros(1))
    assert caught.value.outcome is Outcome.DOES_NOT_COMPILE


def test_too_much_shared_memory_fails_a_launch_and_not_a_tuner(remote: RemoteSubmission) -> None:
    square = torch.eye(64, dtype=torch.float16)
    with pytest.raises(Failure) as caught:
        remote.too_large(square)
    assert caught.value.outcome is Outcome.DOES_NOT_COMPILE
    assert "needs more shared memory than a block may have (cell 2, line 36)" in caught.value.sentence
    assert "sm_90 has 227 KB" in caught.value.evidence["compiler"]
    assert torch.equal(remote.too_large_tuned(square).tensor, square)


def test_facts_of_the_last_call_are_values_for_suites(remote: RemoteSubmission) -> None:
    remote.right(X)
    (kernel,) = remote.kernels
    assert kernel.traffic["x"].useful_bytes == 40
    for arch in (80, 90):
        (facts,) = remote.compiled(arch)
        assert (facts.name, facts.arch, facts.spills, facts.uses_tf32) == ("scale", arch, False, False)


def test_a_full_scratch_folder_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **keywords: object) -> None:
        raise OSError(28, "No space left on device")

    kernels = Kernels(cast(SubmissionModule, None))
    kernels._known = [cast(Any, None)]
    monkeypatch.setattr(kernels, "_compile", full)
    answer = kernels.compiled(Compile(0, 80))
    assert isinstance(answer, CompileProblem)
    assert (answer.kind, answer.message) == ("compiler", "no room to compile in: No space left on device")


def test_a_failure_of_our_own_code_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Kernels(cast(SubmissionModule, None))
    kernels._known = [cast(Any, None)]
    monkeypatch.setattr(kernels, "_compile", lambda *unused: 1 / 0)
    answer = kernels.compiled(Compile(0, 80))
    assert isinstance(answer, CompileProblem)
    assert (answer.kind, answer.message) == ("undecided", "ZeroDivisionError: division by zero")


@pytest.mark.parametrize(("versions", "told", "left_out"), [(32, 32, 0), (33, 32, 1)])
def test_how_many_kernels_are_told_of(versions: int, told: int, left_out: int) -> None:
    kernels = Kernels(cast(SubmissionModule, None))
    session = kernels.session(0)
    names = [f"a_long_name_of_an_argument_{i}" for i in range(20)]
    for number in range(versions):
        launch = Launch(probe._sums, "k", (1, 1, 1), {}, {"BLOCK": number}, {})
        launch.traffic.update({name: Traffic(1, 1, 1, 1, 1, 1) for name in names})
        session.launches.append(launch)
    uses, rest = kernels.uses(session)
    assert ([use.number for use in uses], rest) == (list(range(told)), left_out)
    assert len(msgspec.json.encode(uses)) <= 17 * 1024
    assert uses[0].traffic, "what there is room for is told"


def test_a_name_that_is_not_ascii_ends_no_worker(remote: RemoteSubmission) -> None:
    with pytest.raises(Failure) as caught:
        remote.in_another_language(X)
    assert caught.value.outcome is Outcome.DOES_NOT_COMPILE, "as on a GPU: Triton takes no such name"
    assert torch.equal(remote.right(X).tensor, 2 * X), "it still answers"


def test_facts_that_cannot_be_read_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpgrade.model.compiled.ptx.count", lambda *unused: 1 / 0)
    answer = compile_kernel(probe._sums, specialise(probe._sums, *probe._arguments()), explain=False)
    assert isinstance(answer, CompileProblem)
    assert answer.kind == "unreadable"
    assert "ZeroDivisionError" in answer.message
    monkeypatch.setattr(probe, "_interpreted", lambda: "")
    assert "compiler does not work here" in probe.problem(), "and no class is judged where none can be"
