"""Instructor notebooks in one normal form, so that a diff shows what an author changed and nothing else.

No outputs and no execution counts; cell ids from `grade_id`, else from the heading above; metadata reduced to what
something reads; keys in nbformat's order; contract boxes as the declaration beside the notebook makes them.
`python -m warpgrade.notebook.format [--check] notebook.ipynb ...`
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from warpgrade.course import CourseError, ReleasedFolder
from warpgrade.notebook.contract import contract_box

#: What is kept of the metadata. nbgrader writes its own keys; `tags` are for nbconvert, `warpgrade` for us.
NOTEBOOK_METADATA = ("kernelspec", "language_info", "warpgrade")
CELL_METADATA = ("nbgrader", "tags", "warpgrade")

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE_INFO = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"}
NBFORMAT_MINOR = 5  # the first that has cell ids
MAX_ID = 64  # nbformat's limit

_BOX = re.compile(r"^#### Contract of `(\w+)`$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


class FormatError(Exception):
    """The file is no notebook that can be put into the normal form. The text names the file and what to do."""


def normalise(path: Path, check: bool = False) -> bool:
    """Whether `path` already was in the normal form. Rewrites it when it was not, unless `check`.

    Raises FormatError for what is not a notebook of version 4, or has one grade_id twice, and for a declaration beside
    it that cannot be read.
    """
    try:
        before = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} cannot be read: {error}") from error
    after = normalised(before, str(path), _boxes(path.parent))
    if after == before:
        return True
    if not check:
        path.write_text(after, encoding="utf-8", newline="\n")
    return False


def _boxes(folder: Path) -> dict[str, str]:
    """The contract boxes of the exercises that are declared in a folder, by id."""
    if not (folder / "exercises.toml").is_file():
        return {}
    try:
        declared = ReleasedFolder(folder).assignment(folder.resolve().name).exercises
    except CourseError as error:
        raise FormatError(str(error)) from error
    return {id_: contract_box(exercise) for id_, exercise in declared.items()}


def normalised(text: str, name: str, boxes: Mapping[str, str] | None = None) -> str:
    """The normal form of a notebook's text. `name` is for messages. Doing it twice changes nothing more.

    A markdown cell that begins as a contract box becomes the one in `boxes`, by exercise id, where there is one.
    """
    try:
        notebook: Any = nbformat.reads(text, as_version=4)
    except Exception as error:  # nbformat lets its reader's KeyError, ValidationError and others through
        raise FormatError(f"{name} is not a notebook of version 4: {error!r}") from error
    notebook.nbformat, notebook.nbformat_minor = 4, NBFORMAT_MINOR
    kept = {key: notebook.metadata[key] for key in NOTEBOOK_METADATA if key in notebook.metadata}
    notebook.metadata = nbformat.from_dict({**kept, "kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata})
        cell.source = "\n".join(line.rstrip() for line in cell.source.splitlines()).strip("\n")
        box = _BOX.match(cell.source) if cell.cell_type == "markdown" else None
        if box:
            cell.source = (boxes or {}).get(box.group(1), cell.source)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    for cell, id_ in zip(notebook.cells, _ids(notebook.cells, name), strict=True):
        cell["id"] = id_
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        raise FormatError(f"{name} is not a valid notebook: {error}") from error
    return str(nbformat.writes(notebook)).rstrip("\n") + "\n"


def _ids(cells: list[Any], name: str) -> list[str]:
    """An id for each cell: its grade_id, or its heading, or the heading above and a count. Never two alike."""
    grade_ids = [str(cell.metadata.get("nbgrader", {}).get("grade_id", "")) for cell in cells]
    for id_ in grade_ids:
        if id_ and grade_ids.count(id_) > 1:
            raise FormatError(f"{name} has the grade_id {id_!r} twice: rename one, or delete the copied cell.")
    taken = {_slug(id_) for id_ in grade_ids if id_}
    ids: list[str] = []
    section, count = "start", 0
    for cell, grade_id in zip(cells, grade_ids, strict=True):
        if grade_id:
            ids.append(_slug(grade_id))
            continue
        heading = _HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if heading:
            section, count = _slug(heading.group(1).lower()), 0
        count += 1
        wanted = section if heading else f"{section}-{count}"
        id_, again = wanted, 1
        while id_ in taken:
            again += 1
            id_ = f"{wanted}-again-{again}"
        taken.add(id_)
        ids.append(id_)
    return ids


def _slug(text: str) -> str:
    """Letters, digits, `-` and `_`, as nbformat allows in an id, with room for a suffix."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-")[: MAX_ID - 16].rstrip("-") or "cell"


def main(arguments: list[str]) -> int:
    """0 when every notebook is (now) in the normal form; 1 when `--check` found one that is not; 2 on an error."""
    check = "--check" in arguments
    paths = [Path(argument) for argument in arguments if argument != "--check"]
    unknown = [str(path) for path in paths if str(path).startswith("-")]
    if not paths or unknown:
        print("usage: python -m warpgrade.notebook.format [--check] notebook.ipynb ...", file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        try:
            normal = normalise(path, check)
        except FormatError as error:
            print(error, file=sys.stderr)
            return 2
        if not normal and check:
            print(f"{path} is not in the normal form. Run: python -m warpgrade.notebook.format {path}", file=sys.stderr)
            status = 1
        elif not normal:
            print(f"rewrote {path}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
