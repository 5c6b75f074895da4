"""Timed messages in a real Worker: the Judge's memory in, results where the Judge looks, nothing copied on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec
import pytest
import torch

from warpgrade.course import Argument, Exercise, Form, Limits, Return
from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.speed.simulated import SimulatedDevice
from warpgrade.judge.verdict import Outcome, Tier
from warpgrade.submission import CodeCell, Submission
from warpgrade.wire.messages import IntValue, Launch, Move, Run, TensorSpec
from warpgrade.wire.tensors import view
from warpgrade.worker.timed import Allocations, Moving, ResultDoesNotFit

N = 96

CODE = """\
import torch, triton
import triton.language as tl

@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

def into(allocate):
    def summed(x, y):
        z = allocate(x)
        add[(triton.cdiv(x.numel(), 32),)](x, y, z, x.numel(), BLOCK=32)
        return z
    return summed

like = into(torch.empty_like)
empty = into(lambda x: torch.empty(x.shape, dtype=x.dtype, device=x.device))
new = into(lambda x: x.new_empty(x.shape))
strided = into(lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype))
flat = into(lambda x: torch.empty(x.numel(), dtype=x.dtype).view(x.shape))
square = into(lambda x: torch.empty(8, x.numel() // 8).view(-1))
kept = torch.empty(96)
own = into(lambda x: kept)

def scratch(x, y):
    z = torch.empty_like(x)
    w = torch.empty_like(x)
    add[(3,)](x, y, z, 96, BLOCK=32)
    add[(3,)](z, y, w, 96, BLOCK=32)
    return w

def both(x, y):
    return like(x, y), like(x, x)

def part(x, y): return like(x, y)[:-1]
def stepped(x, y): return torch.empty(192)[::2]
def half(x, y): return like(x, y).half()
def none(x, y): like(x, y)
def three(x, y): return (like(x, y),) * 3
def text(x, y): return "sum"
def raises(x, y): raise KeyError("x")
class NotInterpreted(Exception): pass
def pretends(x, y): raise NotInterpreted("only a GPU can run this")
def exits(x, y): raise SystemExit(0)
def dies(x, y):
    import os
    os._exit(0)
def todo(x, y): raise NotImplementedError
def forever(x, y):
    while True: pass

work = {}
def workspace(x, y):
    if "w" not in work:
        work["w"] = torch.empty_like(x)   # made once, and kept
    z = torch.empty_like(x)
    add[(3,)](x, y, work["w"], 96, BLOCK=32)
    add[(3,)](work["w"], y, z, 96, BLOCK=32)
    return z

def turned(x, y):
    second = torch.empty_like(x)   # in another order than they are returned
    first = torch.zeros_like(x)
    add[(3,)](x, y, first, 96, BLOCK=32)
    add[(3,)](x, x, second, 96, BLOCK=32)
    return first, second

where = []
def told(x, y):
    z = like(x, y)
    where.append(z.data_ptr())
    return z
def far(x, y):
    # whether the results of the calls before lay in one block, as far apart as the outputs
    assert len(where) == 4 and where[3] - where[2] == 4 * 96, where
    return like(x, y)

@triton.jit
def beyond(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(z + i + 1000000, tl.load(x + i))
"""


def exercise(id_: str, form: Form) -> Exercise:
    arguments = [Argument(name=name, kind="tensor", dtypes=["float32"]) for name in "xy"]
    return Exercise(
        title="t", points=1, form=form, signature="", summary="", arguments=arguments, id=id_,
        returns=[Return(dtype="x", shape="x")], own_kernel=False, limits=Limits(call_s=3.0, compile_s=20.0),
    )  # fmt: skip


class Side:
    """A Worker with the code above, and blocks for `launches` launches with `results` results each."""

    def __init__(self, launches: int = 2, results: int = 1) -> None:
        self.device = SimulatedDevice()
        self.inputs = self.device.block(launches * 2 * 4 * N)
        self.outputs = self.device.block(launches * results * 4 * N)
        self.inputs.view(torch.float32).copy_(torch.arange(launches * 2 * N))
        self.outputs.view(torch.float32).fill_(float("nan"))

        def spec(place: int) -> TensorSpec:
            return TensorSpec("float32", [N], [1], 4 * N * place)

        self.launches = [
            Launch(
                {"x": spec(2 * k), "y": spec(2 * k + 1)}, {f"z{j or ''}": spec(results * k + j) for j in range(results)}
            )
            for k in range(launches)
        ]
        submission = Submission((CodeCell(1, CODE),), "", "", frozenset())
        self.remote = RemoteSubmission(exercise("t", Form.FUNCTION), submission, NoSandbox(), Tier.MODEL, [])
        blocks = [self.inputs, self.outputs]
        self.remote.share([self.device.descriptor(block) for block in blocks], [block.numel() for block in blocks])

    def run(self, name: str, *, grid: list[int] | None = None, order: tuple[int, ...] | None = None) -> None:
        launches = [self.launches[k] for k in order] if order else self.launches
        signature = ["x", "y", "z", "n", "BLOCK"] if grid else ["x", "y"]
        scalars = {"n": IntValue(str(N)), "BLOCK": IntValue("32")} if grid else {}
        self.remote.run(Run(name, signature, scalars, launches, grid), first=False)

    def tensors(self, number: int) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        launch = self.launches[number]
        x, y = (view(self.inputs, launch.inputs[name]) for name in "xy")
        return x, y, [view(self.outputs, spec) for spec in launch.outputs.values()]

    def right(self) -> bool:
        return all(torch.equal(z[0], x + y) for x, y, z in map(self.tensors, range(len(self.launches))))


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    made = Side()
    yield made
    made.remote.close()
    made.device.release()


@pytest.fixture(autouse=True)
def _unwritten(side: Side) -> None:
    side.outputs.view(torch.float32).fill_(float("nan"))


def test_a_kernel_writes_into_the_judges_memory(side: Side) -> None:
    side.run("add", grid=[3])
    assert side.right()


@pytest.mark.parametrize("name", ["like", "empty", "new", "strided", "flat", "square", "own", "scratch", "workspace"])
def test_a_functions_result_lies_where_the_judge_looks(side: Side, name: str) -> None:
    for order in ((1, 0), (0, 1), (1, 0)):  # it is learned in the first
        side.outputs.view(torch.float32).fill_(float("nan"))
        side.run(name, order=order)
        expected = [x + y + (y if name in ("scratch", "workspace") else 0) for x, y, _ in map(side.tensors, range(2))]
        assert [torch.equal(side.tensors(k)[2][0], expected[k]) for k in range(2)] == [True, True]


def test_from_the_second_message_on_nothing_is_copied(side: Side) -> None:
    side.run("told")
    side.run("told")
    side.run("far")


def test_several_results_lie_in_their_order() -> None:
    side = Side(results=2)
    try:
        for name in ("both", "both", "turned", "turned"):
            side.outputs.view(torch.float32).fill_(float("nan"))
            side.run(name)
            for x, y, (first, second) in map(side.tensors, range(2)):
                assert torch.equal(first, x + y)
                assert torch.equal(second, x + x)
    finally:
        side.remote.close()
        side.device.release()


def test_what_the_kernels_did_is_told(side: Side) -> None:
    side.run("like")
    (use,) = side.remote.kernels
    assert (use.name, use.launches) == ("add", 2)
    assert use.traffic["x"].bytes_loaded == 2 * 4 * N


@pytest.mark.parametrize("name", ["part", "stepped", "half", "none", "three", "text"])
def test_a_result_that_is_not_what_the_contract_says_raises(side: Side, name: str) -> None:
    with pytest.raises(Failure) as raised:
        side.run(name)
    assert raised.value.outcome is Outcome.CRASHED
    assert raised.value.evidence["exception"] == ResultDoesNotFit.__name__


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("raises", Outcome.CRASHED), ("pretends", Outcome.CRASHED), ("exits", Outcome.CRASHED), ("todo", Outcome.NOT_IMPLEMENTED),
     ("nothing_of_that_name", Outcome.NOT_IMPLEMENTED)],
)  # fmt: skip
def test_what_raises_is_the_students(side: Side, name: str, outcome: Outcome) -> None:
    with pytest.raises(Failure) as raised:
        side.run(name)
    assert raised.value.outcome is outcome
    side.run("like")
    assert side.right(), "and the Worker is still there"


def test_a_function_where_a_kernel_is_launched(side: Side) -> None:
    with pytest.raises(Failure) as raised:
        side.run("like", grid=[1])
    assert raised.value.outcome is Outcome.WRONG


def test_a_store_far_outside_is_found(side: Side) -> None:
    with pytest.raises(Failure) as raised:
        side.run("beyond", grid=[1])
    assert raised.value.outcome is Outcome.MEMORY_ERROR
    assert raised.value.location is not None


@pytest.mark.parametrize(("name", "outcome"), [("dies", Outcome.CRASHED), ("forever", Outcome.TIMED_OUT)])
def test_a_worker_that_ends_is_the_students(name: str, outcome: Outcome) -> None:
    side = Side()
    try:
        with pytest.raises(Failure) as raised:
            side.run(name)
        assert raised.value.outcome is outcome
    finally:
        side.remote.close()
        side.device.release()


def test_the_blocks_cannot_be_cut_off_under_the_judge() -> None:
    device = SimulatedDevice()
    descriptor = device.descriptor(device.block(4096))
    for size_bytes in (0, 8192):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size_bytes)
    device.release()


# --- without a submission ------------------------------------------------------------------------------------------


def test_copies_are_made_before_anything_of_a_submission_is_loaded() -> None:
    submission = Submission((CodeCell(1, "raise SystemExit"),), "", "", frozenset())
    remote = RemoteSubmission(exercise("t", Form.FUNCTION), submission, NoSandbox(), Tier.MODEL, [])
    try:
        for size_bytes, times in ((4, 1), (1 << 20, 3), (4, 1)):
            remote.move(size_bytes, times)
        assert remote.notices() == []
    finally:
        remote.close()


def test_what_is_copied_is_what_was_asked_for() -> None:
    moving = Moving("cpu")
    moving.move(Move(4096, 2))
    assert moving._memory is not None
    source, target = moving._memory
    source.fill_(7)
    moving.move(Move(4096, 1))
    assert target.tolist() == [7] * 4096
    moving.move(Move(64, 1))
    assert moving._memory[0].numel() == 64


# --- places, without a Worker --------------------------------------------------------------------------------------


def places(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.full(shape, 7.0, dtype=dtype) for shape in shapes]


def where(place: torch.Tensor, which: int | None, *makers: Callable[[], torch.Tensor]) -> list[bool]:
    """Of each allocation whether it was put into the place."""
    with Allocations([place], [which]):
        made = [make() for make in makers]
    return [tensor.device == place.device and tensor.data_ptr() == place.data_ptr() for tensor in made]


def test_the_allocation_that_is_asked_for_gets_the_place() -> None:
    (place,) = places((6,))
    empty = lambda: torch.empty(6)  # noqa: E731
    assert where(place, 1, empty, empty, empty) == [False, True, False]
    assert where(place, None, empty, empty) == [False, False]
    assert where(place, 0, lambda: torch.empty(2, 3)) == [True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(7), lambda: torch.empty(6, dtype=torch.float16), lambda: torch.empty_strided((2, 3), (1, 2)),
        lambda: torch.empty(6, device="meta"),
    ],
    ids=["size", "dtype", "strides", "device"],
)  # fmt: skip
def test_another_kind_of_tensor_gets_memory_of_its_own(make: Callable[[], torch.Tensor]) -> None:
    (place,) = places((6,))
    assert where(place, 0, make) == [False]


X = torch.ones(6)


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda: torch.zeros(6), 0.0), (lambda: torch.zeros_like(X), 0.0), (lambda: X.new_zeros((6,)), 0.0),
        (lambda: torch.full((6,), 3.0), 3.0), (lambda: torch.full_like(X, 4.0), 4.0), (lambda: torch.ones_like(X), 1.0),
    ],
)  # fmt: skip
def test_what_is_allocated_filled_is_filled_in_its_place(make: Callable[[], torch.Tensor], value: float) -> None:
    (place,) = places((6,))
    assert where(place, 0, make) == [True]
    assert place.tolist() == [value] * 6


def test_a_run_survives_the_wire() -> None:
    run = Run("f", ["x"], {}, [Launch({}, {"z": TensorSpec("float32", [1], [1], 0)})])
    assert msgspec.json.decode(msgspec.json.encode(run), type=Run) == run
