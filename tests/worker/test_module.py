"""From cells to a module: what is kept, what is dropped, and where each line came from."""

from __future__ import annotations

import ast
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpgrade.wire.messages import Location
from warpgrade.worker.module import MODULE_NAME, SourceCell, SubmissionModule, neutralise_magics, safe_text

Build = Callable[..., SubmissionModule]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    def make(*cells: str, limit_s: float = 10.0) -> SubmissionModule:
        numbered = [SourceCell(number, source) for number, source in enumerate(cells, start=1)]
        return SubmissionModule(numbered, tmp_path, statement_limit_s=limit_s)

    yield make
    sys.modules.pop(MODULE_NAME, None)


def names(built: SubmissionModule) -> set[str]:
    return {name for name in vars(built.module) if not name.startswith("__")}


def where(built: SubmissionModule) -> list[tuple[str, int, int]]:
    """(exception, cell, line) of each problem."""
    assert all(problem.location for problem in built.problems)
    return [(p.exception, p.location.cell, p.location.line) for p in built.problems if p.location]


# --- kept and dropped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "defined"),
    [("import math as m", {"m"}), ("from math import pi", {"pi"}), ("def f(): pass", {"f"}), ("async def f(): pass", {"f"}),
     ("class C: pass", {"C"}), ("x = 1", {"x"}), ("x: int = 1", {"x"}), ("x = 1\nx += 1", {"x"}), ("x = y = 1", {"x", "y"}),
     ("a, *b = 1, 2, 3", {"a", "b"}), ("f = lambda x: x", {"f"}), ("import functools\nf = functools.partial(max, 1)", {"functools", "f"}),
     ("x = 1\ndel x", set()), ("if True:\n    x = 1\nelse:\n    y = 1", {"x"}),
     ("try:\n    import no_such_module_here as a\nexcept ImportError:\n    a = None", {"a"}),
     ("try:\n    x = 1\nfinally:\n    y = 2", {"x", "y"}),
     ("import contextlib\nwith contextlib.suppress(ValueError):\n    def f(): pass", {"contextlib", "f"}),
     ('if __name__ == "__main__":\n    def f(): pass', {"f"}), ("if __name__ == '__main__':\n    x = 1", {"x"}),
     ("if 0:\n    x = 1\nelif 1:\n    y = 1", {"y"})],
)  # fmt: skip
def test_definitions_are_kept(code: str, defined: set[str], build: Build) -> None:
    built = build(code)
    assert names(built) == defined
    assert built.problems == []


@pytest.mark.parametrize(
    "code",
    ["boom()", "check('relu')", "for i in range(10):\n    x = boom()", "while True:\n    x = 1", "assert boom()", "raise ValueError",
     "[boom() for i in x]", "if True:\n    boom()", "with boom():\n    boom()", "try:\n    boom()\nexcept Exception:\n    x = 1",
     "'a docstring'", "boom", "match 1:\n    case 1:\n        x = boom()"],
)  # fmt: skip
def test_the_rest_is_dropped(code: str, build: Build) -> None:
    built = build(code + "\n", "def f(): pass")
    assert names(built) == {"f"}
    assert built.problems == []


def test_decorators_classes_and_calls_inside_definitions_run(build: Build) -> None:
    built = build(
        "seen = []\ndef note(f):\n    seen.append(f.__name__)\n    return f",
        "@note\ndef f(x):\n    print(x)\n    return x\n\n@note\nclass Launcher:\n    size = len('abc')\n    def __call__(self, x):\n        return f(x)",
        "relu = Launcher()",
    )
    assert built.module.seen == ["f", "Launcher"]
    assert built.module.relu(3) == 3
    assert built.module.Launcher.size == 3


def test_an_imports_future_holds_for_later_cells_as_in_a_notebook(build: Build) -> None:
    built = build(
        "def g(x: Unknown): pass", "from __future__ import annotations", "def f(x: Unknown) -> Unknown: return x"
    )
    assert where(built) == [("NameError", 1, 1)]
    assert built.module.f(1) == 1


# --- magics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["%matplotlib inline", "!ls -la", "!pip install 'x", "!echo it's", "?torch.add", "torch.add?", "torch.add??", "%timeit f(1, (2",
     "  %load_ext autoreload", "%%not_first_is_a_line_magic", "!foo (bar"],
)  # fmt: skip
def test_line_magics_go_and_the_rest_of_the_cell_stays(line: str, build: Build) -> None:
    built = build(f"x = 1\n{line.strip()}\ny = 2")
    assert names(built) == {"x", "y"}
    assert built.problems == []


def test_a_magic_alone_in_a_block_leaves_the_block(build: Build) -> None:
    built = build(
        "if True:\n    %matplotlib inline\nx = 1",
        "if True:\n    !ls\n    y = 2",
        "def f():\n    %time g()\n    return 5",
    )
    assert names(built) == {"x", "y", "f"}
    assert built.module.f() == 5


def test_an_assigned_magic_becomes_none(build: Build) -> None:
    built = build("files = !ls\nout = %time f()\na, b = 1, 2")
    assert built.module.files is None
    assert built.module.out is None
    assert built.module.a == 1


