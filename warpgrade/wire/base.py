"""What all messages are made of: the strict base, and bounded names, texts and numbers."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_NDIM = 8

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Text = Annotated[str, msgspec.Meta(max_length=4000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Index = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
Dims = Annotated[list[Count], msgspec.Meta(max_length=MAX_NDIM)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of everything that crosses: immutable, tagged, no unknown fields."""
