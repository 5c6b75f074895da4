"""A submission in the GPU's sandbox: its own kernels work, and nobody else's are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from warpgrade.course import Argument, Course, Exercise, Form, Limits, Return
from warpgrade.judge.failure import Failure
from warpgrade.judge.marks import speed_share
from warpgrade.judge.plugin import Job
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox, python_folders
from warpgrade.judge.sandbox.gpu import gpu_access
from warpgrade.judge.speed.cuda import CudaDevice
from warpgrade.judge.speed.lock import GpuLock
from warpgrade.judge.speed.timing import SandboxedTiming
from warpgrade.judge.suite import run_suite
from warpgrade.judge.verdict import Outcome, TestKind, Tier
from warpgrade.submission import CodeCell, Submission
from warpgrade.wire.tensors import Handle

REPOSITORY = Path(__file__).parents[2]
X = torch.linspace(-2, 2, 1000)

CODE = """\
import torch, triton
import triton.language as tl

@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def own(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

def zeros_first(x):
    y = torch.zeros_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y

def turned(x):
    return own(x).view(10, 100).t()

def device(x): return own(x) if x.is_cuda else None
def add(x): return x + x
def softmax(x): return torch.softmax(x, 0)
def matmul(x): return (x.view(10, 100) @ x.view(100, 10)).view(-1)
def half_matmul(x): return (x.half().view(10, 100) @ x.half().view(100, 10)).view(-1)
def attention(x):
    q = x.half().view(1, 1, 100, 10)[..., :8].contiguous()
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)
def convolution(x): return torch.nn.functional.conv2d(x.view(1, 1, 10, 100), x[:9].view(1, 1, 3, 3))
def fourier(x): return torch.fft.fft(x).real
def random(x): return torch.randn_like(x)
def compiled(x): return torch.compile(lambda v: v + v)(x)

@triton.jit
def wild(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK).to(tl.int64) + (1 << 45)
    tl.store(x + i, 1.0)
def illegal(x):
    wild[(1,)](x, 1, BLOCK=256)
    torch.cuda.synchronize()
    return x
"""


def exercise(id_: str) -> Exercise:
    return Exercise(
        title="t", points=1, form=Form.FUNCTION, signature="f(x)", summary="", id=id_,
        arguments=[Argument(name="x", kind="tensor", dtypes=["float32"])],
        returns=[Return(dtype="x", shape="x")], limits=Limits(call_s=30.0, compile_s=60.0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> BubblewrapSandbox:
    return BubblewrapSandbox(gpu_access(python_folders()))


@pytest.fixture(scope="module")
def remote(sandbox: BubblewrapSandbox) -> Iterator[RemoteSubmission]:
    submission = Submission((CodeCell(1, CODE),), "", "", frozenset())
    made = RemoteSubmission(exercise("own"), submission, sandbox, Tier.GPU, Course(REPOSITORY).secrets())
    yield made
    made.close()


@pytest.mark.parametrize("name", ["own", "zeros_first", "device"])
def test_its_own_kernels_work(remote: RemoteSubmission, name: str) -> None:
    assert torch.equal(_tensor(getattr(remote, name)(X)), 2 * X)


def test_a_result_with_strides_comes_back(remote: RemoteSubmission) -> None:
    assert torch.equal(_tensor(remote.turned(X)), (2 * X).view(10, 100).t())


def _tensor(value: object) -> torch.Tensor:
    assert not isinstance(value, Handle)
    return getattr(value, "tensor", value)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "name",
    ["add", "softmax", "matmul", "half_matmul", "attention", "convolution", "fourier", "random", "compiled"],
)
def test_nobody_elses_kernels_are_there(remote: RemoteSubmission, name: str) -> None:
    with pytest.raises(Failure) as raised:
        getattr(remote, name)(X)
    assert raised.value.outcome is Outcome.CRASHED
    assert torch.equal(_tensor(remote.own(X)), 2 * X), "and the Worker is as it was"


def test_an_illegal_access_stays_in_its_worker(sandbox: BubblewrapSandbox) -> None:
    submission = Submission((CodeCell(1, CODE),), "", "", frozenset())
    made = RemoteSubmission(exercise("own"), submission, sandbox, Tier.GPU, [])
    with pytest.raises(Failure):
        made.illegal(X)
    made.close()
    assert float(torch.ones(3, device="cuda").sum()) == 3.0


@pytest.mark.parametrize(
    ("path", "earns"),
    [
        ("accepted/vector_add__plain", True), ("accepted/relu__plain", True), ("accepted/row_sum__plain", True),
        ("mutants/vector_add__neighbours_far_apart", False), ("mutants/relu__neighbours_far_apart", False),
    ],
)  # fmt: skip
def test_the_courses_own_solutions_are_judged(
    sandbox: BubblewrapSandbox, path: str, earns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    course = Course(REPOSITORY)
    file = course.root / "course_tests/triton-01-basics" / f"{path}.py"
    of = course.exercise("triton-01-basics", file.stem.split("__")[0])
    imports = CodeCell(1, "import torch\nimport triton\nimport triton.language as tl\n")
    submission = Submission((imports, CodeCell(2, file.read_text("utf-8"))), "0" * 64, "", frozenset())
    device = CudaDevice()
    timing = SandboxedTiming(device, of, submission, sandbox, course.secrets(), GpuLock(device.facts.uuid))
    judged = run_suite(Job(course, of, submission, sandbox, Tier.GPU, timing=timing))
    assert judged.fault == "", judged.fault_evidence
    for verdict in judged.verdicts:
        with capsys.disabled():
            print(f"\n{path}: {verdict.test}: {verdict.outcome} {verdict.duration_s:.1f} s {verdict.sentence}"
                  + (f" share {verdict.reading.share:.4f}, {verdict.reading.exclusive_s:.2f} s" if verdict.reading else "")
                  + ("" if verdict.outcome is Outcome.PASSED else f" {verdict.evidence}"))  # fmt: skip
    assert all(v.outcome is Outcome.PASSED for v in judged.verdicts if v.kind is not TestKind.SPEED)
    (speed,) = [verdict for verdict in judged.verdicts if verdict.kind is TestKind.SPEED]
    assert speed.reading is not None
    assert (speed_share(speed.reading.share, speed.reading.threshold) > 0.5) == earns
