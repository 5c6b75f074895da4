"""Brings a submitted notebook back to the release's structure, whatever was done to its metadata.

Students (and their editors) delete, copy, empty, rename, retype and re-flag cells, and nbgrader's OverwriteCells
trusts what they left: `grade: false` makes it raise, a copied id moves the marks, the tag `skip-execution` skips the
tests. Here the gradebook is the truth. No submitted metadata survives but an id that the gradebook knows.

Rules, for each cell of the release:
- A cell of tests or a read-only cell gets the release's source, type and flags. Of several copies the last one
  keeps the id, as in nbgrader; the others become ordinary cells.
- Of several copies of an answer the last one that was worked on keeps the id: an untouched copy never wins over work.
- A cell that is missing is put back after the one before it. An answer comes back as the starter, marked as
  *added* so that the Judge does not take it for the student's. If exactly one cell with a foreign id stands at its
  place it is the renamed answer, and gets its id back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from nbformat import from_dict
from nbformat.v4 import new_notebook
from nbgrader.preprocessors import NbGraderPreprocessor

from warpgrade.grading.gradebook import ReleasedCell

MAX_SOURCE = 2 * 1024 * 1024
_PLAIN_NAME = re.compile(r"^[\w.-]{1,100}$")


@dataclass
class Notes:
    """What was put right, in sentences for a TA, and which cells did not come from the student."""

    sentences: list[str] = field(default_factory=list)
    added: set[str] = field(default_factory=set)


class Normalise(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """nbgrader preprocessor: `normalise` against what the gradebook has. Stands first in `sanitize_preprocessors`."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Replace the notebook by a normalised one; notes go to `resources["warpgrade"]["notes"]`."""
        names, mine = resources["nbgrader"], resources["warpgrade"]
        nb, notes = normalise(nb, mine["released"])
        broken = mine.get("broken")
        for sentence in notes.sentences if not broken else ():
            self.log.warning("%s/%s: %s", names["student"], names["notebook"], sentence)
        mine["notes"] = notes
        return nb, resources


def rebuild(document: Any) -> Any:
    """A clean notebook from untrusted JSON: known cell types, text sources, and of the metadata only `grade_id`.

    Outputs and attachments are taken along in a shape that nbformat accepts (nbconvert validates and copies before any
    preprocessor runs); `sanitise` then looks at each. Never raises.
    """
    nb = new_notebook()
    metadata = _dict(_dict(document).get("metadata"))
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nb.metadata["language_info"] = {"name": "python", "file_extension": ".py", "pygments_lexer": "ipython3"}
    assignment = _dict(metadata.get("warpgrade")).get("assignment")
    if isinstance(assignment, str) and _PLAIN_NAME.match(assignment):
        nb.metadata["warpgrade"] = {"assignment": assignment}
    cells = _dict(document).get("cells")
    for cell in cells if isinstance(cells, list) else []:
        cell = _dict(cell)
        source = text_of(cell.get("source"))[:MAX_SOURCE]
        kind = cell.get("cell_type")
        if kind == "code":
            clean = _cell("code", source)
            outputs = cell.get("outputs")
            clean.outputs = [_output(output) for output in outputs] if isinstance(outputs, list) else []
        elif kind == "markdown":
            clean = _cell("markdown", source)
            if isinstance(cell.get("attachments"), dict):
                clean["attachments"] = _attachments(cell["attachments"])
        else:  # raw cells are emitted as they are by templates: shown as text instead
            fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", source)), default=0) + 1)
            clean = _cell("markdown", f"{fence}\n{source}\n{fence}")
        cell_metadata = _dict(cell.get("metadata"))
        grade_id = _dict(cell_metadata.get("nbgrader")).get("grade_id")
        if isinstance(grade_id, str):
            clean.metadata["nbgrader"] = {"grade_id": grade_id}
        if _dict(cell_metadata.get("warpgrade")).get("added") is True and kind == "markdown":
            continue  # a banner of an earlier run, or one that a student forged
        nb.cells.append(clean)
    return _numbered(nb)


def _numbered(nb: Any) -> Any:
    """Ids for all cells: unique, valid, and none of the student's choosing."""
    for number, cell in enumerate(nb.cells):
        cell["id"] = f"cell-{number}"
    return nb


def _cell(kind: str, source: str) -> Any:
    """A new cell, without its id. nbformat's own constructors validate each one, which was a third of the time that
    recording takes; nbconvert validates the whole notebook, before and after each preprocessor."""
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source}
    return from_dict(cell | {"outputs": [], "execution_count": None} if kind == "code" else cell)


def _output(output: Any) -> Any:
    """An output reduced to what may survive, flat and valid; one of no known kind is an empty one, and is counted."""
    output = _dict(output)
    kind = output.get("output_type")
    if kind == "stream":
        return from_dict({"output_type": "stream", "name": "stdout", "text": text_of(output.get("text"))})
    if kind == "error":
        lines = output.get("traceback")
        lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
        names = {name: text_of(output.get(name)) for name in ("ename", "evalue")}
        return from_dict({"output_type": "error", "traceback": lines, **names})
    data = _dict(output.get("data")) if kind in ("display_data", "execute_result") else {}
    kept = {mime: text_of(data[mime]) for mime in ("text/plain", "image/png") if mime in data}
    return from_dict({"output_type": "display_data", "data": kept, "metadata": {}})