@pytest.mark.parametrize("magic", ["%%time", "%%timeit -n 1", "%%capture out", "%%prun", "\n\n%%time"])
def test_cell_magics_around_python_run_it(magic: str, build: Build) -> None:
    assert names(build(f"{magic}\nx = 1")) == {"x"}


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile x.py", "%%cuda", "%%html", "%%javascript", "%%script python"])
def test_cells_of_another_language_are_empty(magic: str, build: Build) -> None:
    built = build(f"{magic}\nx = 1\nthis is {{ not }} Python", "y = 1")
    assert names(built) == {"y"}
    assert built.problems == []


def test_strings_that_hold_magics_are_untouched(build: Build) -> None:
    text = "%matplotlib inline\n!rm -rf x\n%%bash\nobj?\nx = !ls"
    built = build(f'text = """{text}"""\nvalue = (7\n% 4)')
    assert built.module.text == text
    assert built.module.value == 3


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "%magic", "!ls 'a", "if x:", "    y = 2", "'''", "f?", "a = !ls", "", "\f", "def f(:", "\t%m"]
        ),
        max_size=8,
    )
)
def test_neutralising_keeps_the_number_of_lines_and_leaves_python_alone(lines: list[str]) -> None:
    source = "\n".join(lines)
    after = neutralise_magics(source)
    assert after.count("\n") == source.count("\n")
    try:
        ast.parse(source)
    except SyntaxError:
        return
    assert after == source


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_syntax_error_is_located_and_hurts_only_its_cell(build: Build) -> None:
    built = build("x = 1", "\n\ndef broken(:\n    pass\ny = 2", "z = 3")
    assert names(built) == {"x", "z"}
    assert where(built) == [("SyntaxError", 2, 3)]
    assert built.problems[0].location == Location(2, 3, "def broken(:")


@pytest.mark.parametrize(
    "code", ["x = (1,\n", "def f():", "if True:\n", "x = '''never closed\n\n", "  x = 1\n y = 2", "return 5\n"]
)
def test_unfinished_cells_are_reported_in_their_own_cell(code: str, build: Build) -> None:
    built = build(code, "z = 3")
    assert "z" in names(built)
    if not code.startswith("return"):  # a statement that is dropped anyway
        assert [cell for _, cell, _ in where(built)] == [1]


def test_a_statement_that_raises_is_skipped_and_the_next_runs(build: Build) -> None:
    built = build(
        "a = 1\nb = 1 / 0\nc = 3", "import no_such_module_here\ndef f(): return c", "from math import no_such_name"
    )
    assert names(built) == {"a", "c", "f"}
    assert where(built) == [("ZeroDivisionError", 1, 2), ("ModuleNotFoundError", 2, 1), ("ImportError", 3, 1)]


def test_the_line_of_a_problem_is_the_innermost_of_the_students(build: Build) -> None:
    built = build("def f(x):\n\n    return 1 // x", "import json\n\ny = f(0)\nz = json.loads('{')")
    assert where(built) == [("ZeroDivisionError", 1, 3), ("JSONDecodeError", 2, 4)]


@pytest.mark.parametrize("code", ["import sys\nx = sys.exit(0)", "x = exit()", "x = quit(3)", "def f(): raise KeyboardInterrupt\nx = f()",
                                  "def f(): raise BaseException\nx = f()", "class E(BaseException):\n    def __str__(self): raise E\ndef f(): raise E\nx = f()"])  # fmt: skip
def test_exits_do_not_end_the_worker(code: str, build: Build) -> None:
    built = build(code, "z = 3")
    assert "z" in names(built)
    assert len(built.problems) == 1


@pytest.mark.parametrize("code", ["x = [0 for _ in iter(int, 1)]", "def f():\n    while True: pass\nx = f()",
                                  "def f():\n    while True:\n        try:\n            while True: pass\n        except Exception: pass\nx = f()"])  # fmt: skip
def test_an_endless_statement_is_interrupted(code: str, build: Build) -> None:
    started = time.monotonic()
    built = build(code, "z = 3", limit_s=0.3)
    assert time.monotonic() - started < 8.0
    assert "z" in names(built)
    assert [problem.exception for problem in built.problems] == ["StatementTimedOut"]


@pytest.mark.parametrize(
    "code",
    ["x = " + "-" * 10_000 + "1", "x = " + "(" * 10_000 + ")" * 10_000, "x = " + "[" * 150 + "]" * 150, "x = " + "1 + " * 10_000 + "1",
     "if 0:\n    x = 0\n" + "".join(f"elif {i}:\n    x = {i}\n" for i in range(1, 1500)), "x = " + "f(" * 3000 + ")" * 3000,
     "x = '''" + "y" * 10**6 + "'''", "x = 10 ** 10 ** 2"],
    ids=range(8),
)  # fmt: skip
def test_deep_or_long_code_is_run_or_reported(code: str, build: Build) -> None:
    built = build(code, "z = 3")
    assert "z" in names(built)
    assert {"x"} <= names(built) or len(built.problems) == 1


