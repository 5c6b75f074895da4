"""What of a Worker's account students may read: nothing that could have been made up after inputs were seen."""

from __future__ import annotations

import builtins

from warpgrade.submission import Submission
from warpgrade.wire.messages import Location

_KNOWN_EXCEPTIONS = frozenset(
    {"InterpreterError", "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct",
     "OutOfResources", "OutOfMemoryError", "AcceleratorError", "PTXASError"}
)  # fmt: skip
#: Why worker/module.py skips statements that do not raise by themselves.
_SKIPPED = {
    "StatementTimedOut": "it took too long. Only what the functions need should be left outside of them",
    "NoTimeLeft": "the statements before it took too long together, and it is no definition. Move measurements and "
    "trials at top level into functions that are not called",
}


def own_line(submission: Submission, location: Location | None, *, chosen: bool = True) -> Location | None:
    """The line that the Worker names, its text from the Judge's copy: one of the Worker's could hold inputs.

    `chosen`: inputs had been seen, so the choice of the line could tell of them.
    """
    cell = submission.cell(location.cell) if location else None
    lines = cell.lines if cell else []
    if location is None or not 1 <= location.line <= len(lines):
        return None
    text = lines[location.line - 1].strip()
    # No statement stands there: code made in a call can raise on any line, and blank ones are many to choose from.
    if chosen and (not text or text.startswith("#")):
        return None
    return Location(location.cell, location.line, text[:200])


def own_exception(name: str) -> str:
    """An exception's name if Python or Triton has it. One made up in a call could hold inputs; so could the choice
    among the thousand classes that a notebook may define for it."""
    known = isinstance(getattr(builtins, name, None), type) or name in _KNOWN_EXCEPTIONS
    return name if known else "Exception"


def own_reason(name: str) -> str:
    """Why a statement was skipped, from the name of an exception."""
    return _SKIPPED.get(name) or own_exception(name)
