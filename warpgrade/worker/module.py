"""From a notebook's cells to a module: the one definition, used by `check`, Validate and the Judge.

Kept: imports, functions, classes, assignments, and `if`, `try`, `with` around them. Dropped: bare expressions, loops
and calls at top level (plots, sweeps, `check(...)`, scratch). Magics are neutralised. A statement that raises, or takes
too long, is skipped and reported; the next one still runs, because an honest notebook may well contain a measurement
that only works on a GPU above the function that is judged.

The result is also written to a file, line by line as in the cells, because `@triton.jit` reads its own source.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import linecache
import operator
import re
import signal
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

from warpgrade.wire.messages import Location, Problem

MODULE_NAME = "submission"
_MAX_PROBLEMS = 10
#: All top-level statements together: below the Judge's 60 s for a load, after which everything would be lost.
TOTAL_LIMIT_S = 40.0
#: What a definition gets after that: an import, decorators, defaults and a class's body take time.
_DEFINITION_LIMIT_S = 5.0
_FUTURE_FLAGS = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
#: Cell magics whose body is Python that should still run.
_PYTHON_CELL_MAGICS = {"time", "timeit", "capture", "prun", "python", "python3"}
_KEPT = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete,
)  # fmt: skip


@dataclass(frozen=True)
class SourceCell:
    """One code cell. `number` counts all cells of the notebook from 1."""

    number: int
    source: str


class StatementTimedOut(BaseException):
    """A top-level statement took too long. Not an Exception, so that `except Exception` around it does not eat it."""


class NoTimeLeft(Exception):  # noqa: N818 - names what happened
    """A top-level statement was not run, because those before it took too long together."""


class SubmissionModule:
    """The module made of a submission, and where each of its lines came from."""

    def __init__(
        self, cells: list[SourceCell], folder: Path, *, statement_limit_s: float, total_limit_s: float = TOTAL_LIMIT_S
    ) -> None:
        self.path = folder / f"{MODULE_NAME}.py"
        self.problems: list[Problem] = []
        self._first_line: list[tuple[int, SourceCell]] = []  # of each cell, in the file
        self._lines: list[str] = []
        self._future_flags = 0  # of the `from __future__` imports so far: in a notebook they hold for later cells
        self.module = types.ModuleType(MODULE_NAME)
        self.module.__file__ = str(self.path)
        sys.modules[MODULE_NAME] = self.module
        trees = [self._add(cell) for cell in cells]
        self.path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        # By hand, because linecache believes a "coding:" remark in the first lines, which means nothing in a cell.
        lines = [line + "\n" for line in self._lines]
        linecache.cache[str(self.path)] = (sum(map(len, lines)), None, lines, str(self.path))
        end = time.monotonic() + total_limit_s
        for tree in trees:
            for statement in tree.body:
                left_s = end - time.monotonic()
                if _is_definition(statement):
                    left_s = max(left_s, _DEFINITION_LIMIT_S)
                if left_s <= 0:
                    place = self.location(statement.lineno)
                    self._report(
                        Problem(NoTimeLeft.__name__, f"after {total_limit_s:.0f} s of other statements", place)
                    )
                    continue
                self._run(statement, min(statement_limit_s, left_s))

    def locate(self, traceback: TracebackType | None) -> Location | None:
        """The innermost line of the student's own code in a traceback."""
        found = None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == str(self.path):
                found = traceback.tb_lineno
            traceback = traceback.tb_next
        return self.location(found) if found else None

    def problem(self, error: BaseException) -> Problem:
        """What was raised, where in the student's code. Triton's interpreter wraps errors: the cause counts."""
        location = self.locate(error.__traceback__)
        while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
            error = error.__cause__
            location = self.locate(error.__traceback__) or location
        if isinstance(error, SyntaxError) and error.filename == str(self.path) and error.lineno:
            location = self.location(error.lineno)
            # The message alone, without the name of a file that its author has never seen.
            return Problem(type(error).__name__[:128], safe_text(Exception(error.msg)), location)
        return Problem((type(error).__name__ or "Exception")[:128], safe_text(error), location)

    # --- building -----------------------------------------------------------------------------------------------

    def _add(self, cell: SourceCell) -> ast.Module:
        """Append a cell's lines to the file; return what is kept of it, with line numbers of the file."""
        offset = len(self._lines)
        self._first_line.append((offset, cell))
        source = neutralise_magics(cell.source)
        lines = re.split(r"\r\n|\r|\n", source)  # what Python counts as lines; str.splitlines counts form feeds too
        self._lines += lines
        try:
            # Null bytes are a ValueError in some Python versions and a SyntaxError in others.
            tree = ast.parse("\n".join(lines), str(self.path))
            tree.body = keep(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            self._report(Problem(type(error).__name__, safe_text(error), self.location(offset + (line or 1))))
            return ast.Module([], [])
        ast.increment_lineno(tree, offset)
        return tree

    def _run(self, statement: ast.stmt, limit_s: float) -> None:
        try:
            tree = ast.Module([statement], [])
            code = compile(tree, str(self.path), "exec", flags=self._future_flags, dont_inherit=True)
            self._future_flags |= code.co_flags & _FUTURE_FLAGS
            with time_limit(limit_s):
                exec(code, self.module.__dict__)
        except BaseException as error:  # noqa: BLE001 - student code: SystemExit and the like must not end the Worker
            problem = self.problem(error)
            if problem.location is None:
                location = self.location(statement.lineno)
                problem = Problem(problem.exception, problem.text, location)
            self._report(problem)

    def _report(self, problem: Problem) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem)

    def location(self, line: int) -> Location | None:
        """The cell and line of a line of the file, both counted from 1."""
        for offset, cell in reversed(self._first_line):
            if line > offset:
                text = self._lines[line - 1].strip()[:200] if line <= len(self._lines) else ""
                return Location(min(cell.number, 10_000), min(line - offset, 10_000), text)
        return None


