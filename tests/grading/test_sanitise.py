"""What of a submission people see: proven on the HTML that formgrader and feedback really make of it."""

import base64
import re
import time

import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell
from nbgrader.server_extensions.formgrader import handlers

from warpgrade.grading import sanitise

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    + b"0" * 9
).decode()
HUGE = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x01\x00\x00\x00\x01\x00\x00" + b"0" * 20).decode()
SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload='EVIL()'></svg>"

FORMGRADERS_OWN = ("width: 4em;", "width: 3em;", "margin-left: 1em;")

MARKDOWN = [
    "<script>EVIL()</script>",
    "<img src=x onerror=EVIL()>",
    "<svg onload=EVIL()><script>EVIL()</script></svg>",
    "[click](javascript:EVIL())",
    "[click](java\tscript:EVIL())",
    "[click](&#106;avascript:EVIL())",
    "<a href='&#x6A;avascript:EVIL()'>x</a>",
    "<a href='data:text/html,<script>EVIL()</script>'>x</a>",
    "<a href=' dAtA:text/html;base64,RVZJTCgp'>x</a>",
    "[x](data:text/html;base64,RVZJTCgp)",
    "[x](vbscript:EVIL())",
    "![x](data:image/svg+xml;base64,RVZJTCgp)",
    "![x](https://tracker.example/EVIL.png)",
    "![x](//tracker.example/EVIL.png)",
    "![x](attachment:evil.svg)",
    "![x](attachment:missing.png)",
    "<iframe src='javascript:EVIL()'></iframe>",
    "<form action='/api/grade' method=post><input name=score><button>EVIL</button></form>",
    "<style>body { background: url(https://tracker.example/EVIL) }</style>",
    "<p style='position:fixed' onclick='EVIL()'>x</p>",
    "<meta http-equiv=refresh content='0;url=javascript:EVIL()'>",
    "<object data='EVIL'></object><embed src='EVIL'><base href='https://tracker.example/EVIL'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=EVIL()></style></mglyph></table></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=EVIL()>'>",
    "```<script>EVIL()</script>\n<script>EVIL()</script>\n```",
    "```mermaid\n<img src=x onerror=EVIL()>\n```",
    "$<script>EVIL()</script>$ and $$</script><script>EVIL()</script>$$",
    "\\begin{x}<img src=x onerror=EVIL()>\\end{x}",
    "<!-- --><img src=x onerror=EVIL()> -->",
    "# <input id='relu' class='score'>",
    "<div id='relu' class='score tabbable' name='relu'>x</div>",
]


def hostile(nb):
    """A notebook in which everything is tried at once."""
    nb.metadata["title"] = "</title><script>EVIL()</script>"
    nb.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"</script><script>EVIL()": 1}}}
    for source in MARKDOWN:
        made = new_markdown_cell(source)
        made["attachments"] = {"evil.svg": {"image/svg+xml": SVG}, 'a"><script>EVIL()</script>': {"image/png": "EVIL"}}
        made.metadata["tags"] = ['"><script>EVIL()</script>']
        nb.cells.append(made)
    nb.cells.append(new_raw_cell("<script>EVIL()</script>", metadata={"raw_mimetype": "text/html"}))
    bad = [
        new_output("display_data", {"text/html": "<script>EVIL()</script>"}),
        new_output("display_data", {"application/javascript": "EVIL()"}),
        new_output("display_data", {"image/svg+xml": SVG}),
        new_output("display_data", {"text/latex": "\\href{javascript:EVIL()}{x}"}),
        new_output("display_data", {"text/markdown": "<script>EVIL()</script>"}),
        new_output("display_data", {"image/png": '" onerror="EVIL()'}),
        new_output("display_data", {"image/png": base64.b64encode(b"<script>EVIL()").decode()}),
        new_output("display_data", {"image/png": PNG}, metadata={"image/png": {"width": "1 onload=EVIL()"}}),
        new_output("stream", text="\x1b]8;;javascript:EVIL()\x07x\x1b[0m<script>EVIL()</script>"),
        new_output("error", ename="<script>EVIL()", evalue="<b>", traceback=["<script>EVIL()</script>\x1b[31m"]),
    ]
    for output in bad:
        made = new_code_cell("<script>EVIL()</script>", outputs=[output])
        made["execution_count"] = "<script>EVIL()</script>"
        made["id"] = "'><script>EVIL()</script>"
        made.metadata["nbgrader"] = {"grade_id": "<script>EVIL()</script>", "grade": True, "solution": True}
        nb.cells.append(made)
    return nb


def formgrader_page(classroom, student):
    """As formgrader's SubmissionHandler makes it: the same exporter, template and configuration."""
    config = classroom.config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    resources = {
        "assignment_id": "hw", "notebook_id": "hw", "submission_id": "0", "index": 0, "total": 1, "base_url": "",
        "student": student, "last_name": None, "first_name": None, "notebook_path": "",
    }  # fmt: skip
    path = classroom.root / "autograded" / student / "hw" / "hw.ipynb"
    return HTMLExporter(config=config).from_filename(str(path), resources=resources)[0]


