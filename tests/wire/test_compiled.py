"""Bounds of what the compiler's facts may hold on the wire."""

from __future__ import annotations

import msgspec
import pytest

from tests.kernel_facts import facts
from warpgrade.wire.compiled import CompiledKernel


@pytest.mark.parametrize(
    ("width", "fits"), [("32", True), ("128", True), ("0", False), ("4097", False), ("9" * 400, False)]
)
def test_a_width_is_a_number_of_bits(width: str, fits: bool) -> None:
    sent = msgspec.to_builtins(facts(90)) | {"loads_by_bits": {width: 1}}
    encoded = msgspec.json.encode(sent)
    if fits:
        assert msgspec.json.decode(encoded, type=CompiledKernel).loads_by_bits == {int(width): 1}
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(encoded, type=CompiledKernel)
