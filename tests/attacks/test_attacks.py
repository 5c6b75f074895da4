"""Each file of judge/ and notebooks/ is an attack; expected.toml has one row for each: what it must come to.

An attack proves a defence only if it would work without it: where that is cheap, the same attack runs again with the
defence switched off and must then succeed; where it is not, its row says why.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

import filelock
import msgspec
import psutil
import pytest
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory

import warpgrade
from warpgrade.course import Course
from warpgrade.grading.pipeline import grade_class, nbgrader_config
from warpgrade.judge import contract, inputs, lint, remote
from warpgrade.judge.marks import correctness_mark
from warpgrade.judge.plugin import Job
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.choice import choose_sandbox
from warpgrade.judge.sandbox.unsandboxed import NoSandbox
from warpgrade.judge.suite import run_suite
from warpgrade.judge.verdict import Outcome, TestKind, Tier
from warpgrade.report.cell import cell_text
from warpgrade.report.text import student_text
from warpgrade.submission import parse_submission, read_submission
from warpgrade.wire.messages import TensorSpec
from warpgrade.wire.tensors import ReturnedTensor, view

HERE = Path(__file__).parent
REAL = Course(HERE.parents[1])
MINI = Course(HERE / "course")
ROWS = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
JUDGE, NOTEBOOKS = ROWS["judge"], ROWS["notebooks"]


def _beside(name):
    spec = importlib.util.spec_from_file_location(f"warpgrade_attacks_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


classroom = _beside("classroom")


@pytest.fixture(scope="session")
def forked(tmp_path_factory):
    sandbox = _beside("forked").ForkedSandbox(tmp_path_factory.mktemp("forked"))
    yield sandbox
    sandbox.close()


@pytest.fixture
def judge(request, monkeypatch):
    """Judges one file of judge/: the real suite in a forked worker, or the mini course in the real sandbox."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the Judge sets it for its own process; not for ours

    def run(name, sandbox=None):
        row = JUDGE[name]
        if row.get("worker") == "sandbox":
            course, assignment, sandbox = MINI, "mini", sandbox or choose_sandbox()
        else:
            course, assignment, sandbox = REAL, "triton-01-basics", request.getfixturevalue("forked")
        exercise = course.exercise(assignment, name.split("__")[0])
        limits = msgspec.structs.replace(exercise.limits, **row.get("limits", {}))
        exercise = msgspec.structs.replace(exercise, limits=limits)
        files = [f"{row['cell_before']}.py"] if "cell_before" in row else []
        files.append(f"judge/{name}.py")
        submission = notebook_of(*[(HERE / file).read_text(encoding="utf-8") for file in files])
        judged = run_suite(Job(course, exercise, submission, sandbox, Tier.MODEL))
        return exercise, judged

    return run


def notebook_of(*sources):
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    return parse_submission(json.dumps({"cells": cells, "metadata": {}}), "attack.ipynb")


def earned(exercise, judged):
    """ "nothing", "part", "full", or "none" where there is no mark."""
    mark = correctness_mark(exercise, judged)
    if mark.earned is None:
        return "none"
    return "nothing" if mark.earned == 0 else "full" if mark.earned == mark.possible else "part"


def verdicts_of(judged):
    return [verdict for verdict in judged.verdicts if verdict.kind is not TestKind.SPEED]


# --- defences that can be switched off -------------------------------------------------------------------------------


def _without_lint(monkeypatch):
    monkeypatch.setattr(lint, "check_own_work", lambda *args, **keywords: None)


def _without_contract(monkeypatch):
    def unchecked(exercise, arguments, value):
        return value.tensor if isinstance(value, ReturnedTensor) else value

    monkeypatch.setattr(contract, "check_returned", unchecked)


def _without_canaries(monkeypatch):
    def copy_outputs_only(packed, payload, length, everything, outputs):
        import torch

        after = torch.frombuffer(payload, dtype=torch.uint8)[:length] if length else None
        for name, spec in packed.tensors.items():
            if name in outputs and isinstance(spec, TensorSpec) and after is not None:
                everything[name].copy_(view(after, spec))

    monkeypatch.setattr(remote, "take_arguments", copy_outputs_only)


