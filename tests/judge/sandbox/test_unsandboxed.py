"""The Worker without a sandbox: what it inherits from whoever asked, such as a notebook's kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.verdict import Tier

# Each element of its answer is one setting: 1.0 where the Worker has it as this test's process has it.
TELLS = """
import os
import torch

TOLD = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "0", "MINE": "kept"}


def double(x):
    return torch.tensor([float(os.environ.get(name) == value) for name, value in TOLD.items()])
"""


def test_the_worker_has_none_of_a_notebooks_settings_for_triton(
    tiny: Any, notebook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TRITON_INTERPRET before its import, triton would make something else of every kernel, ours included."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("MINE", "kept")
    remote = RemoteSubmission(tiny.exercise(), notebook(TELLS), NoSandbox(), Tier.MODEL, [])
    try:
        assert remote.double(torch.ones(3)).tolist() == [0.0, 0.0, 1.0]
    finally:
        remote.close()
