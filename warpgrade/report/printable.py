"""Text that came from a submission, made safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """Without control characters, which could repaint a reader's terminal or forge lines of a report."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