def _without_seeds(monkeypatch):
    original = inputs.Inputs.__init__
    monkeypatch.setattr(inputs.Inputs, "__init__", lambda self, seed=None: original(self, 20260701))


def _without_guard(monkeypatch):
    monkeypatch.setattr(RemoteSubmission, "_guard", lambda *arguments: None)


def _without_contract_and_lint(monkeypatch):
    _without_contract(monkeypatch)
    _without_lint(monkeypatch)


WITHOUT = {
    "lint": _without_lint,
    "guard": _without_guard,
    "contract": _without_contract,
    "canaries": _without_canaries,
    "seeds": _without_seeds,
    "contract_and_lint": _without_contract_and_lint,
}


# --- the table -------------------------------------------------------------------------------------------------------


def test_every_attack_has_a_row_and_every_row_an_attack():
    for kind, suffix in (("judge", ".py"), ("notebooks", ".toml")):
        files = {path.stem for path in (HERE / kind).iterdir() if path.suffix == suffix}
        assert files == set(ROWS[kind]), kind


@pytest.mark.parametrize("name", JUDGE)
def test_a_row_says_what_would_happen_without_the_defence_or_why_that_is_not_tried(name):
    row = JUDGE[name]
    assert sum(key in row for key in ("without", "untried", "known")) == 1
    assert (row["earns"] == "full") <= ("known" in row or not row["outcomes"])


@pytest.mark.parametrize("name", JUDGE)
def test_an_attack_on_the_judge(name, judge):
    row = JUDGE[name]
    processes = {process.pid for process in psutil.Process().children(recursive=True)}
    exercise, judged = judge(name)
    assert not judged.fault
    lost = {str(v.outcome) for v in verdicts_of(judged) if v.outcome is not Outcome.PASSED}
    assert lost <= set(row["outcomes"]), [(v.test, v.outcome, v.sentence, v.evidence) for v in verdicts_of(judged)]
    got = earned(exercise, judged)
    assert got in ({"nothing", "part"} if row["earns"] == "less" else {row["earns"]}), [
        (v.test, str(v.outcome)) for v in verdicts_of(judged)
    ]
    left = [
        p
        for p in psutil.Process().children(recursive=True)
        if p.pid not in processes and "forked.py" not in str(p.cmdline())
    ]
    assert not left


@pytest.mark.parametrize(
    ("name", "defence"),
    [(name, defence) for name, row in JUDGE.items() for defence in row.get("without", {}) if defence in WITHOUT],
)
def test_without_its_defence_the_attack_succeeds(name, defence, judge, monkeypatch):
    WITHOUT[defence](monkeypatch)
    exercise, judged = judge(name)
    assert earned(exercise, judged) == JUDGE[name]["without"][defence], [
        (v.test, str(v.outcome), v.sentence) for v in verdicts_of(judged)
    ]


def test_a_forked_worker_is_of_the_package_under_test(tmp_path, monkeypatch):
    (tmp_path / "warpgrade").mkdir()
    (tmp_path / "warpgrade/__init__.py").write_text("raise SystemExit(42)")
    monkeypatch.setattr(warpgrade, "__file__", str(tmp_path / "warpgrade/__init__.py"))
    sandbox = _beside("forked").ForkedSandbox(tmp_path)
    assert sandbox._server.wait(60) == 42
    sandbox._ours.close()


def test_what_a_submission_saw_of_hidden_inputs_is_in_nothing_that_students_read(judge):
    exercise, judged = judge("relu__tells_hidden_inputs")
    hidden = [verdict for verdict in verdicts_of(judged) if verdict.kind is TestKind.HIDDEN]
    assert any("LEAK" in str(verdict.evidence) for verdict in hidden), "it did not even try"
    for verdict in hidden:
        assert "LEAK" not in student_text(verdict) + verdict.sentence + verdict.exception + verdict.pattern
    assert "LEAK" not in " ".join(judged.notices)
    assert "LEAK" not in cell_text(exercise, False, correctness_mark(exercise, judged), _hidden_only(judged))


def _hidden_only(judged):
    """Of a public test a student may read everything."""
    return msgspec.structs.replace(judged, verdicts=[v for v in judged.verdicts if v.kind is TestKind.HIDDEN])


