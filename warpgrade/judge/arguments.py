"""What a call left of its arguments: outputs come home, and nothing else may have changed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
from warpgrade.wire import WireError
from warpgrade.wire.tensors import PackedArguments, view


def take_arguments(
    packed: PackedArguments, payload: bytearray, length: int, everything: dict[str, Any], outputs: Collection[str]
) -> None:
    """Copy the `outputs` from the first `length` bytes of an answer's payload into the tensors that were passed.

    Raises Failure where anything else changed among the arguments, WireError where they did not come back whole.
    """
    if length != len(packed.payload) or len(payload) < length:
        raise WireError("the arguments did not come back whole")
    if not length:
        return
    before = torch.frombuffer(bytearray(packed.payload), dtype=torch.uint8)
    after = torch.frombuffer(payload, dtype=torch.uint8)[:length]
    for name, spec in packed.tensors.items():
        if name in outputs:
            written = view(after, spec)
            view(before, spec).copy_(written)
            everything[name].copy_(written)
    changed = torch.nonzero(before != after).flatten()
    if not len(changed):
        return
    for region in packed.regions:
        inside = changed[(changed >= region.start_bytes) & (changed < region.stop_bytes)]
        if len(inside):
            name = region.names[0]
            raise Failure(
                Outcome.WRONG, f"The call changed {name}, which it may only read.", pattern="an input is changed"
            )
    where = int(changed[0])
    nearest = min(packed.regions, key=lambda r: min(abs(where - r.stop_bytes), abs(where - r.start_bytes)))
    side = "after its end" if where >= nearest.stop_bytes else "before its beginning"
    raise Failure(
        Outcome.MEMORY_ERROR,
        f"The call wrote outside of {' / '.join(nearest.names)}, {side}. Does every store have the right mask?",
        pattern="writes out of bounds",
        evidence={"first changed byte": str(where - nearest.start_bytes)},
    )
