"""Plain `nbgrader autograde` and formgrader's API, each as people start them."""

import os
import subprocess
import sys

import pytest
from nbgrader.apps.api import NbGraderAPI

FAKE = """
import importlib.util
spec = importlib.util.spec_from_file_location("the_conftest", {conftest!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
judge = module.FakeJudge().judge
"""


@pytest.mark.slow
def test_nbgrader_autograde_from_a_shell(classroom, request, tmp_path):
    conftest = str(request.path.parent / "conftest.py")
    (tmp_path / "warpgrade_fake_judge.py").write_text(FAKE.format(conftest=conftest))
    classroom.submit("alice", classroom.answered(plus="BAD"))
    classroom.submit("bob", "{")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "nbgrader", "autograde", "hw"],
        cwd=classroom.root,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / ".jupyter")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    assert classroom.grades("alice")["plus"] == (0.6, False, None)
    assert set(classroom.grades("bob").values()) == {(None, True, None)}
    assert "bob: hw.ipynb is not a notebook" in done.stderr


def test_formgraders_button(classroom):
    """formgrader calls this API in its request handler."""
    classroom.submit("alice", classroom.answered())
    config = classroom.config()
    config.Exchange.root = str(classroom.root / "exchange")
    api = NbGraderAPI(classroom.coursedir(config), config=config)
    result = api.autograde("hw", "alice")
    assert result["success"], result
    assert classroom.grades("alice")["relu"] == (4.0, False, None)
    classroom.submit("alice", classroom.answered(relu="GOOD RAISE"))
    result = api.autograde("hw", "alice")
    assert not result["success"]
    assert "not judged" in result["error"]
    assert classroom.grades("alice")["relu"] == (None, True, None)


def test_another_course_in_the_same_server_is_left_to_nbgrader(classroom):
    from traitlets.config import Config

    from warpgrade.grading.autograde import JudgedAutograde

    config = Config()
    config.CourseDirectory.root = str(classroom.root)
    assert not JudgedAutograde(coursedir=classroom.coursedir(config), config=config)._judged
