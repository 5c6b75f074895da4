"""The Worker as a process, without a sandbox so that it starts anywhere: what a notebook's functions become to the Judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from warpgrade.course import Exercise, Form, Limits
from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.verdict import Outcome, Tier
from warpgrade.submission import CodeCell, Submission
from warpgrade.wire.messages import Call, IntValue, Location
from warpgrade.wire.tensors import Other

X = torch.arange(10, dtype=torch.float32)

CELLS = (
    """\
import functools
import torch, triton
import triton.language as tl
from warpgrade.notebook import check, grade, hint
%matplotlib inline
check("relu")
""",
    """\
@triton.jit
def scale(x, y, n, factor: tl.constexpr, BLOCK: tl.constexpr):
    # a kernel reads its own source
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

def twice(x, factor=2):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 4),)](x, y, x.numel(), factor, BLOCK=4)
    return y
""",
    """\
by_lambda = lambda x: twice(x, 3)
by_partial = functools.partial(twice, factor=4)
class Launcher:
    def __call__(self, x):
        return twice(x, 5)
by_object = Launcher()
with torch.no_grad():
    def by_with(x): return twice(x, 6)
""",
    """\
@triton.jit
def broken(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, v.no_such_attribute)

def breaks(x):

    return broken[(1,)](x, 4, BLOCK=4)

def raises(x):
    values = [1]
    return values[7]

