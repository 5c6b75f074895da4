"""A Submission: the code of a notebook, as text and a digest. It is read here and never run, parsed or imported."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_NOTEBOOK_BYTES = 20 * 1024 * 1024
MAX_CODE_BYTES = 2 * 1024 * 1024
MAX_CELLS = 500


class SubmissionError(Exception):
    """The notebook cannot be read. The text is for the student: what is wrong, where, and what to do."""


@dataclass(frozen=True)
class CodeCell:
    """One code cell. `number` counts all cells of the notebook from 1, as a reader would."""

    number: int
    source: str
    grade_id: str = ""

    @property
    def lines(self) -> list[str]:
        """Its lines as Python counts them; str.splitlines would count form feeds too."""
        return re.split(r"\r\n|\r|\n", self.source)


@dataclass(frozen=True)
class Submission:
    """The code cells of a notebook in order, judged cells left out, and a SHA-256 digest of exactly that."""

    cells: tuple[CodeCell, ...]
    digest: str
    #: `metadata.warpgrade.assignment`, as the release wrote it; "" where it is missing. A hint, not a fact.
    assignment: str
    grade_ids: frozenset[str]

    def cell(self, number: int) -> CodeCell | None:
        """The code cell of that number; None where it is no code cell or is not there."""
        return next((cell for cell in self.cells if cell.number == number), None)


def read_submission(path: Path) -> Submission:
    """Read a notebook file. Raises SubmissionError for whatever is not a readable notebook with Python in it."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise SubmissionError(f"{path.name} is not a file. Submit the .ipynb that you were given.")
        if size > MAX_NOTEBOOK_BYTES:
            raise SubmissionError(
                f"{path.name} has {size / 1e6:.0f} MB; at most {MAX_NOTEBOOK_BYTES / 1e6:.0f} MB can be read. "
                "Clear its outputs (Kernel > Restart and Clear Outputs), save, and submit again."
            )
        text = path.read_text(encoding="utf-8-sig")  # some editors on Windows put a byte order mark in front
    except FileNotFoundError as error:
        raise SubmissionError(f"there is no file {path.name}.") from error
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path.name} is not text in UTF-8 (byte {error.start}). Is it a notebook?") from error
    except OSError as error:
        raise SubmissionError(f"{path.name} could not be read: {error.strerror}.") from error
    return parse_submission(text, path.name)


def parse_submission(text: str, name: str) -> Submission:
    """As `read_submission`, from the notebook's text."""
    if not text.strip():
        raise SubmissionError(f"{name} is empty. Save it from Jupyter again, or put your code back into a fresh copy.")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SubmissionError(
            f"{name} is not a notebook: it is not JSON ({str(error)[:120]}). "
            "Save it from Jupyter as .ipynb, or download it again, and put your code back in."
        ) from error
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise SubmissionError(f"{name} is JSON but not a notebook of version 4: it has no list of cells.")
    if len(cells) > MAX_CELLS:
        raise SubmissionError(
            f"{name} has {len(cells)} cells; at most {MAX_CELLS} are read. Delete your scratch cells."
        )
    metadata = _dict(document.get("metadata"))
    language = str(_dict(metadata.get("kernelspec")).get("language") or "python").lower()
    if language != "python":
        raise SubmissionError(
            f"{name} is set to the language {language[:40]!r}. Choose Kernel > Change Kernel > Python, save, submit."
        )
    code, ids, number = [], set(), 0
    for cell in cells:
        cell = _dict(cell)
        number += cell.get("cell_type") == "code"
        nbgrader = _dict(_dict(cell.get("metadata")).get("nbgrader"))
        grade_id = nbgrader.get("grade_id")
        grade_id = _text(grade_id)
        ids.add(grade_id)
        judged = bool(nbgrader.get("grade")) and not nbgrader.get("solution")
        if cell.get("cell_type") == "code" and not judged:
            code.append(CodeCell(number, _source(cell.get("source")), grade_id))
    if sum(len(cell.source) for cell in code) > MAX_CODE_BYTES:
        raise SubmissionError(
            f"{name} has more than {MAX_CODE_BYTES / 1e6:.0f} MB of code. Take data out of the cells."
        )
    hasher = hashlib.sha256()
    for cell in code:
        hasher.update(json.dumps([cell.number, cell.source]).encode())
    assignment = _dict(metadata.get("warpgrade")).get("assignment")
    return Submission(tuple(code), hasher.hexdigest(), _text(assignment), frozenset(ids - {""}))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _source(value: Any) -> str:
    """A cell's text: a string, or a list of strings."""
    if isinstance(value, list):
        value = "".join(line for line in value if isinstance(line, str))
    return _text(value)


def _text(value: Any) -> str:
    """A string, with lone surrogates (legal in JSON) replaced: they have no UTF-8 and would stop an encoder."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
