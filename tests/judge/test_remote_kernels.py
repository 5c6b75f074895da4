"""What the Judge asks about kernels, and what it makes of the answers, which a suspect gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch

from tests.kernel_facts import facts
from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import MAX_COMPILED, MAX_REPORTED, RemoteSubmission
from warpgrade.judge.verdict import Outcome
from warpgrade.model.architectures import DEFAULT_ARCHITECTURES
from warpgrade.wire.compiled import RESOURCE_PROBLEMS, CompileProblem, ProblemKind
from warpgrade.wire.messages import (
    ArgumentTraffic,
    Call,
    Compile,
    KernelUse,
    Loaded,
    Location,
    Problem,
    Raised,
    Ready,
    SanitizerFinding,
)

X = torch.arange(6, dtype=torch.float32)
FINDING = SanitizerFinding("race", "store and store", "x", None, None, "", None)


def use(number: int = 0, *, tuned: bool = False, name: str = "k", moved_bytes: int = 24) -> KernelUse:
    return KernelUse(number, name, 1, {"x": ArgumentTraffic(moved_bytes, 0, 1, 0)}, tuned)


class Compiler:
    """Answers questions about kernels as told, and notes them."""

    def __init__(self, answer: Callable[[Compile], Any] = lambda message: facts(message.arch)) -> None:
        self.asked: list[Compile] = []
        self._answer = answer

    def __call__(self, player: Any, message: Compile) -> None:
        self.asked.append(message)
        player.say(self._answer(message))


def problem(kind: ProblemKind, **more: Any) -> Callable[[Compile], CompileProblem]:
    return lambda message: CompileProblem(kind, message.arch, "the text 4711", **more)


@pytest.fixture
def running(make: Any, workers: Any) -> Any:
    """A RemoteSubmission whose calls give twice x, having run `kernels`, and whose compiler is played."""
    remotes = []

    def build(compiler: Compiler, *kernels: KernelUse, on_call: Any = None, **keywords: Any) -> RemoteSubmission:
        def returns(player: Any, call: Call, payload: bytearray) -> None:
            player.answer(X + X, payload, kernels=kernels)

        remotes.append(make(workers.calling(on_call or returns, compiler), **keywords))
        return remotes[-1]

    yield build
    for remote in remotes:
        remote.close()


def failure(remote: RemoteSubmission) -> Failure:
    with pytest.raises(Failure) as caught:
        remote.double(X)
    return caught.value


# --- the guard --------------------------------------------------------------------------------------------------------


def test_a_kernel_is_asked_about_once_in_a_workers_life(running: Any) -> None:
    compiler = Compiler()
    remote = running(compiler, use(0), use(1))
    for _ in range(3):
        remote.double(X)
    assert compiler.asked == [Compile(0, 80), Compile(1, 80)]
    remote.close()
    remote.double(X)
    assert len(compiler.asked) == 4, "a new Worker counts anew"


def test_so_many_versions_of_a_kernel_are_asked_about(running: Any) -> None:
    compiler = Compiler(lambda m: facts(m.arch) if m.kernel != 3 else CompileProblem("error", m.arch, ""))
    remote = running(compiler, *(use(number) for number in range(4)))
    assert failure(remote).outcome is Outcome.DOES_NOT_COMPILE


@pytest.mark.parametrize("drawn", [0, 1])
def test_of_very_many_versions_some_are_drawn(drawn: int, running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpgrade.judge.remote.secrets.randbelow", lambda most: drawn)
    compiler = Compiler()
    many = [use(number) for number in range(MAX_COMPILED + 5)]
    remote = running(compiler, *many, use(99, name="other"))
    remote.double(X)
    asked = [message.kernel for message in compiler.asked]
    assert asked == [*range(MAX_COMPILED + (5 if drawn == 0 else 0)), 99]


def test_a_later_version_that_does_not_compile_is_not_safe(running: Any) -> None:
    compiler = Compiler(lambda m: CompileProblem("error", m.arch, "") if m.kernel >= MAX_COMPILED else facts(m.arch))
    remote = running(compiler, *(use(number) for number in range(MAX_COMPILED + 20)))
    with pytest.raises(Failure) as caught:
        for _ in range(10):  # with 20 draws of one in four each: all of them miss once in 10**25 runs
            remote.double(X)
    assert caught.value.outcome is Outcome.DOES_NOT_COMPILE


@pytest.mark.parametrize("kind", sorted(set(get_args(ProblemKind)) - {"unreadable", "undecided"}))
def test_what_compiles_nowhere_fails_each_test_and_tells_nothing_of_the_compilers_text(kind: Any, running: Any) -> None:
    compiler = Compiler(problem(kind))
    remote = running(compiler, use())
    for _ in range(2):
        found = failure(remote)
        expected = Outcome.NOT_IMPLEMENTED if kind == "not_implemented" else Outcome.DOES_NOT_COMPILE
        assert found.outcome is expected
        assert "4711" not in found.sentence + found.pattern
        assert found.evidence["compiler"] == "the text 4711"
    assert [message.arch for message in compiler.asked] == [80, 90]


def test_one_architecture_is_enough(running: Any) -> None:
    compiler = Compiler(lambda m: facts(90) if m.arch == 90 else CompileProblem("shared_memory", 80, "too much"))
    assert torch.equal(running(compiler, use()).double(X), X + X)


@pytest.mark.parametrize("kind", get_args(ProblemKind))
def test_a_tuner_passes_over_what_needs_too_much(kind: Any, running: Any) -> None:
    remote = running(Compiler(problem(kind)), use(tuned=True))
    if kind in RESOURCE_PROBLEMS or kind == "unreadable":
        assert torch.equal(remote.double(X), X + X)
    else:
        assert failure(remote).outcome.decided is (kind != "undecided")


def test_facts_that_cannot_be_read_are_our_fault_and_cost_nothing(running: Any) -> None:
    remote = running(Compiler(problem("unreadable")), use())
    assert torch.equal(remote.double(X), X + X)
    with pytest.raises(Failure) as caught:
        remote.compiled()
    assert caught.value.outcome is Outcome.INCONCLUSIVE, "a suite that needs them has not been answered"


def test_the_line_is_shown_from_the_judges_own_copy(running: Any) -> None:
    found = failure(running(Compiler(problem("error", cell=1, line=2)), use()))
    assert found.location == Location(1, 2, "return x + x")
    assert "(cell 1, line 2)" in found.sentence
    for cell, line in ((1, 99), (9, 1), (0, 1), (1, 0)):
        assert failure(running(Compiler(problem("error", cell=cell, line=line)), use())).location is None


def test_what_the_compiler_refuses_comes_before_what_the_interpreter_found(running: Any) -> None:
    def raises(player: Any, call: Call, payload: bytearray) -> None:
        player.say(Raised(Problem("AttributeError", "t"), "call", (use(),), (FINDING,)))

    assert failure(running(Compiler(problem("error")), on_call=raises)).outcome is Outcome.DOES_NOT_COMPILE
    assert failure(running(Compiler(), on_call=raises)).outcome is Outcome.MEMORY_ERROR


def test_what_only_a_gpu_can_run_is_pending_once_it_compiles(running: Any) -> None:
    def raises(player: Any, call: Call, payload: bytearray) -> None:
        player.say(Raised(Problem("NotInterpreted", "inline_asm", Location(1, 1, "")), "call", (use(),)))

    assert failure(running(Compiler(problem("error")), on_call=raises)).outcome is Outcome.DOES_NOT_COMPILE
    found = failure(running(Compiler(), on_call=raises))
    assert found.outcome is Outcome.PENDING
    assert not found.outcome.decided
    assert "only a GPU can run" in found.sentence


def test_what_is_not_written_is_not_compiled(running: Any) -> None:
    def raises(player: Any, call: Call, payload: bytearray) -> None:
        player.say(Raised(Problem("NotImplementedError", ""), "call", (use(),)))

    compiler = Compiler()
    assert failure(running(compiler, on_call=raises)).outcome is Outcome.NOT_IMPLEMENTED
    assert compiler.asked == []


@pytest.mark.parametrize(
    "answer",
    [lambda m: Ready(), lambda m: Loaded([]), lambda m: Raised(Problem("E", ""), "call"), lambda m: facts(m.arch + 6)],
    ids=["ready", "loaded", "raised", "another architecture"],
)
def test_another_answer_is_refused(answer: Any, running: Any) -> None:
    assert failure(running(Compiler(answer), use())).outcome is Outcome.REFUSED


def test_a_compiler_that_never_ends_times_out(running: Any) -> None:
    found = failure(running(lambda player, message: player.hear(), use(), compile_s=0.5))
    assert found.outcome is Outcome.TIMED_OUT
    assert "unrolled" in found.sentence


def test_a_compiler_that_ends_the_process_is_the_submissions(running: Any) -> None:
    found = failure(running(lambda player, message: player.socket.shutdown(2), use()))
    assert found.outcome is Outcome.CRASHED
    assert "mask" not in found.sentence, "no advice about memory where the compiler crashed"


# --- reports ----------------------------------------------------------------------------------------------------------


def test_reports_are_of_the_largest_call_of_each_name(running: Any) -> None:
    compiler = Compiler()
    small, large, other = use(0, moved_bytes=8), use(1, moved_bytes=80), use(2, name="other", moved_bytes=16)
    remote = running(compiler, small, large, other)
    assert remote.kernel_reports() == [], "nothing has run"
    remote.double(X)
    compiler.asked.clear()
    first, second = remote.kernel_reports()
    assert (first.name, first.traffic["x"].bytes_loaded) == ("k", 80)
    assert second.name == "other"
    assert compiler.asked == [Compile(n, arch, explain=True) for n in (1, 2) for arch in (80, 90)]
    assert [result.arch for result in first.compiled] == [80, 90]


def test_reports_are_few(running: Any) -> None:
    remote = running(Compiler(), *(use(number, name=f"k{number}") for number in range(30)))
    remote.double(X)
    assert len(remote.kernel_reports()) == MAX_REPORTED


def test_a_dead_workers_kernels_are_forgotten(running: Any) -> None:
    remote = running(Compiler(), use())
    remote.double(X)
    remote.close()
    assert remote.kernel_reports() == []
    assert remote.kernels == ()
    assert remote.compiled() == []


def test_a_kernel_on_which_our_own_code_fails_is_neither_a_zero_nor_marks(running: Any) -> None:
    found = failure(running(Compiler(problem("undecided")), use()))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert not found.outcome.decided
    assert "4711" not in found.sentence


def test_kernels_that_were_not_told_of_are_refused(running: Any) -> None:
    def leaves_out(player: Any, call: Call, payload: bytearray) -> None:
        raised = Problem("ValueError", "", None)
        player.say(Raised(raised, "call", (use(),), (), kernels_left_out=1))

    found = failure(running(Compiler(), on_call=leaves_out))
    assert found.outcome is Outcome.REFUSED
    assert "more than 32 different versions" in found.sentence


def test_where_one_architecture_is_not_known_the_other_s_refusal_is_no_zero(running: Any) -> None:
    def answer(message: Compile) -> CompileProblem:
        return CompileProblem("undecided" if message.arch == DEFAULT_ARCHITECTURES[0] else "error", message.arch, "")

    assert failure(running(Compiler(answer), use())).outcome is Outcome.INCONCLUSIVE
