"""What the Worker notices of torch, and that it asks first whether triton works here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from warpgrade.course import Exercise, Form
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox import SandboxUnavailable
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.verdict import Tier
from warpgrade.submission import CodeCell, Submission

TUNED = """
import torch, triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def double(x):
    y = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
"""


def remote_of(code: str) -> RemoteSubmission:
    exercise = Exercise(title="d", points=1.0, form=Form.PLAIN, signature="double(x)", summary="", arguments=[], id="f")
    submission = Submission((CodeCell(1, code),), "", "", frozenset())
    return RemoteSubmission(exercise, submission, NoSandbox(), Tier.MODEL, [])


def test_autotuning_over_several_configurations_needs_no_driver() -> None:
    remote = remote_of(TUNED)
    x = torch.arange(100, dtype=torch.float32)
    assert torch.equal(remote.double(x).tensor, 2 * x)
    remote.close()


def test_an_interpreter_that_does_not_work_is_nobodys_zero(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Its numpy is another one: here one whose `sum` is wrong."""
    broken = tmp_path / "usercustomize.py"
    broken.write_text("import numpy; numpy.sum = lambda *a, **k: numpy.float32(7)\n")
    sandbox = NoSandbox()
    start = sandbox.start

    def with_broken_numpy(*arguments: Any) -> Any:
        from warpgrade.judge.sandbox import unsandboxed

        boot = tmp_path / "worker" / "boot.py"
        boot.parent.mkdir(exist_ok=True)
        real = unsandboxed.package_folder() / "worker" / "boot.py"
        boot.write_text(
            f"import sys\nsys.path.insert(0, {str(real.parents[2])!r})\nsys.path.insert(0, {str(tmp_path)!r})\n"
            "import usercustomize\nfrom warpgrade.worker.main import main\nmain(int(sys.argv[1]), sys.argv[2])\n"
        )
        monkeypatch.setattr(unsandboxed, "package_folder", lambda: tmp_path)
        return start(*arguments)

    monkeypatch.setattr(sandbox, "start", with_broken_numpy)
    remote = remote_of(TUNED)
    remote._sandbox = sandbox
    with pytest.raises(SandboxUnavailable, match="Triton's interpreter"):
        remote.double(torch.ones(3))
    remote.close()


def test_a_forgotten_print_is_no_work_of_torchs() -> None:
    remote = remote_of(
        TUNED.replace("    y = torch.empty_like(x)\n", "    print(x, f'{x}')\n    y = torch.empty_like(x)\n")
    )
    remote._exercise = Exercise(
        title="d", points=1.0, form=Form.FUNCTION, signature="double(x)", summary="", arguments=[], id="f"
    )
    x = torch.arange(100, dtype=torch.float32)
    assert torch.equal(remote.double(x).tensor, 2 * x)
    remote.close()
