"""Inputs of a test: tensors in the Judge's private memory, made from a seed that is fresh and secret for each test."""

from __future__ import annotations

import math
import secrets

import torch

#: What an integer output holds before the call. Far from every index and count that an exercise produces.
INTEGER_POISON = {torch.uint8: 0xA5, torch.int8: -91, torch.int16: -23131, torch.int32: -1515870811, torch.bool: 1}
_INT64_POISON = -6510615555426900571


class Inputs:
    """Makes tensors. `seed` (64 bits) makes the same ones again; it is evidence for a TA, never shown to a student."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(63) if seed is None else seed
        self._generator = torch.Generator().manual_seed(self.seed)

    def normal(
        self, *shape: int, dtype: torch.dtype = torch.float32, mean: float = 0.0, std: float = 1.0
    ) -> torch.Tensor:
        """Normally distributed, drawn in float64 and rounded to `dtype`."""
        return (torch.randn(shape, generator=self._generator, dtype=torch.float64) * std + mean).to(dtype)

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Uniform in [low, high)."""
        return (torch.rand(shape, generator=self._generator, dtype=torch.float64) * (high - low) + low).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Uniform integers in [low, high)."""
        drawn: torch.Tensor = torch.randint(low, high, shape, generator=self._generator, dtype=torch.int64)
        return drawn.to(dtype)

    def distinct(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Elements that all differ, none of them 0, in random order: half of them negative, or one fewer.

        The whole numbers 1, -1, 2, -2, ... times a power of two that puts the largest into (2, 4]. So they are exact
        in `dtype`, and differ, up to 4096 elements in float16, 512 in bfloat16 and 2**25 in float32; more repeat.
        """
        count = math.prod(shape)
        order = torch.randperm(count, generator=self._generator) - count // 2
        order[order >= 0] += 1
        largest = max((count + 1) // 2, 1)
        values: torch.Tensor = order.to(torch.float64) * (4.0 / 2 ** (largest - 1).bit_length())
        return values.reshape(shape).to(dtype)

    def tensor(self, values: object, *, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """These values, literally."""
        return torch.tensor(values, dtype=dtype)

    def poisoned(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """What an output argument holds before the call: NaN, or a pattern that no right answer contains."""
        value = float("nan") if dtype.is_floating_point else INTEGER_POISON.get(dtype, _INT64_POISON)
        return torch.full(shape, value, dtype=dtype)

    def misaligned(self, x: torch.Tensor) -> torch.Tensor:
        """The same values, contiguous, at an address one element past an aligned one."""
        buffer = torch.empty(x.numel() + 1, dtype=x.dtype)
        moved: torch.Tensor = buffer[1:].view(x.shape)
        moved.copy_(x)
        return moved
