"""What of a submission may be shown to people: text and PNG. Everything else is taken out.

A TA opens submissions in a formgrader session that can post grades, so an output, an attachment or a markdown cell
that runs there can grade itself (threat 61). Two walls:
- `SanitiseOutputs` rewrites outputs and attachments in the file, so autograded/ is harmless whoever opens it.
- `markdown_filter` replaces nbconvert's `markdown2html` in both formgrader and feedback and cleans the *rendered*
  HTML. Cleaning the source is not enough: markdown makes links and HTML out of text that looks harmless.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from typing import Any

import bleach
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import from_dict
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets.log import get_logger

from warpgrade.grading.normalise import text_of

LABEL = "[as submitted: this output came with the notebook and was not made by the grader]\n"
MAX_OUTPUTS = 20
MAX_TEXT = 20_000
#: Longer markdown is shown as text: the renderer takes quadratic time, and formgrader renders while the TA waits.
MAX_MARKDOWN = 10_000
MAX_IMAGE_BYTES = 2 * 1024 * 1024
MAX_IMAGE_PIXELS = 40_000_000
MAX_TOTAL_BYTES = 8 * 1024 * 1024

_ANSI = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")
#: Control characters, and the bidirectional overrides that make text read other than it is.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_TAGS = frozenset(
    {"a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5"}
    | {"h6", "hr", "i", "img", "li", "mark", "ol", "p", "pre", "s", "span", "strong", "sub", "sup", "table", "tbody"}
    | {"td", "th", "thead", "tr", "ul"}
)
_HIGHLIGHT_CLASS = re.compile(r"^(highlight|[a-z]{1,2}[0-9]?)$")
_DATA_IMAGE = re.compile(r"^data:image/(png|jpeg);base64,[A-Za-z0-9+/=]*$")
_PROTOCOLS = frozenset({"http", "https", "mailto", "data"})  # data: for pictures alone, see `_attribute`
_SCHEME = re.compile(r"^[^/?#]*:")


class SanitiseOutputs(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader is untyped
    """nbgrader preprocessor: keeps the student's outputs, harmless and labelled. Stands after `Normalise`."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Sanitise every cell; outputs in cells of tests are forged by definition and go."""
        budget = Budget()
        for cell in nb.cells:
            nbgrader = cell.metadata.get("nbgrader", {})
            if cell.cell_type == "code":
                judged = nbgrader.get("grade") and not nbgrader.get("solution")
                cell.outputs = [] if judged else clean_outputs(cell.outputs, budget)
                cell.execution_count = None
            elif "attachments" in cell:
                cell["attachments"] = clean_attachments(cell["attachments"], budget)
        return nb, resources


class Budget:
    """Bytes of output that one notebook may still keep."""

    def __init__(self, left: int = MAX_TOTAL_BYTES) -> None:
        self.left = left

    def take(self, size: int) -> bool:
        """Whether `size` more bytes fit; if so they are spent."""
        if size > self.left:
            return False
        self.left -= size
        return True


def clean_outputs(outputs: Any, budget: Budget) -> list[Any]:
    """Text and PNG of a cell's outputs, made anew, with a label in front. Never raises."""
    clean: list[Any] = []
    dropped = 0
    for output in outputs if isinstance(outputs, list) else []:
        made = _clean_output(output) if len(clean) < MAX_OUTPUTS else None
        if made is not None and budget.take(made[1]):
            clean.append(made[0])
        else:
            dropped += 1
    if not clean and not dropped:
        return []
    label = LABEL + (
        f"[{dropped} output(s) that are neither text nor PNG, or too much, were left out]\n" if dropped else ""
    )
    return [_stream(label), *clean]


