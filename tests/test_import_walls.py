"""Who may import what. The Worker's side is all that student code can reach, so it must hold nothing of the Judge's."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpgrade

PACKAGE = Path(warpgrade.__file__).parent
STDLIB = set(sys.stdlib_module_names)

#: First components of foreign modules, and of our own packages, that each side may import.
ALLOWED = {
    "wire": ({"torch", "msgspec", "cuda"}, {"wire"}),
    "worker": ({"torch", "triton", "numpy", "msgspec", "cuda"}, {"wire", "worker", "model"}),
    "model": ({"torch", "triton", "numpy", "msgspec", "cuda"}, {"wire", "model"}),
}
#: Ways to run code or to load a file as code, none of which the trusted side has a use for on what a student wrote.
RUNNING = {"exec", "eval", "compile", "__import__"}


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((PACKAGE / folder).rglob("*.py"))]


def imported(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, also inside functions. What is for type checkers alone never runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports are not used here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            yield ast.unparse(node.args[0])


@pytest.mark.parametrize("folder", ALLOWED)
def test_the_untrusted_side_imports_nothing_of_the_judges(folder: str) -> None:
    foreign, own = ALLOWED[folder]
    for path in files(folder):
        for name in imported(path):
            first, *rest = name.split(".")
            if first == "warpgrade":
                assert rest and rest[0] in own, f"{path}: {name}"
            else:
                assert first in STDLIB | foreign, f"{path}: {name}"


def test_the_walls_are_looked_at_where_they_stand() -> None:
    assert all(files(folder) for folder in ("wire", "worker"))
    found = set(imported(PACKAGE / "worker/main.py"))
    assert {"torch", "warpgrade.wire.channel.Channel"} <= found, "imports inside functions count"


def test_the_package_itself_imports_nothing() -> None:
    assert list(imported(PACKAGE / "__init__.py")) == []


def test_the_judge_imports_of_the_worker_only_the_plan_of_the_sandbox() -> None:
    for path in files("judge"):
        for name in imported(path):
            if name.startswith("warpgrade.worker"):
                assert name == "warpgrade.worker.startup.Plan", f"{path}: {name}"


def test_nothing_trusted_runs_text_as_code() -> None:
    trusted = [*files("judge", "wire", "grading", "report"), PACKAGE / "course.py", PACKAGE / "submission.py"]
    for path in trusted:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in RUNNING, f"{path}, line {node.lineno}: {node.func.id}"


def test_no_pickle_on_either_side_of_the_wire() -> None:
    banned = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    for path in files("judge", "wire", "worker"):
        for name in imported(path):
            assert name.split(".")[0] not in banned, f"{path}: {name}"
        text = path.read_text(encoding="utf-8")
        assert "torch.load(" not in text, path
        assert "torch.save(" not in text, path


def test_only_the_plugin_loads_a_file_as_a_module() -> None:
    """`reference.py` beside a suite: a path of the course's, never one of a submission's."""
    loading = [path.name for path in files("judge", "wire") if "spec_from_file_location" in path.read_text()]
    assert loading == ["plugin.py"]