def test_no_more_problems_are_kept_than_cross_the_wire(build: Build) -> None:
    assert len(build("\n".join(["x = 1 / 0"] * 50)).problems) == 10


def test_texts_that_cannot_be_text() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "RuntimeError" in safe_text(Rude())
    assert len(safe_text(ValueError("x" * 10_000))) == 2000
    safe_text(ValueError("\ud800")).encode("utf-8")


# --- lines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_count_as_in_the_cell_whatever_ends_them(newline: str, build: Build) -> None:
    built = build(newline.join(["x = 1", "", "y = 1 / 0"]), newline.join(["a = 1", "def f():", "    return 1 / 0"]))
    assert where(built) == [("ZeroDivisionError", 1, 3)]
    with pytest.raises(ZeroDivisionError) as caught:
        built.module.f()
    assert built.problem(caught.value).location == Location(2, 3, "return 1 / 0")


@pytest.mark.parametrize("odd", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_characters_that_only_str_counts_as_line_ends(odd: str, build: Build) -> None:
    built = build(f"text = '{odd}'\nother = 1\nz = 1 / 0", "def g():\n    return 5")
    assert where(built) == [("ZeroDivisionError", 1, 3)]
    assert inspect.getsource(built.module.g) == "def g():\n    return 5\n"


@pytest.mark.parametrize("odd", ["\0", "\ufeff", "x = '\0'"])
def test_characters_that_python_refuses_are_reported_and_hurt_only_their_cell(odd: str, build: Build) -> None:
    built = build(f"{odd}\ny = 1", "def g():\n    return 5")
    assert names(built) >= {"g"}
    assert [cell for _, cell, _ in where(built)] == [1]
    assert inspect.getsource(built.module.g) == "def g():\n    return 5\n"


@pytest.mark.parametrize("cookie", ["# -*- coding: utf-8 -*-", "# -*- coding: latin-1 -*-", "# coding: no-such-coding"])
def test_an_encoding_that_a_cell_declares_means_nothing(cookie: str, build: Build) -> None:
    built = build(cookie + "\nword = 'é'", "def g():\n    return 'é'")
    assert built.module.word == "é"
    assert inspect.getsource(built.module.g) == "def g():\n    return 'é'\n"


def test_sources_of_functions_and_classes_are_those_of_the_cells(build: Build) -> None:
    built = build("%matplotlib inline\nx = 1\n\ndef f(a):\n    # says why\n    return a\n", "class C:\n    y = 2\n")
    assert inspect.getsource(built.module.f) == "def f(a):\n    # says why\n    return a\n"
    assert inspect.getsource(built.module.C) == "class C:\n    y = 2\n"


def test_two_submissions_one_after_another_have_their_own_sources(tmp_path: Path) -> None:
    for word in ("one", "two"):
        folder = tmp_path / word
        folder.mkdir()
        built = SubmissionModule([SourceCell(1, f"def f():\n    return '{word}'")], folder, statement_limit_s=5.0)
        assert word in inspect.getsource(built.module.f)
    sys.modules.pop(MODULE_NAME, None)


def test_cells_are_numbered_as_the_reader_counts_them(tmp_path: Path) -> None:
    cells = [SourceCell(3, "x = 1"), SourceCell(17, "\ny = 1 / 0")]
    assert where(SubmissionModule(cells, tmp_path, statement_limit_s=5.0)) == [("ZeroDivisionError", 17, 2)]
    sys.modules.pop(MODULE_NAME, None)


def test_no_cells_make_an_empty_module(build: Build) -> None:
    for cells in ((), ("",), ("\n\n",), ("# only a remark",)):
        assert names(build(*cells)) == set()


def test_a_syntax_error_of_a_class_of_the_students_own_is_a_problem_like_any_other(build: Build) -> None:
    module = build(
        "class Mine(SyntaxError):\n    def __init__(self): super().__init__('mine', (__file__, 1, 1, ''))\n"
        "x = (_ for _ in ()).throw(Mine())"
    )
    (problem,) = module.problems
    assert (problem.exception, problem.text) == ("Mine", "mine")


def test_after_a_total_only_definitions_are_run(tmp_path: Path) -> None:
    heavy = "import time\nstart = time.monotonic()\nwhile_busy = [0 for i in iter(lambda: time.monotonic() - start < 0.3, False)]"
    cells = [
        SourceCell(1, heavy),
        SourceCell(2, "BLOCK = 64\nslow = time.sleep(9)"),
        SourceCell(3, "def f(): return BLOCK"),
    ]
    built = SubmissionModule(cells, tmp_path, statement_limit_s=10.0, total_limit_s=0.2)
    assert names(built) >= {"BLOCK", "f"}
    assert built.module.f() == 64
    assert where(built)[1:] == [("NoTimeLeft", 2, 2)]
    assert where(built)[0][1:] == (1, 3)  # the rest of the total is all that it gets
    sys.modules.pop(MODULE_NAME, None)
