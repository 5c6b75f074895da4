"""Where the time of judging goes, on the model tier. Run on an idle machine: `python benchmarks/judge.py --out FILE`.

Measures, each the median of `--repeats` runs (wall-clock seconds):

* start: bubblewrap to `Ready` (the start-up assertion, and the import of torch and triton)
* load: the notebook's definitions
* one exercise, its Judge forked from a zygote that is already there; and from nothing, as `warpgrade judge` has it
* two exercises side by side, against the slower of the two alone
* recording one submission that is judged already
* plain `nbgrader autograde` of the same notebooks, with nbgrader's own preprocessors, one after another as it does:
  it executes every cell in a kernel, the student's own experiments and public checks included, and each cell of tests
  judges its exercise in a process without a sandbox. Ours skips what is not marked. Two ratios: ours one after
  another too, and ours two side by side, as it runs here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from warpgrade.course import Course
from warpgrade.demo import hand_in, make_course, read_class, release
from warpgrade.grading.pipeline import grade_class
from warpgrade.judge.judging import JudgePool, Options, _Task
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox.bubblewrap import BubblewrapSandbox
from warpgrade.judge.verdict import Tier
from warpgrade.submission import read_submission

STUDENTS = 4


def median_s(work: Callable[[], object], repeats: int) -> float:
    samples = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        samples.append(time.perf_counter() - started)
    return round(statistics.median(samples), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    repeats = arguments.repeats
    here = Course.find(Path(__file__).parent)
    invented = read_class(here)
    figures: dict[str, float] = {}
    load_before = round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as folder:
        course = make_course(here, Path(folder, "course"))
        declared = course.assignment(invented.assignment)
        release(course, declared)
        for number in range(STUDENTS):
            hand_in(course, declared, f"student{number}", invented.students["right"])
        notebook = course.root / "submitted" / "student0" / declared.name / declared.notebook
        submission = read_submission(notebook)
        exercises = list(declared.exercises.values())

        starts, loads = [], []
        for _ in range(repeats):
            remote = RemoteSubmission(exercises[0], submission, BubblewrapSandbox(), Tier.MODEL, course.secrets())
            began = time.perf_counter()
            remote.start()
            remote._await_ready(remote._channel)
            ready = time.perf_counter()
            remote._load(remote._channel)
            loads.append(time.perf_counter() - ready)
            starts.append(ready - began)
            remote.close()
        figures["start_s"] = round(statistics.median(starts), 3)
        figures["load_s"] = round(statistics.median(loads), 3)

        def judge(pool: JudgePool, *which: int) -> None:
            for judged in pool.run([_Task(exercises[index], submission) for index in which]):
                assert not judged.fault, judged.fault

        def from_nothing() -> None:
            with JudgePool(course, Options(jobs=1)) as pool:
                judge(pool, 0)

        figures["one_exercise_from_nothing_s"] = median_s(from_nothing, repeats)
        with JudgePool(course, Options(jobs=2)) as pool:
            judge(pool, 0)  # the zygote is there now
            for index, exercise in enumerate(exercises):
                figures[f"one_exercise_{exercise.id}_s"] = median_s(lambda i=index: judge(pool, i), repeats)
            figures["two_side_by_side_s"] = median_s(lambda: judge(pool, 1, 2), repeats)
        slower = max(figures[f"one_exercise_{exercises[index].id}_s"] for index in (1, 2))
        figures["two_side_by_side_over_the_slower_alone"] = round(figures["two_side_by_side_s"] / slower, 3)

        started = time.perf_counter()
        grade_class(course, declared.name, None, Options(jobs=2))
        figures["grade_class_of_equal_notebooks_s"] = round(time.perf_counter() - started, 3)
        again = median_s(lambda: grade_class(course, declared.name, None, Options(jobs=2)), repeats)
        figures["record_a_submission_s"] = round(again / STUDENTS, 3)
        figures |= against_plain_nbgrader(course, declared.name, figures)
    document = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
        "versions": {
            name: version(name) for name in ("warpgrade", "torch", "triton", "numpy", "nbgrader", "pytest", "msgspec")
        }
        | {"python": platform.python_version()},
        "load_average": {"before": load_before, "after": round(os.getloadavg()[0], 2)},
        "repeats": repeats,
        "seconds": figures,
    }
    text = json.dumps(document, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


def against_plain_nbgrader(course: Course, assignment: str, figures: dict[str, float]) -> dict[str, float]:
    """Autograde the same submissions with nbgrader as it comes, one after another, as its command does."""
    plain = course.root.parent / "plain"
    shutil.copytree(course.root, plain)
    (plain / "gradebook.db").unlink()
    shutil.rmtree(plain / "autograded")
    (plain / "nbgrader_config.py").write_text("c = get_config()\nc.Execute.timeout = 120\n", encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def nbgrader(*arguments: str) -> None:
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(command, cwd=plain, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")

    nbgrader("generate_assignment", assignment, "--force")
    started = time.perf_counter()
    nbgrader("autograde", assignment)
    seconds = time.perf_counter() - started
    plain_s = seconds / STUDENTS
    # The class's notebooks are equal, and ours judges equal code once: a submission's time is put together from its
    # exercises instead.
    one = sum(value for name, value in figures.items() if name.startswith("one_exercise_") and "nothing" not in name)
    alone_s = one + figures["record_a_submission_s"]
    together_s = one * figures["two_side_by_side_over_the_slower_alone"] / 2 + figures["record_a_submission_s"]
    return {
        "plain_nbgrader_a_submission_s": round(plain_s, 3),
        "ours_a_submission_one_after_another_s": round(alone_s, 3),
        "ours_a_submission_two_side_by_side_s": round(together_s, 3),
        "ours_one_after_another_over_plain_nbgrader": round(alone_s / plain_s, 3),
        "ours_two_side_by_side_over_plain_nbgrader": round(together_s / plain_s, 3),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
