"""A tiny course in a temporary root, a real nbgrader gradebook, and a fake Judge that goes by words in the answer."""

import contextlib
import copy
import json
import shutil
import sys
import types

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory

from warpgrade.course import Course
from warpgrade.grading import gradebook as db
from warpgrade.grading.autograde import JudgedAutograde
from warpgrade.grading.pipeline import nbgrader_config
from warpgrade.judge.verdict import Environment, ExerciseVerdict, Outcome, TestKind, Tier, Verdict

TOML = """
title = "Homework"
notebook = "hw.ipynb"
[exercises.relu]
title = "ReLU"
points = 5
form = "function"
signature = "relu(x)"
summary = "max(x, 0)"
arguments = [{ name = "x", kind = "tensor" }]
speed = { baseline = "torch", thresholds = { "H200" = 0.8 } }
[exercises.plus]
title = "Plus"
points = 2
form = "plain"
signature = "plus(a, b)"
summary = "a + b"
arguments = [{ name = "a", kind = "int" }, { name = "b", kind = "int" }]
"""
CONFIG = """
from warpgrade.grading import configure
c = get_config()
configure(c)
c.JudgeSubmission.judge = "warpgrade_fake_judge.judge"
"""
HIDDEN = "### BEGIN HIDDEN TESTS\ngrade('{}')\n### END HIDDEN TESTS"


def cell(kind, source, grade_id=None, **flags):
    made = (new_code_cell if kind == "code" else new_markdown_cell)(source)
    if grade_id:
        made.metadata["nbgrader"] = {
            "schema_version": 3, "grade_id": grade_id, "grade": False, "solution": False, "locked": False,
            "task": False, **flags,
        }  # fmt: skip
    return made


def source_notebook():
    nb = new_notebook()
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    stub = "def {}:\n    ### BEGIN SOLUTION\n    return {}\n    ### END SOLUTION\n"
    nb.cells = [
        cell("markdown", "# Homework"),
        cell("markdown", "Read only: **contract**", "contract", locked=True),
        cell("code", stub.format("relu(x)", "secret_relu(x)"), "relu__solution", solution=True),
        cell("code", "check('relu')\n" + HIDDEN.format("relu"), "relu", grade=True, locked=True, points=4.0),
        cell("code", "bench('relu')", "relu__speed", grade=True, locked=True, points=1.0),
        cell("code", stub.format("plus(a, b)", "a + b"), "plus__solution", solution=True),
        cell("code", "check('plus')\n" + HIDDEN.format("plus"), "plus", grade=True, locked=True, points=2.0),
        cell("markdown", "The answer is forty-two.", "essay", grade=True, solution=True, points=3.0),
    ]
    return nb


def verdict(exercise, submission, outcome=Outcome.PASSED, **changes):
    """A verdict on every part of one exercise; the speed part is pending, as without a GPU."""
    points = {"relu": ("3/2", "5/2"), "plus": ("3/5", "7/5")}.get(exercise.id, ("3/5", "7/5"))
    bad = {"sentence": "It is not so."} if outcome is not Outcome.PASSED else {}
    tests = [
        Verdict(test=f"test_{exercise.id}__public", kind=TestKind.PUBLIC, outcome=Outcome.PASSED, points=points[0]),
        Verdict(test="test_secret", kind=TestKind.HIDDEN, outcome=outcome, points=points[1], **bad),
    ]
    if exercise.speed:
        waiting = {"outcome": Outcome.PENDING, "sentence": "Speed needs a GPU."}
        tests.append(Verdict(test="test_speed", kind=TestKind.SPEED, points="1", **waiting))
    environment = Environment(warpgrade="0", python="3", torch="", triton="", numpy="")
    fields = {
        "assignment": "hw", "exercise": exercise.id, "tier": Tier.MODEL, "submission_digest": submission.digest,
        "suite_digest": "s", "environment": environment, "verdicts": tests,
    }  # fmt: skip
    return ExerciseVerdict(**{**fields, **changes})


class FakeJudge:
    """Passes what says GOOD, fails what says BAD, and has faults of its own on request."""

    def __init__(self):
        self.submissions = []

    def judge(self, course, assignment, submission, progress=None):
        self.submissions.append(submission)
        text = "\n".join(c.source for c in submission.cells)
        if "RAISE" in text:
            raise RuntimeError("a bug of the judge")
        if "INTERRUPT" in text:
            raise KeyboardInterrupt
        judged = {}
        for id_, exercise in assignment.exercises.items():
            own = "\n".join(c.source for c in submission.cells if f"def {id_}" in c.source)
            made = verdict(exercise, submission, Outcome.PASSED if "GOOD" in own else Outcome.WRONG)
            if "PENDING" in own:
                made = verdict(exercise, submission, Outcome.PENDING)
            if "FAULT" in own:
                made = verdict(exercise, submission, verdicts=[], fault="the machine caught fire")
            if "FOREIGN" in own:
                made = verdict(exercise, submission, submission_digest="0" * 64)
            if "UNBOXED" in own:
                made = verdict(exercise, submission, sandboxed=False)
            if "DEFERRED" not in own:
                judged[id_] = made
        return judged

    def many(self, course, assignment, submissions, options=None, progress=None):
        return {s.digest: self.judge(course, course.assignment(assignment), s) for s in submissions}


