"""What the exercises of triton-01-basics compute, in float64, from the judge's own copy of the inputs."""

from __future__ import annotations

import torch


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x + y in float64. Rounded to float32 it is the float32 sum: 53 bits are more than twice 24, plus two."""
    return x.double() + y.double()


def relu(x: torch.Tensor) -> torch.Tensor:
    """max(x, 0) in float64 with NaN kept; every zero is positive."""
    return torch.where(x.double() < 0, 0.0, x.double()) + 0.0


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of each row in float64."""
    return x.double().sum(dim=1)


def row_magnitude(x: torch.Tensor) -> torch.Tensor:
    """The sum of the absolute values of each row in float64: what the error of a sum is measured against."""
    return x.double().abs().sum(dim=1)