def _clean_output(output: Any) -> tuple[Any, int] | None:
    output = output if isinstance(output, dict) else {}
    kind = output.get("output_type")
    if kind == "stream":
        text = plain_text(output.get("text"))
    elif kind == "error":
        lines = output.get("traceback")
        lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
        text = plain_text("\n".join(lines[:200])) or plain_text([output.get("ename"), ": ", output.get("evalue")])
    elif kind in ("display_data", "execute_result"):
        data = output.get("data")
        data = data if isinstance(data, dict) else {}
        picture = image(data.get("image/png"), "png")
        if picture is not None:
            node = {"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}}
            return from_dict(node), len(picture)
        text = plain_text(data.get("text/plain"))
    else:
        return None
    return (_stream(text), len(text)) if text else None


def _stream(text: str) -> Any:
    return from_dict({"output_type": "stream", "name": "stdout", "text": text})


def plain_text(value: Any) -> str:
    """Text without ANSI and control characters, capped."""
    text = text_of(value)[: 4 * MAX_TEXT]  # before the expressions run over it
    text = _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "\n[... cut off]"


def image(value: Any, kind: str) -> str | None:
    """Base64 of a picture, encoded anew, if the value really is one of this kind and of bearable size; else None."""
    text = text_of(value)
    if not text or len(text) > MAX_IMAGE_BYTES * 3 // 2:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(data).decode("ascii") if is_picture(data, kind) else None


def is_picture(data: bytes, kind: str) -> bool:
    """Whether these bytes are a PNG (with a header that names a bearable size) or a JPEG."""
    if len(data) > MAX_IMAGE_BYTES:
        return False
    if kind == "png":
        if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 33:
            return False
        width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        return 0 < width * height <= MAX_IMAGE_PIXELS
    return kind == "jpeg" and data[:3] == b"\xff\xd8\xff"


def clean_attachments(attachments: Any, budget: Budget) -> dict[str, dict[str, str]]:
    """The PNG and JPEG among a markdown cell's attachments."""
    clean: dict[str, dict[str, str]] = {}
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        for kind in ("png", "jpeg"):
            picture = image(bundle.get(f"image/{kind}"), kind) if isinstance(bundle, dict) else None
            if isinstance(name, str) and picture is not None and budget.take(len(picture)):
                clean[name] = {f"image/{kind}": picture}
    return from_dict(clean)  # type: ignore[no-any-return]


def _attribute(tag: str, name: str, value: str) -> bool:
    """Which attributes survive. No id or name: formgrader finds its score boxes by id. No class but highlighting's."""
    if name == "class":
        return tag in ("div", "span", "pre", "code") and all(_HIGHLIGHT_CLASS.match(part) for part in value.split())
    address = re.sub(r"[\x00-\x20]", "", value)  # as browsers read it: they skip spaces and control characters
    if tag == "img":
        if name == "src":  # a picture from elsewhere would tell its owner who looks, and when
            return bool(_DATA_IMAGE.match(address)) or not (_SCHEME.match(address) or address.startswith(("/", "\\")))
        return name in ("alt", "title", "width", "height")
    if tag == "a":
        safe = not _SCHEME.match(address) or address.lower().startswith(("http:", "https:", "mailto:"))
        return name == "title" or (name == "href" and safe)
    return tag in ("td", "th") and name in ("align", "colspan", "rowspan")


def clean_html(text: str) -> str:
    """Rendered HTML with nothing in it that runs, posts, loads from elsewhere or poses as a part of the page."""
    cleaner = bleach.Cleaner(tags=_TAGS, attributes=_attribute, protocols=_PROTOCOLS, strip=False, strip_comments=True)
    return str(cleaner.clean(text))


@pass_context
def markdown_filter(context: Any, source: Any) -> str:
    """Jinja filter `markdown2html` for nbconvert's templates: renders as nbconvert does, then cleans the HTML."""
    source = source if isinstance(source, str) else ""
    if len(source) > MAX_MARKDOWN:
        return f"<pre>{html.escape(source)}</pre>"
    cell = context.get("cell") or {}
    try:
        renderer = IPythonRenderer(escape=False, attachments=_Attachments(cell.get("attachments", {})))
        cleaned = clean_html(MarkdownWithMath(renderer=renderer).render(source))
        # Bootstrap, which nbgrader's pages use, leaves a table without this class no room between its columns.
        return cleaned.replace("<table>", '<table class="table table-condensed">')
    except Exception:  # noqa: BLE001  # one student's text must not cost a TA the page, or a class its feedback
        get_logger().exception("markdown could not be rendered; shown as text")
        return f"<pre>{html.escape(source)}</pre>"


class _Attachments(dict[str, Any]):
    """Attachments in which a missing name is an empty picture: nbconvert raises and the whole page is lost."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        return {"image/png": ""}
