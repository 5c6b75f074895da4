"""From what Triton's compiler raises to what is wrong, in plain text, and on which line of the student's file."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any

import triton
from triton.compiler.code_generator import CodeGenerator
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from triton.runtime.errors import PTXASError
from triton.runtime.jit import DependenciesFinder, JITCallable

from warpgrade.model import ptx
from warpgrade.wire.compiled import ProblemKind

_LIBRARY = Path(triton.__file__).parent
_MAX_MESSAGE = 2000
_PATH = re.compile(r"(?<![\w.])/(?:[^\s/:'\"<>()]+/)+([^\s/:'\"<>()]*)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_REPR = re.compile(r"^(\w+)\((.*)\)$", re.DOTALL)
_DIAGNOSTIC = re.compile(r'^(?:loc\()?"?([^\s"]+?)"?:(\d+):\d+\)?: error: (.*)$', re.MULTILINE)
_LOOP_VARIABLE = re.compile(r"(?:[Ll]oop.carried variable|reassign constexpr) (\w+)")
_PTXAS = re.compile(r"^ptxas(?:.*, line (\d+);)?.*?(?:error|fatal)\s*: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Complaint:
    """What is wrong. `file` is a name without folders, `line` counts from 1 in it; "" and 0 where unknown."""

    kind: ProblemKind
    message: str
    file: str = ""
    line: int = 0


def understand(error: Exception, diagnostics: str, ptx_text: str = "") -> Complaint:
    """What `error`, raised by the compiler, says.

    `diagnostics` is what MLIR wrote meanwhile, `ptx_text` what ptxas was given, if it came to that.
    """
    file, line = _place(error)
    if isinstance(error, CompilationError):
        innermost = error
        while isinstance(innermost.__cause__, CompilationError):
            innermost = innermost.__cause__
        return _of_the_language(innermost, file, line)
    if isinstance(error, PTXASError):
        lines = [text for _, text in _PTXAS.findall(str(error))]
        number = next((int(number) for number, _ in _PTXAS.findall(str(error)) if number), 0)
        if place := ptx.place_of_line(ptx_text, number, str(_LIBRARY)):
            file, line = PurePath(place.file).name, place.line
        return Complaint("ptxas", plain("; ".join(lines) or str(error).split("Repro command")[0]), file, line)
    if found := _DIAGNOSTIC.search(diagnostics):
        where = PurePath(found[1])
        inside = where.is_relative_to(_LIBRARY)
        return Complaint("compiler", plain(found[3]), "" if inside else where.name, 0 if inside else int(found[2]))
    if isinstance(error, (AssertionError, ValueError)) and not line:
        return Complaint("options", plain(str(error)))
    kind: ProblemKind = "unsupported" if line else "compiler"
    return Complaint(kind, plain(str(error) or type(error).__name__), file, line)


def plain(text: str) -> str:
    """Without paths of this machine and addresses in memory; cut to what may cross the wire."""
    return _ADDRESS.sub("", _PATH.sub(r"\1", text)).strip()[:_MAX_MESSAGE]


def definition(function: JITCallable) -> tuple[str, int]:
    """The file (full path) of a @triton.jit function and the line of its `def`, from 1."""
    before = next(
        (number for number, line in enumerate(function.raw_src) if line.lstrip().startswith("def ")), 0
    )  # decorators
    return function.fn.__code__.co_filename, function.starting_line_number + before


def _of_the_language(error: CompilationError, file: str, line: int) -> Complaint:
    if isinstance(error, UnsupportedLanguageConstruct) and isinstance(error.node, ast.Raise):
        raised = error.node.exc
        name = raised.func if isinstance(raised, ast.Call) else raised
        if isinstance(name, ast.Name) and name.id == "NotImplementedError":
            return Complaint("not_implemented", "not implemented yet", file, line)
    message = error.error_message
    if message is None:
        message = str(error.__cause__ or error)
    message = _without_repr(str(message))
    if isinstance(error, CompileTimeAssertionFailure):
        return Complaint("static_assert", plain(message or "tl.static_assert failed"), file, line)
    kind: ProblemKind = "unsupported" if isinstance(error, UnsupportedLanguageConstruct) else "error"
    return Complaint(kind, plain(message), file, line)


def _without_repr(message: str) -> str:
    """`NameError('y is not defined')`, as Triton wraps what is raised inside it -> `y is not defined`."""
    if not (found := _REPR.match(message)) or not found[1].endswith(("Error", "Exception")):
        return message
    try:
        text = ast.literal_eval(found[2])
    except (SyntaxError, ValueError):
        return message
    return text if isinstance(text, str) and text else message


def _place(error: BaseException) -> tuple[str, int]:
    """The innermost line of the student's own code: file name and line, or ("", 0).

    Triton wraps an error in a called function once for each caller, so the last of the chain is the innermost; those
    inside Triton's own library (`tl.sum` is a @triton.jit function too) are passed over.
    """
    place = ("", 0)
    link: BaseException | None = error
    while link is not None:
        function, node = _where(link, link.__traceback__)
        if function is not None and (line := _line(node, str(error))):
            path, first = definition(function)
            if not PurePath(path).is_relative_to(_LIBRARY):
                place = (PurePath(path).name, first + line - 1)
        link = link.__cause__
    return place


def _line(node: Any, message: str) -> int:
    """The line of a syntax node. Of a variable that a loop changes, Triton only says which loop: the assignment."""
    if isinstance(node, (ast.For, ast.While)) and (found := _LOOP_VARIABLE.search(message)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id == found[1]:
                return inner.lineno
    return int(getattr(node, "lineno", 0))


def _where(error: BaseException, traceback: TracebackType | None) -> tuple[JITCallable | None, Any]:
    """The function whose code was being read when `error` was raised, and the part of its syntax tree."""
    function: JITCallable | None = None
    node: Any = None
    while traceback is not None:
        variables = traceback.tb_frame.f_locals
        reader = variables.get("self")
        if isinstance(reader, CodeGenerator):
            function, node = reader.jit_fn, getattr(reader, "cur_node", None)
        elif isinstance(reader, JITCallable):
            function, node = reader, None
        elif isinstance(reader, DependenciesFinder):
            node = variables.get("node", node)
        traceback = traceback.tb_next
    return function, getattr(error, "node", None) or node