@pytest.fixture
def judge():
    fake = FakeJudge()
    module = types.ModuleType("warpgrade_fake_judge")
    module.judge = fake.judge
    sys.modules["warpgrade_fake_judge"] = module
    yield fake
    del sys.modules["warpgrade_fake_judge"]


class Classroom:
    def __init__(self, root):
        self.root = root

    @property
    def course(self):
        return Course(self.root)

    def config(self):
        return nbgrader_config(self.course)

    def coursedir(self, config, student="*"):
        coursedir = CourseDirectory(config=config)
        coursedir.assignment_id, coursedir.student_id = "hw", student
        return coursedir

    def release(self):
        config = self.config()
        app = GenerateAssignment(coursedir=self.coursedir(config), config=config)
        app.force = True
        app.start()

    def released(self):
        return nbformat.read(self.root / "release" / "hw" / "hw.ipynb", as_version=4)

    def answered(self, relu="GOOD", plus="GOOD", essay="My own words."):
        nb = self.released()
        for c in nb.cells:
            grade_id = c.metadata.get("nbgrader", {}).get("grade_id")
            if grade_id == "relu__solution":
                c.source = f"def relu(x):\n    return {relu!r}"
            if grade_id == "plus__solution":
                c.source = f"def plus(a, b):\n    return {plus!r}"
            if grade_id == "essay" and essay is not None:
                c.source = essay
        return nb

    def submit(self, student, nb, name="hw.ipynb"):
        folder = self.root / "submitted" / student / "hw"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(nb if isinstance(nb, str) else json.dumps(nb))
        return folder

    def autograde(self, student="*", force=True):
        """As `nbgrader autograde --force`: raises NbGraderException as it would."""
        config = self.config()
        app = JudgedAutograde(coursedir=self.coursedir(config, student), config=config)
        app.force = force
        app.start()
        return app

    def feedback(self, student="*"):
        config = self.config()
        app = GenerateFeedback(coursedir=self.coursedir(config, student), config=config)
        app.force = True
        app.start()

    def autograded(self, student):
        return nbformat.read(self.root / "autograded" / student / "hw" / "hw.ipynb", as_version=4)

    def page(self, student):
        return (self.root / "feedback" / student / "hw" / "hw.html").read_text()

    @contextlib.contextmanager
    def gradebook(self):
        with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
            yield gradebook

    def cells(self):
        with self.gradebook() as gradebook:
            return db.released_cells(gradebook, "hw", "hw")

    def grades(self, student):
        """auto_score, needs_manual_grade, manual_score of each cell."""
        with self.gradebook() as gradebook:
            entry = gradebook.find_submission_notebook("hw", "hw", student)
            return {g.name: (g.auto_score, g.needs_manual_grade, g.manual_score) for g in entry.grades}

    def comments(self, student):
        with self.gradebook() as gradebook:
            entry = gradebook.find_submission_notebook("hw", "hw", student)
            return {c.name: c.auto_comment for c in entry.comments}

    def mark_by_hand(self, student, cell, score, **more):
        """What formgrader does when a TA saves a mark."""
        with self.gradebook() as gradebook:
            grade = gradebook.find_grade(cell, "hw", "hw", student)
            grade.manual_score, grade.needs_manual_grade = score, False
            for name, value in more.items():
                setattr(grade, name, value)
            gradebook.db.commit()


@pytest.fixture(scope="session")
def _template(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    (root / "source" / "hw").mkdir(parents=True)
    (root / "course_tests" / "hw").mkdir(parents=True)
    (root / "source" / "hw" / "exercises.toml").write_text(TOML)
    (root / "source" / "hw" / "checks.py").write_text("")
    for name in ("relu", "plus"):
        (root / "course_tests" / "hw" / f"test_{name}.py").write_text("def test_secret(): ...\n")
    nbformat.write(source_notebook(), root / "source" / "hw" / "hw.ipynb")
    (root / "nbgrader_config.py").write_text(CONFIG)
    Classroom(root).release()
    return root


@pytest.fixture
def classroom(_template, tmp_path, judge):
    root = tmp_path / "course"
    shutil.copytree(_template, root)
    return Classroom(root)


@pytest.fixture
def notebook():
    """The source notebook of the tiny course, to break."""
    return copy.deepcopy(source_notebook())
