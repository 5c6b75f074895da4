"""The Course on disk and its public declarations: which exercises there are, what they are worth and what they promise.

`source/<assignment>/exercises.toml` is the one declaration of an Exercise. The contract box in the notebook and what
the Judge accepts back are made from it.
"""

from __future__ import annotations

import os
import re
import tomllib
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

#: Shares of an exercise's points (design/exercises: 30 public, 50 hidden, 20 speed; without speed 30 and 70).
PUBLIC_SHARE = Fraction(3, 10)
SPEED_SHARE = Fraction(2, 10)

EXERCISE_ID = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
#: What `submission` in a suite has of its own.
TAKEN_IDS = frozenset({
    "launch", "start", "close", "notices", "output", "last_inputs", "was_ready", "disturbed", "kernels",
    "kernel_reports", "compiled", "share", "run", "move", "wait_until_ready",
})  # fmt: skip
SPEED_SUFFIX, SOLUTION_SUFFIX = "__speed", "__solution"


class CourseError(Exception):
    """Something of the course's own is missing or wrong: never the student's fault. The text says where, what next."""


#: PyTorch's names of what a declaration may ask for; `wire.messages.ITEMSIZE_BYTES` has the same ones.
Dtype = Literal[
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"
]  # fmt: skip


class Form(StrEnum):
    """What the student writes."""

    FUNCTION = "function"  # a Python function that owns its launcher: submission.relu(x)
    KERNEL = "kernel"  # a bare Triton kernel body that the Judge launches: submission.launch("vector_add", grid, ...)
    PLAIN = "plain"  # plain Python on numbers, no GPU work: submission.swizzle(...)


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of what a declaration file may say: unknown keys are errors, so a typing error is seen."""


class Argument(Declared, frozen=True):
    """One parameter. All but `name`, `kind` and `note` is about tensors.

    `shape` names sizes, `["M", "N"]`, or is `["..."]` for any; `dtypes` are PyTorch's names; an `output` is written in
    place by the student and starts out poisoned with NaN or a pattern.
    """

    name: str
    kind: Literal["tensor", "int", "float", "bool", "constexpr"]
    dtypes: list[Dtype] = []
    shape: list[str] = msgspec.field(default_factory=lambda: ["..."])
    layout: Literal["contiguous", "any"] = "contiguous"
    output: bool = False
    note: str = ""


class Return(Declared, frozen=True):
    """One returned value. `dtype` and `shape` may name an argument ("x": the same as x's). Tensors are contiguous."""

    kind: Literal["tensor", "int", "float", "bool", "handle"] = "tensor"
    dtype: str = ""
    shape: list[str] | str = "..."
    note: str = ""


class Speed(Declared, frozen=True):
    """The speed part: `baseline` in words, and the threshold (full marks, share of the baseline) for each GPU."""

    baseline: str
    thresholds: dict[str, float]


class Limits(Declared, frozen=True):
    """What one exercise's Worker may use. Defaults from design/architecture, changeable in the declaration."""

    call_s: float = 10.0
    #: For building the module and, on a GPU, for compiling and autotuning at the first call of a function.
    compile_s: float = 60.0
    exercise_s: float = 180.0
    memory_bytes: int = 8 * 1024**3
    output_bytes: int = 1_000_000
    processes: int = 256
    #: Cores that all its processes together may keep busy.
    cpus: float = 1.0
    scratch_bytes: int = 512 * 1024**2


class Exercise(Declared, frozen=True):
    """One graded function or kernel; `id` and `assignment` are filled in from where it was declared."""

    title: str
    points: Annotated[float, msgspec.Meta(gt=0)]
    form: Form
    signature: str
    summary: str
    arguments: list[Argument]
    returns: list[Return] = []
    #: What holds beyond types: NaN, n = 0, rounding, accuracy. Sentences for the contract box.
    promises: list[str] = []
    hints: list[str] = []
    #: The student's own Triton kernel must do the work: torch compute inside the call is refused.
    own_kernel: bool = True
    #: torch operations that this exercise refuses although others may use them ("clone" where copying is the task).
    forbidden_operations: list[str] = []
    speed: Speed | None = None
    limits: Limits = Limits()
    id: str = ""
    assignment: str = ""

    @property
    def speed_points(self) -> Fraction:
        """Points of the `<id>__speed` cell; 0 without a speed part."""
        return self._points * SPEED_SHARE if self.speed else Fraction(0)

    @property
    def correctness_points(self) -> Fraction:
        """Points of the `<id>` cell: public and hidden tests."""
        return self._points - self.speed_points

    @property
    def public_points(self) -> Fraction:
        """Points that the public tests share."""
        return self._points * PUBLIC_SHARE

    @property
    def hidden_points(self) -> Fraction:
        """Points that the hidden tests share."""
        return self.correctness_points - self.public_points

    @property
    def _points(self) -> Fraction:
        return Fraction(str(self.points))

    def argument(self, name: str) -> Argument | None:
        """The declared parameter of this name, or None."""
        return next((argument for argument in self.arguments if argument.name == name), None)


class Assignment(Declared, frozen=True):
    """One folder of `source/`: a notebook and its exercises, in the notebook's order."""

    title: str
    notebook: str
    exercises: dict[str, Exercise]
    name: str = ""


class Course:
    """The folders of one course. Everything is found from `root`; an overlay may add or replace hidden suites."""

    def __init__(self, root: Path, overlay: Path | None = None) -> None:
        self.root = root.resolve()
        self.overlay = overlay.resolve() if overlay else None
        # Never passed over: without it a class would be judged by tests that it can read.
        if overlay is not None and not (overlay.is_absolute() and overlay.is_dir()):
            raise CourseError(
                f"WARPGRADE_OVERLAY names {overlay}, which is not the absolute path of a folder. Set it right, or "
                "unset it to judge by the tests in course_tests/ alone."
            )

    @classmethod
    def at(cls, root: Path) -> Course:
        """The course in this very folder.

        The environment variable WARPGRADE_OVERLAY names a private folder laid out like `course_tests/` whose suites
        come first. Raises CourseError where it names none.
        """
        overlay = os.environ.get("WARPGRADE_OVERLAY")
        return cls(root, Path(overlay) if overlay else None)

    @classmethod
    def find(cls, start: Path | None = None) -> Course:
        """The course around `start` (default: the current folder): the nearest folder upwards that holds `source/`.

        As `at`. Raises CourseError when there is no course.
        """
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "source").is_dir() and (folder / "course_tests").is_dir():
                return cls.at(folder)
        raise CourseError(
            f"no course in {here} or above it: expected a folder that holds source/ and course_tests/. "
            "Change into the course, or name it with --course."
        )

    @property
    def assignments(self) -> list[str]:
        """Names of the assignments that declare exercises."""
        return sorted(path.parent.name for path in (self.root / "source").glob("*/exercises.toml"))

    def assignment(self, name: str) -> Assignment:
        """Read one declaration. Raises CourseError, naming file and key."""
        path = self.source(name) / "exercises.toml"
        if not path.is_file():
            known = ", ".join(self.assignments) or "none"
            raise CourseError(f"no assignment {name!r}: {path} does not exist. Assignments here: {known}")
        try:
            document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
            assignment = msgspec.convert(document, Assignment)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise CourseError(f"{path}: {error}") from error
        exercises: dict[str, Exercise] = {}
        for id_, exercise in assignment.exercises.items():
            if not EXERCISE_ID.fullmatch(id_):
                raise CourseError(f"{path}: {id_!r} is no id: lower-case words joined by single underscores")
            if id_ in TAKEN_IDS:
                raise CourseError(f"{path}: {id_!r} cannot be an id: in a suite, submission.{id_} means something else")
            exercises[id_] = msgspec.structs.replace(exercise, id=id_, assignment=name)
        return msgspec.structs.replace(assignment, name=name, exercises=exercises)

    def exercise(self, assignment: str, id_: str) -> Exercise:
        """One exercise. Raises CourseError for an unknown id."""
        exercises = self.assignment(assignment).exercises
        if id_ not in exercises:
            raise CourseError(f"no exercise {id_!r} in {assignment}; it has {', '.join(exercises)}")
        return exercises[id_]

    def source(self, assignment: str) -> Path:
        """The folder whose files travel with the release: declaration, public tests, instructor notebook."""
        return self.root / "source" / assignment

    def public_tests(self, assignment: str) -> Path:
        """The public tests of an assignment: the course's own copy, never one that came with a submission."""
        return self.source(assignment) / "checks.py"

    def suite(self, assignment: str, id_: str) -> Path:
        """The hidden suite of an exercise, from the overlay if it has one. Raises CourseError where there is none."""
        for folder in (self.overlay, self.root / "course_tests"):
            if folder and (path := folder / assignment / f"test_{id_}.py").is_file():
                return path
        raise CourseError(
            f"no hidden tests for {assignment}/{id_}: course_tests/{assignment}/test_{id_}.py does not exist"
        )

    def reference(self, assignment: str, id_: str) -> Path:
        """`reference.py` for an exercise's hidden suite: the one beside it, else the one in `course_tests/`."""
        beside = self.suite(assignment, id_).with_name("reference.py")
        return beside if beside.is_file() else self.root / "course_tests" / assignment / "reference.py"

    def secrets(self) -> list[Path]:
        """Paths that no sandbox may ever show; the Worker's start-up assertion looks for each of them."""
        names = ("course_tests", "source", "submitted", "autograded", "feedback", "gradebook.db", "verdicts", ".git")
        secrets = [self.root / name for name in (*names, "nbgrader_config.py")]
        return [*secrets, self.overlay] if self.overlay else secrets


class ReleasedFolder(Course):
    """One released assignment as a student has it: declaration and public tests beside the notebook, nothing hidden."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)

    @property
    def assignments(self) -> list[str]:
        """The one assignment in this folder, under the folder's name."""
        return [self.root.name]

    def source(self, assignment: str) -> Path:
        """The folder itself."""
        return self.root
