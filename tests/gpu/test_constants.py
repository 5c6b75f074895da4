"""Constants by the driver's memset are those of torch, in every dtype and form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpgrade.wire.tensors import DTYPES
from warpgrade.worker.gpu import Constants

X = torch.arange(12.0).reshape(3, 4)
MAKERS: dict[str, Callable[[torch.device | str], torch.Tensor]] = {
    "zeros": lambda device: torch.zeros(5, 3, device=device),
    "zeros half": lambda device: torch.zeros(5, dtype=torch.float16, device=device),
    "ones": lambda device: torch.ones(4, device=device),
    "full": lambda device: torch.full((3, 3), 2.5, device=device),
    "full of an int": lambda device: torch.full((3,), 7, device=device),
    "full of a bool": lambda device: torch.full((3,), True, device=device),
    "full double": lambda device: torch.full((7,), -1.25, dtype=torch.float64, device=device),
    "zeros_like": lambda device: torch.zeros_like(X.to(device)),
    "ones_like int": lambda device: torch.ones_like(X.to(device), dtype=torch.int32),
    "full_like": lambda device: torch.full_like(X.to(device), -float("inf")),
    "new_zeros": lambda device: X.to(device).new_zeros(4),
    "new_full": lambda device: X.to(device).new_full((2, 2), 9.0),
    "zero_": lambda device: X.to(device, copy=True).zero_(),
    "fill_": lambda device: X.to(device, copy=True).fill_(3.5),
    "fill_ of a view": lambda device: X.to(device, copy=True)[1:].fill_(3.5),
    "empty": lambda device: torch.zeros(0, device=device),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_what_torch_makes(name: str) -> None:
    expected = MAKERS[name]("cpu")
    with Constants():  # type: ignore[no-untyped-call]
        made = MAKERS[name]("cuda")
    torch.cuda.synchronize()
    assert (made.dtype, made.shape, made.stride()) == (expected.dtype, expected.shape, expected.stride())
    assert torch.equal(made.cpu(), expected)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("value", [0, 1])
def test_every_dtype(name: str, value: int) -> None:
    with Constants():  # type: ignore[no-untyped-call]
        made = torch.full((1001,), value, dtype=DTYPES[name], device="cuda")
    assert torch.equal(made.cpu(), torch.full((1001,), value, dtype=DTYPES[name]))
