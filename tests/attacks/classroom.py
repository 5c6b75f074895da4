"""A course of one exercise in a temporary root, with a class of attackers in it. What is secret there has a canary."""

from __future__ import annotations

import copy
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbgrader.api import Gradebook

HERE = Path(__file__).parent

#: Where each canary lies. The survey of notebooks/reconnaissance.toml looks for this form.
CANARIES = {
    "hidden tests": "CANARY-tests-a8d0",
    "reference": "CANARY-reference-5f1c",
    "solution": "CANARY-solution-31b7",
    "gradebook": "CANARY-gradebook-77aa",
    "another submission": "CANARY-submission-9c0e",
    "git": "CANARY-git-d402",
    "environment": "CANARY-environment-2b6f",
    "home": "CANARY-home-e815",
    "network": "CANARY-network-40c3",
}

HONEST = """
@triton.jit
def relu_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask)
    tl.store(out + offsets, tl.where(value < 0, 0.0, value), mask=mask)


def relu(x):
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
"""
BROKEN = "def relu(x):\n    return x\n"

_SOLUTION = f"""
def relu(x):
    ### BEGIN SOLUTION
    # {CANARIES["solution"]}
    return (x + abs(x)) / 2
    ### END SOLUTION
"""
_IMPORTS = {
    "mini": "import torch\nimport triton\nimport triton.language as tl\n\nfrom warpgrade.notebook import check",
    "plain": "import math",
}
_TESTS = {
    "mini": 'check("relu")\n### BEGIN HIDDEN TESTS\ngrade("relu")\n### END HIDDEN TESTS',
    "plain": """expected = 2.0
result = relu(2.0)
assert result == expected
### BEGIN HIDDEN TESTS
expected = 0.0
result = relu(-1.0)
assert result == expected
### END HIDDEN TESTS""",
}
_CONFIGS = {
    "mini": "from warpgrade.grading import configure\n\nc = get_config()\nconfigure(c)\n",
    "plain": "c = get_config()\nc.ExecutePreprocessor.timeout = 60\n",
}


def attacks() -> dict[str, dict]:
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in (HERE / "notebooks").glob("*.toml")}


class Class:
    """The course `name` ("mini": judged by warpgrade; "plain": nbgrader as it comes) in the folder `root`."""

    def __init__(self, root: Path, name: str = "mini") -> None:
        self.root = root
        self.name = name

    # --- making it ----------------------------------------------------------------------------------------------

    def make(self) -> None:
        self.root.mkdir(parents=True)
        source = self.root / "source" / self.name
        if self.name == "mini":
            shutil.copytree(
                HERE / "course", self.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
            suite = self.root / "course_tests/mini/test_relu.py"
            suite.write_text(f"# {CANARIES['hidden tests']}\n{suite.read_text()}")
            (self.root / ".git").mkdir()
            (self.root / ".git/config").write_text(CANARIES["git"])
        source.mkdir(parents=True, exist_ok=True)
        (self.root / "home").mkdir()
        (self.root / "home/.netrc").write_text(CANARIES["home"])
        (self.root / "nbgrader_config.py").write_text(_CONFIGS[self.name])
        nb = new_notebook()
        nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nb.cells = [
            new_code_cell(_IMPORTS[self.name]),
            _cell(_SOLUTION, "relu__solution", solution=True),
            _cell(_TESTS[self.name], "relu", grade=True, locked=True, points=10.0),
        ]
        nbformat.write(nb, source / f"{self.name}.ipynb")
        self.nbgrader("generate_assignment", self.name)
        with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
            gradebook.update_or_create_student("classmate", last_name=CANARIES["gradebook"])

    @property
    def environment(self) -> dict[str, str]:
        """Of a grader's shell: programs by name, a home with a secret, and a secret in the environment."""
        home = str(self.root / "home")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        mine = {"HOME": home, "IPYTHONDIR": home, "JUPYTER_RUNTIME_DIR": home, "JUPYTER_CONFIG_DIR": home}
        return {**os.environ, **mine, "PATH": programs, "SECRET_TOKEN": CANARIES["environment"]}

    def nbgrader(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-P", "-m", "nbgrader", *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0 or arguments[0] == "autograde", done.stderr[-3000:]
        return done

    def hand_in(self, student: str, attack: dict, honest: bool = False) -> Path:
        """The released notebook with an attack in it, and the attack's own answer or an honest one."""
        released = self.root / "release" / self.name / f"{self.name}.ipynb"
        nb = nbformat.read(released, as_version=4)
        cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in nb.cells}
        cells["relu__solution"].source = (HONEST if honest else attack.get("broken", BROKEN)).strip()
        for edit in attack.get("edits", []):
            _edit(nb, cells[edit["cell"]], edit)
        if "code" in attack:
            nb.cells.insert(0, new_code_cell(attack["code"].strip()))
        folder = self.root / "submitted" / student / self.name
        folder.mkdir(parents=True)
        (folder / f"{self.name}.ipynb").write_text(json.dumps(nb), encoding="utf-8")
        for name, text in attack.get("files", {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return folder

    # --- reading it ---------------------------------------------------------------------------------------------

    def marks(self) -> dict[str, tuple[float | None, float, float]]:
        """By student, from gradebook.db: the test cell's automatic mark, all that adds up, and the most it could be."""
        with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
            marks = {}
            for submission in gradebook.assignment_submissions(self.name):
                student = submission.student.id
                grade = gradebook.find_grade("relu", self.name, self.name, student)
                marks[student] = (grade.auto_score, submission.score, submission.max_score)
            return marks


def _edit(nb, cell, edit: dict) -> None:
    if edit.get("delete"):
        nb.cells.remove(cell)
    if "type" in edit:
        cell.cell_type = edit["type"]
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    if "tags" in edit:
        cell.metadata["tags"] = edit["tags"]
    if "output" in edit:
        cell.outputs = [new_output("execute_result", {"text/plain": edit["output"]}, execution_count=1)]
        cell.execution_count = 1
    cell.source = edit.get("source", cell.source)
    cell.metadata["nbgrader"] |= edit.get("nbgrader", {})


def _cell(source: str, grade_id: str, **flags):
    cell = new_code_cell(source.strip())
    cell.metadata["nbgrader"] = {
        "schema_version": 3, "grade_id": grade_id, "grade": False, "solution": False, "locked": False, "task": False,
        **copy.deepcopy(flags),
    }  # fmt: skip
    return cell


@contextmanager
def a_service():
    """Something that listens on this machine, and tells whoever connects a secret."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(CANARIES["network"].encode())

        threading.Thread(target=serve, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)