def exits(x): raise SystemExit(0)
def interrupts(x): raise KeyboardInterrupt
def prints(x): print("hello from the notebook"); return twice(x)
def torchy(x): return torch.relu(x)
def escapes(x): return torch.from_numpy(x.numpy() + 1)
def view(x): return x[2:5]
def generator(x): yield 1
def counter(x): return functools.partial(twice, factor=7)
def takes_two(x, y): return x
def many(x): return [1] * 40
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return twice(x)
by_autograd = Twice.apply
not_callable = 5
""",
    "x = 1 / 0\nafter = 1\n",
)


def remote_of(*cells: str, **limits: Any) -> RemoteSubmission:
    exercise = Exercise(title="t", points=1.0, form=Form.PLAIN, signature="f(x)", summary="", arguments=[], id="unused",
                        own_kernel=False, limits=Limits(**limits))  # fmt: skip
    code = tuple(CodeCell(number, source) for number, source in enumerate(cells, start=1))
    return RemoteSubmission(exercise, Submission(code, "", "", frozenset()), NoSandbox(), Tier.MODEL, [])


@pytest.fixture(scope="module")
def remote() -> Iterator[RemoteSubmission]:
    started = remote_of(*CELLS)
    yield started
    started.close()


def failure(remote: RemoteSubmission, name: str, *arguments: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        getattr(remote, name)(*(arguments or (X,)))
    return caught.value


@pytest.mark.parametrize(
    ("name", "factor"),
    [("twice", 2), ("by_lambda", 3), ("by_partial", 4), ("by_object", 5), ("by_with", 6), ("by_autograd", 2)],
)
def test_whatever_can_be_called_is_a_launcher(name: str, factor: int, remote: RemoteSubmission) -> None:
    assert torch.equal(getattr(remote, name)(X).tensor, X * factor)


def test_a_bare_kernel_is_launched_on_a_grid(remote: RemoteSubmission) -> None:
    y = torch.full((10,), float("nan"))
    with pytest.raises(Failure) as caught:
        remote.launch("scale", (3,), X, y, 10, 2, BLOCK=4)
    assert caught.value.pattern == "an input is changed", "no argument is declared as an output here"
    assert failure_of_launch(remote).outcome is Outcome.WRONG


def failure_of_launch(remote: RemoteSubmission) -> Failure:
    with pytest.raises(Failure) as caught:
        remote.launch("not_callable", (3,), X)
    return caught.value


def test_a_line_inside_an_interpreted_kernel_is_found(remote: RemoteSubmission) -> None:
    caught = failure(remote, "breaks")
    assert caught.outcome is Outcome.DOES_NOT_COMPILE
    assert caught.evidence["compiler"] == "'tensor' object has no attribute 'no_such_attribute'"
    assert caught.location == Location(4, 5, "tl.store(x + i, v.no_such_attribute)")


def test_a_line_in_a_function_is_found(remote: RemoteSubmission) -> None:
    caught = failure(remote, "raises")
    assert (caught.exception, caught.location) == ("IndexError", Location(4, 13, "return values[7]"))


@pytest.mark.parametrize(("name", "exception"), [("exits", "SystemExit"), ("interrupts", "KeyboardInterrupt")])
def test_leaving_is_an_exception_like_another(name: str, exception: str, remote: RemoteSubmission) -> None:
    assert failure(remote, name).exception == exception
    assert torch.equal(remote.by_lambda(X).tensor, X * 3), "and the Worker lives on"


def test_what_is_printed_is_kept_apart_from_the_answer(remote: RemoteSubmission) -> None:
    assert torch.equal(remote.prints(X).tensor, X * 2)


def test_a_view_comes_back_as_its_elements(remote: RemoteSubmission) -> None:
    assert torch.equal(remote.view(X).tensor, X[2:5])


def test_what_may_not_cross_is_named(remote: RemoteSubmission) -> None:
    assert remote.generator(X) == Other("generator")
    assert remote.many(X) == Other("list")


def test_a_function_that_comes_back_can_be_called(remote: RemoteSubmission) -> None:
    assert torch.equal(remote.counter(X)(X), X * 7)


def test_what_is_not_there_and_what_does_not_fit(remote: RemoteSubmission) -> None:
    assert failure(remote, "no_such_function").outcome is Outcome.NOT_IMPLEMENTED
    caught = failure(remote, "takes_two")
    assert (caught.outcome, caught.exception) == (Outcome.WRONG, "TypeError")
    assert failure(remote, "not_callable").outcome is Outcome.WRONG


def test_what_was_skipped_is_noted(remote: RemoteSubmission) -> None:
    remote.view(X)
    assert remote.notices() == ["Cell 5, line 1 was skipped: ZeroDivisionError."]


def test_the_workers_account_of_torch(remote: RemoteSubmission, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], int]] = []
    monkeypatch.setattr(
        "warpgrade.judge.lint.check_own_work",
        lambda exercise, answer, **more: seen.append((answer.torch_operations, answer.kernel_launches)),
    )
    for name in ("twice", "torchy", "escapes"):
        getattr(remote, name)(X)
    (own, one), (torchy, none), (escaped, _) = seen
    assert one == 1
    assert not set(own) & {"mul", "add", "relu"}
    assert none == 0
    assert "relu" in torchy
    assert "Tensor.numpy" in escaped


def test_death_while_loading_and_in_a_call_is_the_students() -> None:
    for cells, words in (
        (("import os\nx = os._exit(7)",), "definitions"),
        (("import os\ndef f(x): os.abort()",), "f(...)"),
    ):
        remote = remote_of(*cells)
        caught = failure(remote, "f")
        assert caught.outcome is Outcome.CRASHED
        assert words in caught.sentence
        assert "7" not in caught.sentence
        assert "SIGABRT" not in caught.sentence, "it chose the signal, after it had seen the inputs"
        remote.close()


def test_an_unsandboxed_worker_ends_with_its_judge_even_when_busy() -> None:
    """Without a sandbox nothing else would end it."""
    remote = remote_of("def f(x):\n    while True: pass", call_s=0.5)
    remote.start()
    channel = remote._ensure_loaded()
    running = remote._running
    assert running is not None
    channel.send(Call("f", [IntValue("1")], {}), timeout_s=5.0)
    process = running._process  # type: ignore[attr-defined]
    assert process.poll() is None
    channel.close()  # as when the judge is killed
    process.wait(20.0)
    remote.close()
