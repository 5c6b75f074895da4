"""Fixtures of the tests that need an NVIDIA GPU. CI has none; `make test-gpu` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
from triton import knobs

from tests.model.conftest import installed, near
from warpgrade.model.interpreter import interpreting
from warpgrade.model.sanitizer import Session

__all__ = ["installed", "near"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True, scope="session")
def gpu() -> None:
    if not torch.cuda.is_available():
        pytest.fail("there is no GPU here: `make test` leaves these tests out")


class OnGpu:
    """Takes the place of a Session where a kernel really runs: it is told the same, and finds nothing."""

    @property
    def launches(self) -> Any:
        pytest.skip("the results are right; nobody counts launches and bytes on a GPU")


@pytest.fixture(params=["interpreted", "gpu"])
def clean(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """As tests/model/conftest.py's, and once more on the GPU, in the same process and of the same kernel objects."""
    torch.manual_seed(0)
    if request.param == "interpreted":
        with interpreting(Session(seed=1)) as session:
            yield session
        assert session.findings == []
        return
    # The interpreter computes tl.dot of float32 in float32; a GPU takes TF32, with 11 bits, unless it is told not to.
    monkeypatch.setattr(knobs.language, "fp32_default", "ieee")
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    with torch.device("cuda"):
        yield OnGpu()
    torch.cuda.synchronize()