def _attachments(attachments: dict[Any, Any]) -> Any:
    pictures = ("image/png", "image/jpeg")
    return from_dict(
        {
            str(name): {mime: text_of(_dict(bundle)[mime]) for mime in pictures if mime in _dict(bundle)}
            for name, bundle in attachments.items()
        }
    )


def normalise(nb: Any, released: list[ReleasedCell]) -> tuple[Any, Notes]:
    """The notebook with exactly the release's cells in it, and the student's own cells around them. Never raises."""
    nb, notes = rebuild(nb), Notes()
    known = {cell.grade_id: cell for cell in released}
    claims: dict[str, int] = {}
    foreign: set[int] = set()
    for index, cell in enumerate(nb.cells):
        grade_id = cell.metadata.pop("nbgrader", {}).get("grade_id")
        if grade_id is None:
            continue
        if grade_id not in known:
            foreign.add(index)
            continue
        if grade_id in claims:
            notes.sentences.append(f"Cell {grade_id} was there more than once.")
            if not known[grade_id].locked and not _worked_on(cell, known[grade_id]):
                continue
        claims[grade_id] = index
    _adopt(nb, released, claims, foreign, notes)
    for grade_id, index in claims.items():
        nb.cells[index] = _restored(nb.cells[index], known[grade_id], notes)
    _insert_missing(nb, released, claims, notes)
    return _numbered(nb), notes


def _adopt(nb: Any, released: list[ReleasedCell], claims: dict[str, int], foreign: set[int], notes: Notes) -> None:
    """Give a renamed answer its id back, where its place says without doubt which it is."""
    for position, cell in enumerate(released):
        if cell.grade_id in claims or not cell.solution:
            continue
        before = max((claims[c.grade_id] for c in released[:position] if c.grade_id in claims), default=-1)
        after = min(
            (claims[c.grade_id] for c in released[position + 1 :] if c.grade_id in claims), default=len(nb.cells)
        )
        found = [i for i in foreign if before < i < after and nb.cells[i].cell_type == cell.cell_type]
        if len(found) == 1:
            claims[cell.grade_id] = found[0]
            foreign.discard(found[0])
            notes.sentences.append(f"Cell {cell.grade_id} had another id.")


def _restored(cell: Any, released: ReleasedCell, notes: Notes) -> Any:
    """The submitted cell with the release's type and flags, and its source too if students do not write it."""
    source = released.source if released.locked or released.task else cell.source
    if cell.cell_type != released.cell_type:
        notes.sentences.append(f"Cell {released.grade_id} was turned into a {cell.cell_type} cell.")
        fresh = _fresh(released, source)
    else:
        fresh = cell
        fresh.source = source
    fresh.metadata = _metadata(released)
    return fresh


def _insert_missing(nb: Any, released: list[ReleasedCell], claims: dict[str, int], notes: Notes) -> None:
    objects = {grade_id: nb.cells[index] for grade_id, index in claims.items()}
    place = 0
    for cell in released:
        if cell.grade_id in objects:
            place = next(i for i, other in enumerate(nb.cells) if other is objects[cell.grade_id]) + 1
            continue
        fresh = _fresh(cell, cell.source)
        fresh.metadata["warpgrade"] = {"added": True}
        nb.cells.insert(place, fresh)
        place += 1
        notes.added.add(cell.grade_id)
        notes.sentences.append(f"Cell {cell.grade_id} was missing.")


def _fresh(released: ReleasedCell, source: str) -> Any:
    cell = _cell(released.cell_type, source)
    cell.metadata = _metadata(released)
    return cell


def _metadata(released: ReleasedCell) -> Any:
    """The release's metadata, complete: OverwriteCells and CheckCellMetadata then find nothing to complain about."""
    nbgrader: dict[str, Any] = {
        "schema_version": 3,
        "grade_id": released.grade_id,
        "grade": released.grade,
        "solution": released.solution,
        "locked": released.locked,
        "task": released.task,
        "cell_type": released.cell_type,
    }
    if released.checksum is not None:
        nbgrader["checksum"] = released.checksum
    if released.points is not None:
        nbgrader["points"] = released.points
    metadata: dict[str, Any] = {"nbgrader": nbgrader, "deletable": False}
    if released.locked:
        metadata["editable"] = False
    return from_dict(metadata)


def _worked_on(cell: Any, released: ReleasedCell) -> bool:
    return bool(cell.source.strip()) and cell.source.strip() != released.source.strip()


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """A notebook's text: a string or a list of strings; lone surrogates, which have no UTF-8, replaced."""
    if isinstance(value, list):
        value = "".join(line for line in value if isinstance(line, str))
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""
