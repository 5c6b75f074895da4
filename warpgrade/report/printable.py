"""Text that came from a submission, made safe to print. The one place where that is done."""

from __future__ import annotations

#: Before each later line of a text in a report: without it the text could look like lines of the report's own.
_CONTINUED = "  | "


def printable(text: str) -> str:
    """Without control characters, which could repaint a reader's terminal. Line breaks and tabs stay: for our own
    sentences, and what was made with the functions below."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def one_line(text: str) -> str:
    """As `printable`, and without line breaks, which could forge lines of a report. As long as before."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def word(text: str) -> str:
    """As `one_line`, for a name: without blanks too, at which a report wraps a long line."""
    return one_line(text).replace(" ", "\ufffd")


def block(text: str) -> str:
    """As `printable`, with every line after the first marked as a part of the text."""
    return printable(text).replace("\n", f"\n{_CONTINUED}")