def _daemons():
    found = []
    for process in psutil.process_iter():
        try:
            if "warpgrade-attack-daemon" in process.cmdline():
                found.append(process)
        except psutil.Error:
            pass
    return found


@pytest.mark.parametrize("sandboxed", [True, False])
def test_a_process_that_outlives_the_worker(sandboxed, judge, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = _daemons()
    judge("relu__daemon", None if sandboxed else NoSandbox())
    left = [process for process in _daemons() if process not in before]
    for process in left:
        process.kill()
    assert bool(left) != sandboxed
    assert not list(tmp_path.iterdir())  # files are gone either way


def test_files_that_an_attack_wrote_are_gone(judge, tmp_path):
    judge("relu__writes_files_everywhere")
    python = Path(json.__file__).parents[1]
    for folder in (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.cwd(), Path.home(), HERE, python):
        assert not [path for path in folder.iterdir() if path.name.startswith("warpgrade-attack")]


# --- notebooks: the real path ----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id):
    """A folder and a lock that the processes of one pytest run share: a class is graded once."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder if worker_id == "master" else folder.parent

    def once(name, make):
        with filelock.FileLock(folder / f"attacks-{name}.lock"):
            made = folder / f"attacks-{name}"
            if not (made / "done").exists():
                make(made)
                (made / "done").touch()
        return made

    return once


@pytest.fixture(scope="session")
def mini(shared):
    """Every notebook of notebooks/, with its own answer and with an honest one, graded by `grade_class`."""

    def make(root):
        room = classroom.Class(root)
        room.make()
        for name, attack in classroom.attacks().items():
            room.hand_in(f"broken_{name}", attack)
            if "edits" in attack or "files" in attack:
                room.hand_in(f"honest_{name}", attack, honest=True)
        # each of these is a judging, so all code that stands before an answer stands before one honest answer
        code = "\n\n".join(attack.get("code", "") for attack in classroom.attacks().values())
        room.hand_in("honest_code", {"code": code}, honest=True)
        room.hand_in("classmate", {"code": f"# {classroom.CANARIES['another submission']}"}, honest=True)
        with pytest.MonkeyPatch.context() as patch, classroom.a_service():
            patch.chdir(root)
            for key, value in room.environment.items():
                patch.setenv(key, value)
            summary = grade_class(Course(root), "mini")
            assert not summary.failed, summary.text()
            config = nbgrader_config(Course(root))
            for student in ("broken_reconnaissance", "honest_code", "broken_shadow_modules"):
                coursedir = CourseDirectory(config=config)
                coursedir.assignment_id, coursedir.student_id = "mini", student
                GenerateFeedback(coursedir=coursedir, config=config).start()

    room = classroom.Class(shared("mini", make))
    room.recorded = room.marks()
    return room


def outcomes_of(room, student):
    """Outcomes of the lost tests of a submission, from the verdicts on disk."""
    digest = read_submission(room.root / "submitted" / student / "mini" / "mini.ipynb").digest
    for path in (room.root / "verdicts/mini/relu").glob("*.json"):
        judged = json.loads(path.read_text())
        if judged["submission_digest"] == digest:
            return {verdict["outcome"] for verdict in judged["verdicts"]} - {"passed"}
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_forged_notebook_earns_nothing(name, mini):
    assert mini.recorded[f"broken_{name}"] == (0, 0, 10)
    lost = outcomes_of(mini, f"broken_{name}")
    assert lost is None or lost <= set(NOTEBOOKS[name]["outcomes"])
    assert lost is not None or "edits" in classroom.attacks()[name]  # put right first, its digest may be another


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["code", *(name for name, attack in classroom.attacks().items() if {"edits", "files"} & set(attack))]
)
def test_the_same_forgery_around_honest_code_costs_nothing_and_brings_nothing(name, mini):
    points = 0 if NOTEBOOKS.get(name, {}).get("honest") == "nothing" else 10
    assert mini.recorded[f"honest_{name}"] == (points, points, 10)


@pytest.mark.slow
def test_nothing_that_came_beside_a_notebook_was_run(mini):
    assert not list(mini.root.rglob("SHADOW-RAN"))
    copied = {path.name for path in (mini.root / "autograded/broken_shadow_modules/mini").rglob("*") if path.is_file()}
    assert copied <= {"mini.ipynb", "exercises.toml", "checks.py"}
    declared = mini.root / "autograded/broken_shadow_modules/mini/exercises.toml"
    assert declared.read_text() == (HERE / "course/source/mini/exercises.toml").read_text()


@pytest.mark.slow
def test_a_reconnaissance_finds_nothing(mini):
    surveys = 0
    files = [*(mini.root / "verdicts").rglob("*.json")]
    for folder in ("autograded", "feedback"):
        others = [path for path in (mini.root / folder).glob("*_*/mini/*") if path.is_file()]
        assert others
        files += others
    for path in files:
        text = path.read_text()
        surveys += "SURVEY of " in text
        for where, canary in classroom.CANARIES.items():
            assert canary not in text, f"{where} in {path}"
        assert "CANARY-socket" not in text
    assert surveys >= 2, "it did not say anything"


@pytest.mark.slow
def test_without_a_sandbox_the_reconnaissance_finds_all(mini, monkeypatch):
    monkeypatch.chdir(mini.root)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for key, value in mini.environment.items():
        monkeypatch.setenv(key, value)
    submission = read_submission(mini.root / "submitted/broken_reconnaissance/mini/mini.ipynb")
    course = Course(mini.root)
    with classroom.a_service():
        judged = run_suite(Job(course, course.exercise("mini", "relu"), submission, NoSandbox(), Tier.MODEL))
    said = str([verdict.evidence for verdict in judged.verdicts])
    missing = [where for where, canary in classroom.CANARIES.items() if canary not in said]
    assert not missing, said
    assert correctness_mark(course.exercise("mini", "relu"), judged).earned is None  # and is never a mark


@pytest.mark.slow
def test_nbgrader_s_own_command_gives_the_same_marks(mini, tmp_path):
    room = classroom.Class(tmp_path / "course")
    shutil.copytree(mini.root, room.root)
    shutil.rmtree(room.root / "verdicts")
    chosen = [
        f"{kind}_{name}"
        for kind in ("broken", "honest")
        for name in ("skip_execution", "shadow_modules", "grade_false")
    ]
    for student in chosen:
        shutil.move(room.root / "submitted" / student, room.root / "submitted" / f"cli_{student}")
    done = room.nbgrader("autograde", "mini", "--create", "--student=cli_*", "--force")
    assert done.returncode == 0, done.stderr[-3000:]
    after = room.marks()
    assert [after[f"cli_{student}"] for student in chosen] == [mini.recorded[student] for student in chosen]
    assert not list(room.root.rglob("SHADOW-RAN"))


# --- the same forgeries on nbgrader as it comes ----------------------------------------------------------------------


def _gradebook_daemons():
    found = []
    for process in psutil.process_iter():
        try:
            if "warpgrade-attack-gradebook" in process.cmdline():
                found.append(process)
        except psutil.Error:
            pass
    return found


@pytest.fixture(scope="session")
def plain(shared):
    def make(root):
        room = classroom.Class(root, "plain")
        room.make()
        for name, attack in classroom.attacks().items():
            if "plain" in NOTEBOOKS[name]:
                room.hand_in(name, attack)
        room.hand_in("nobody", {})
        # one call for each of the two groups: whoever writes into the gradebook does so for all that is in it
        for students in ("[!d]*", "do_*", "daemon_*"):
            room.nbgrader("autograde", "plain", "--create", f"--student={students}")
            if students == "do_*":
                (root / "marks.json").write_text(json.dumps(room.marks()))
        psutil.wait_procs(_gradebook_daemons(), timeout=20)
        marks = json.loads((root / "marks.json").read_text())
        marks["daemon_updates_the_gradebook"] = room.marks()["daemon_updates_the_gradebook"]
        (root / "marks.json").write_text(json.dumps(marks))

    return shared("plain", make)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in NOTEBOOKS.items() if "plain" in row])
def test_on_nbgrader_as_it_comes_the_forgery_succeeds(name, plain):
    marks = json.loads((plain / "marks.json").read_text())
    assert marks["nobody"][0] == 0, "the broken answer is worth something by itself"
    assert marks[name][0] == 10


@pytest.mark.slow
def test_no_process_of_an_attack_is_left(mini, plain):
    assert not _gradebook_daemons()
    assert not _daemons()