def _is_definition(statement: ast.stmt) -> bool:
    """Whether it takes no time to speak of: imports, functions, classes, and assignments that call nothing."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and not any(
        isinstance(node, (ast.Call, ast.ListComp, ast.SetComp, ast.DictComp, ast.BinOp, ast.Subscript))
        for node in ast.walk(statement)
    )


def keep(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block that define something; see the module's docstring."""
    kept: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, _KEPT) or type(statement).__name__ == "TypeAlias":
            kept.append(statement)
        elif isinstance(statement, ast.If):
            if ast.unparse(statement.test) == "__name__ == '__main__'":  # as it is in a notebook
                statement.test = ast.copy_location(ast.Constant(True), statement.test)
            statement.body, statement.orelse = keep(statement.body), keep(statement.orelse)
            if statement.body or statement.orelse:
                statement.body = statement.body or [ast.copy_location(ast.Pass(), statement)]
                kept.append(statement)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            statement.body = keep(statement.body)
            if statement.body:
                kept.append(statement)
        elif isinstance(statement, ast.Try):
            statement.body = keep(statement.body)
            for handler in statement.handlers:
                handler.body = keep(handler.body) or [ast.copy_location(ast.Pass(), handler)]
            statement.orelse, statement.finalbody = keep(statement.orelse), keep(statement.finalbody)
            if statement.body:
                kept.append(statement)
    return kept


def neutralise_magics(source: str) -> str:
    """The cell as plain Python of as many lines: `%`, `!` and `?` lines become `pass`, cell magics go.

    A line is only touched where Python reports a syntax error, so a string that holds `%` or `!` stays as it is.
    """
    lines = re.split(r"\r\n|\r|\n", source)
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = re.match(r"\s*%%(\w+)", lines[first]) if lines else None
    if magic:
        if magic[1] not in _PYTHON_CELL_MAGICS:
            return "\n".join("" for _ in lines)
        lines[first] = ""
    for _ in range(len(lines)):
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            index = (error.lineno or 0) - 1
            # "expected an indented block" is reported on the line after an emptied one, so `pass` keeps the block.
            if not 0 <= index < len(lines) or not (replacement := _neutral(lines[index])):
                break
            lines[index] = replacement
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            break
    return "\n".join(lines)


def _neutral(line: str) -> str:
    """The Python that stands in for a magic line; "" if the line is none."""
    indent = line[: len(line) - len(line.lstrip())]
    if re.match(r"\s*(%|!|\?)", line) or re.match(r"\s*[\w.]+\s*\?{1,2}\s*$", line):
        return f"{indent}pass"
    assigned = re.match(r"\s*([\w.,\s]+?)\s*=\s*(%|!)", line)
    return f"{indent}{assigned[1]} = None" if assigned else ""


@contextlib.contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise StatementTimedOut in the body after `limit_s` seconds, where Python code is running to notice it."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise StatementTimedOut(f"took more than {limit_s:.0f} s")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def sendable(text: str, longest: int = 128) -> str:
    """`text` as it may cross the wire: without lone surrogates, at most `longest` characters (128: as a name)."""
    return text.encode("utf-8", "replace").decode("utf-8")[:longest]


def safe_text(error: BaseException) -> str:
    """`str(error)`, cut to what may cross the wire; an exception whose `__str__` raises is named instead."""
    try:
        text = str(error)
    except BaseException as second:  # noqa: BLE001 - student code again
        text = f"(its text could not be read: {type(second).__name__})"
    return sendable(text, 2000)
