"""A RemoteSubmission of the tiny course's `double`, on Workers of every character."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.verdict import Outcome, Tier
from warpgrade.wire.messages import (
    Call,
)

X = torch.arange(6, dtype=torch.float32)


@pytest.fixture
def make(tiny: Any, notebook: Callable[..., Any]) -> Callable[..., RemoteSubmission]:
    def build(sandbox: Any, name: str = "double", code: str = "", **limits: Any) -> RemoteSubmission:
        submission = notebook(code or "def double(x):\n    return x + x\n")
        return RemoteSubmission(tiny.exercise(name, **limits), submission, sandbox, Tier.MODEL, [])

    return build


@pytest.fixture
def fails(make: Callable[..., RemoteSubmission], workers: Any) -> Callable[..., Failure]:
    """The Failure of one call of `double` on a Worker that answers calls in this way."""

    def run(on_call: Callable[[Any, Call, bytearray], None], *arguments: Any, **limits: Any) -> Failure:
        remote = make(workers.calling(on_call), **limits)
        try:
            with pytest.raises(Failure) as caught:
                remote.double(*(arguments or (X,)))
        finally:
            remote.close()
        assert caught.value.outcome.decided
        assert caught.value.outcome is not Outcome.PASSED
        return caught.value

    return run
