"""Whether a kernel made the result: what counts, and what an honest solution may do around its kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from warpgrade.course import Argument, Exercise, Form, Return
from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.verdict import Outcome, Tier
from warpgrade.submission import CodeCell, Submission

KERNELS = """
import ctypes
import torch, triton
import triton.language as tl

@triton.jit
def nothing(x, BLOCK: tl.constexpr):
    tl.arange(0, BLOCK)

@triton.jit
def loads(x, BLOCK: tl.constexpr):
    tl.load(x + tl.arange(0, BLOCK) % 4)

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def add_double(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def accumulate(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    old = tl.load(y + i, mask=i < n)
    tl.store(y + i, old + 2 * tl.load(x + i, mask=i < n), mask=i < n)

tuned = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])(double)

def fill(x, out):
    if x.numel():
        double[(1,)](x, out, x.numel(), BLOCK=16)
    return out
"""
HONEST = {
    "empty": "return fill(x, torch.empty_like(x))",
    "zeros": "return fill(x, torch.zeros_like(x))",
    "full": "return fill(x, torch.full_like(x, 7.0))",
    "a slice of a padded buffer": "buffer = torch.empty(64); fill(x, buffer); return buffer[: x.numel()]",
    "a slice that was given": "buffer = torch.zeros(64); fill(x, buffer[8:]); return buffer[8 : 8 + x.numel()]",
    "views": "return fill(x, torch.empty_like(x)).view(2, -1).T.T.reshape(-1)",
    "a copy": "buffer = torch.empty(64); fill(x, buffer); return buffer[: x.numel()].clone()",
    "copied over": "out = torch.zeros_like(x); out.copy_(fill(x, torch.empty_like(x))); return out",
    "detached": "return fill(x, torch.empty_like(x)).detach()",
    "data": "out = torch.empty_like(x); fill(x, out.data); return out",
    "resized": "out = torch.empty(0); out.resize_(x.numel()); return fill(x, out)",
    "atomics": "out = torch.zeros_like(x); add_double[(1,)](x, out, x.numel(), BLOCK=16); return out",
    "an autotuner": "out = torch.empty_like(x); tuned[(1,)](x, out, x.numel()); return out",
    "a few numbers": "for i in range(8): x[i % x.numel()].item()\n    return fill(x, torch.empty_like(x))",
    "printed": "for _ in range(9): print(x)\n    return fill(x, torch.empty_like(x))",
    # memory that torch wrote is no memory that holds nothing
    "zeroed by data": "out = torch.empty_like(x); out.data.zero_(); accumulate[(1,)](x, out, x.numel(), BLOCK=16); return out",
    "zeroed by storage": "out = torch.empty_like(x); out.untyped_storage().fill_(0); accumulate[(1,)](x, out, x.numel(), BLOCK=16); return out",
    "copied by storage": "out = torch.empty_like(x); out.untyped_storage().copy_(torch.zeros_like(x).untyped_storage()); accumulate[(1,)](x, out, x.numel(), BLOCK=16); return out",
}  # fmt: skip
LAZY = {
    "a loop of item": ("out = torch.empty_like(x); fill(x, out)\n    for i in range(len(x)): ctypes.c_float.from_address(out.data_ptr() + 4 * i).value = 2 * x[i].item()\n    return out", "read more than 8 elements"),
    "a loop of float": ("s = [float(v) for v in x]; return fill(x, torch.empty_like(x))", "read more than 8 elements"),
    "an if for each": ("s = [v for v in x if v > 1]; return fill(x, torch.empty_like(x))", "PyTorch did work"),
    "bool of each": ("s = [v for v in x if v]; return fill(x, torch.empty_like(x))", "read more than 8 elements"),
    "tolist": ("x.tolist(); return fill(x, torch.empty_like(x))", "tolist"),
    "a list of a storage": ("x.untyped_storage().tolist(); return fill(x, torch.empty_like(x))", "read more than 8"),
    "a trivial kernel": ("nothing[(1,)](x, BLOCK=16); out = torch.empty_like(x); ctypes.memmove(out.data_ptr(), (x.numel() * ctypes.c_float)(*[2.0 * i for i in range(10)]), 4 * x.numel()); return out", "No Triton kernel stored"),
    "loads alone": ("out = torch.zeros_like(x); loads[(1,)](out, BLOCK=4); ctypes.memmove(out.data_ptr(), (x.numel() * ctypes.c_float)(*[2.0 * i for i in range(10)]), 4 * x.numel()); return out", "No Triton kernel stored"),
    "another tensor, freed": ("fill(x, torch.zeros_like(x)); out = torch.zeros_like(x); ctypes.memmove(out.data_ptr(), (x.numel() * ctypes.c_float)(*[2.0 * i for i in range(10)]), 4 * x.numel()); return out", "No Triton kernel stored"),
}  # fmt: skip
X = torch.arange(10, dtype=torch.float32)


def remote_of(body: str) -> RemoteSubmission:
    exercise = Exercise(title="t", points=1.0, form=Form.FUNCTION, signature="f(x)", summary="", id="f",
                        arguments=[Argument(name="x", kind="tensor")], returns=[Return(dtype="x", shape="x")])  # fmt: skip
    cells = (CodeCell(1, KERNELS), CodeCell(2, f"def f(x):\n    {body}\n"))
    return RemoteSubmission(exercise, Submission(cells, "", "", frozenset()), NoSandbox(), Tier.MODEL, [])


@pytest.fixture
def submitted(request: pytest.FixtureRequest) -> Iterator[RemoteSubmission]:
    remote = remote_of(request.param)
    yield remote
    remote.close()


@pytest.mark.parametrize("submitted", HONEST.values(), ids=HONEST.keys(), indirect=True)
def test_an_honest_result_is_accepted(submitted: RemoteSubmission) -> None:
    assert torch.equal(submitted.f(X), 2 * X)


@pytest.mark.parametrize(("submitted", "words"), LAZY.values(), ids=LAZY.keys(), indirect=["submitted"])
def test_work_past_the_kernel_is_refused(submitted: RemoteSubmission, words: str) -> None:
    with pytest.raises(Failure, match=words) as caught:
        submitted.f(X)
    assert caught.value.outcome is Outcome.REFUSED


def test_nothing_is_stored_to_an_empty_result() -> None:
    remote = remote_of(HONEST["empty"])
    assert remote.f(X[:0]).numel() == 0
    remote.close()


def test_a_returned_argument_is_the_contracts_to_judge() -> None:
    remote = remote_of("nothing[(1,)](x, BLOCK=16)\n    return x")
    given = remote.f(X)
    assert torch.equal(given, X)
    remote.close()