def check_harmless(page):
    soup = BeautifulSoup(page, "html.parser")
    for script in soup.find_all("script"):
        assert "EVIL" not in script.decode()
    assert "EVIL" not in (soup.title.decode() if soup.title else "")
    body = soup.find(id="notebook")
    for tag in body.find_all(True):
        assert tag.name not in ("script", "iframe", "object", "embed", "form", "style", "svg", "math", "base", "meta")
        for name, value in tag.attrs.items():
            text = value if isinstance(value, str) else " ".join(value)
            assert not name.startswith("on"), tag
            assert name in ("alt", "title") or "EVIL" not in text, tag
            assert name != "style" or value in FORMGRADERS_OWN, tag
            assert name not in ("srcdoc", "formaction"), tag
            if name in ("href", "src"):
                assert not re.match(
                    r"\s*(javascript|vbscript|data:(?!image/(png|jpeg)))", text.replace("\t", ""), re.I
                ), tag
                assert "tracker.example" not in text
    return soup


@pytest.fixture
def graded(classroom):
    classroom.submit("mallory", hostile(classroom.answered(essay="<script>EVIL()</script> <img src=x onerror=EVIL()>")))
    classroom.autograde()
    return classroom


def test_nothing_runs_in_formgrader(graded):
    soup = check_harmless(formgrader_page(graded, "mallory"))
    boxes = [tag.get("id") for tag in soup.find_all("input")]
    assert boxes == [i for cell in ("relu", "relu__speed", "plus", "essay") for i in (cell, f"{cell}_extra_credit")]
    assert [tag.name for tag in soup.find_all(id="relu")] == ["input"]


def test_nothing_runs_in_feedback(graded):
    graded.feedback()
    check_harmless(graded.page("mallory"))


def test_the_check_itself_sees_what_nbconvert_does_without_us():
    exporter = HTMLExporter(template_name="classic")
    nb = hostile(__import__("nbformat").v4.new_notebook())
    nb.cells = [c for c in nb.cells if "missing" not in c.source and c.cell_type == "markdown"]
    with pytest.raises(AssertionError):
        check_harmless(exporter.from_notebook_node(nb)[0])


def test_comments_are_cleaned_in_feedback(graded):
    with graded.gradebook() as gradebook:
        gradebook.find_comment("essay", "hw", "hw", "mallory").manual_comment = "<script>EVIL()</script>"
        gradebook.db.commit()
    graded.feedback()
    check_harmless(graded.page("mallory"))


def test_honest_outputs_stay_and_are_labelled(classroom):
    nb = classroom.answered()
    outputs = [
        new_output("display_data", {"image/png": PNG, "text/plain": "<Figure>"}),
        new_output("stream", text="a < b"),
    ]
    nb.cells.append(new_code_cell("plot()", outputs=outputs))
    nb.cells.append(new_markdown_cell("**bold** `a<b` $x_1$ [link](https://pytorch.org)\n\n```python\nx = 1\n```"))
    nb.cells[-1]["attachments"] = {"p.png": {"image/png": PNG}}
    nb.cells[-1].source += "\n\n![p](attachment:p.png)"
    classroom.submit("alice", nb)
    classroom.autograde()
    plotted = next(c for c in classroom.autograded("alice").cells if c.source == "plot()")
    assert plotted.outputs[0].text == sanitise.LABEL
    assert plotted.outputs[1].data == {"image/png": PNG}
    assert plotted.outputs[2].text == "a < b"
    page = formgrader_page(classroom, "alice")
    assert f"data:image/png;base64,{PNG}" in page
    for piece in (
        "<strong>bold</strong>",
        "<code>a&lt;b</code>",
        "$x_1$",
        'href="https://pytorch.org"',
        '<span class="n">x',
    ):
        assert piece in page, piece
    assert page.count(PNG) == 2


def test_outputs_of_cells_of_tests_are_ours(classroom):
    nb = classroom.answered(relu="BAD")
    for c in nb.cells:
        if c.metadata.get("nbgrader", {}).get("grade_id") == "relu":
            c.outputs = [new_output("execute_result", {"text/plain": "100"}), new_output("stream", text="PASS")]
    classroom.submit("mallory", nb)
    classroom.autograde()
    made = next(c for c in classroom.autograded("mallory").cells if c.source.startswith("check('relu')"))
    assert "100" not in str(made.outputs)
    assert "PASS" not in str(made.outputs)
    assert "1.5 of 4 points" in made.outputs[0].data["text/plain"]


@pytest.mark.parametrize(
    "value", ["", "nonsense", HUGE, None, 3, ["a"], PNG + '"', base64.b64encode(b"GIF89a").decode()]
)
def test_what_is_no_png_is_none(value):
    assert sanitise.image(value, "png") is None


def test_long_markdown_is_shown_as_text():
    source = "<div>" * 200_000
    start = time.process_time()
    assert sanitise.markdown_filter({}, source).startswith("<pre>&lt;div&gt;")
    assert time.process_time() - start < 2


def test_outputs_are_capped():
    flood = [{"output_type": "stream", "name": "stdout", "text": "x" * 1_000_000}] * 1000
    clean = sanitise.clean_outputs(flood, sanitise.Budget())
    assert len(clean) == sanitise.MAX_OUTPUTS + 1
    assert sum(len(o["text"]) for o in clean) < (sanitise.MAX_TEXT + 100) * len(clean)
    assert "980 output(s)" in clean[0]["text"]
    assert len(sanitise.clean_outputs(flood, sanitise.Budget(50_000))) == 3


def test_nonsense_outputs_do_not_raise():
    for outputs in (None, 3, [None, 3, {}, {"output_type": 3}, {"output_type": "stream", "text": {"a": 1}}]):
        sanitise.clean_outputs(outputs, sanitise.Budget())
    sanitise.clean_attachments({"a": 3, 4: {}}, sanitise.Budget())


def test_tables_have_room_between_their_columns():
    html = sanitise.markdown_filter({}, "| a | b |\n|---|---|\n| 1 | 2 |")
    assert '<table class="table table-condensed"' in html
