"""Refuses what Triton's language has not.

An interpreted kernel is ordinary Python, so the interpreter would run it all: imports, numpy, torch. Here a kernel's
syntax tree and those of the helpers that it calls are read, and only what Triton's code generator supports passes. It
is a lint with good sentences, not a wall: code outside the kernel can still change what a name means. The real compile
is the second guard; `guard` asks both.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from types import ModuleType
from typing import Any, Literal

import msgspec
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator
from triton.runtime.jit import JITFunction

from warpgrade.model.compile_errors import definition
from warpgrade.model.compiled import compile_kernel
from warpgrade.model.kernel_names import Meaning, is_kernel, meaning, scope_of_source
from warpgrade.model.signature import Specialisation, jit_function
from warpgrade.wire.compiled import CompiledKernel, CompileProblem

#: Parts of Python's syntax that may pass; one that the installed Triton's generator does not know is refused as well.
_SYNTAX = {
    "Assign", "AnnAssign", "AugAssign", "Expr", "If", "For", "While", "Return", "Pass", "Assert", "With", "Name",
    "Constant", "Tuple", "List", "ListComp", "Call", "BinOp", "BoolOp", "UnaryOp", "Compare", "IfExp", "Subscript",
    "Slice", "Attribute", "JoinedStr", "NamedExpr",
}  # fmt: skip
_WHAT_INSTEAD = {
    "Import": "an import stands outside the kernel",
    "ImportFrom": "an import stands outside the kernel",
    "FunctionDef": "a function inside a kernel is not possible: put it outside, with @triton.jit",
    "AsyncFunctionDef": "a function inside a kernel is not possible: put it outside, with @triton.jit",
    "ClassDef": "a class inside a kernel is not possible",
    "Lambda": "Triton has no lambda: write a @triton.jit function outside the kernel",
    "Try": "Triton has no try: nothing can be caught on a GPU; use a mask for what must not be touched",
    "TryStar": "Triton has no try: nothing can be caught on a GPU; use a mask for what must not be touched",
    "Raise": "a kernel cannot raise: use tl.static_assert or tl.device_assert",
    "Global": "a kernel has no global variables: pass a tensor and use tl.store",
    "Nonlocal": "a kernel has no outer variables: pass a tensor and use tl.store",
    "Delete": "Triton has no del",
    "Break": "Triton has no break: put the condition into the loop's bounds or into a mask",
    "Continue": "Triton has no continue: use `if` or a mask",
    "Yield": "Triton has no yield: use tl.store",
    "YieldFrom": "Triton has no yield: use tl.store",
    "Await": "Triton has no await",
    "AsyncFor": "Triton has no async",
    "AsyncWith": "Triton has no async",
    "Match": "Triton has no match: use if",
    "Dict": "Triton has no dict: use separate variables or a tuple",
    "Set": "Triton has no set: use a tuple",
    "DictComp": "Triton has no dict: use a loop over tl.static_range",
    "SetComp": "Triton has no set: use a loop over tl.static_range",
    "GeneratorExp": "Triton has no generators: use a loop over tl.static_range",
    "Starred": "a star is possible only among the arguments of a call",
}
_BUILTINS = {"abs": "tl.abs", "sum": "tl.sum", "pow": "**", "round": "tl.floor(x + 0.5)", "zip": "tl.static_range",
             "enumerate": "tl.static_range", "all": "tl.min", "any": "tl.max", "sorted": "tl.sort"}  # fmt: skip
#: What numpy and torch call otherwise than Triton.
_TRITON_NAMES = {"matmul": "dot", "concatenate": "cat", "amax": "max", "amin": "min", "pow": "exp2 and log2",
                 "power": "exp2 and log2", "tensor": "full", "array": "full", "mm": "dot"}  # fmt: skip
#: Attributes of what a kernel computes with. `handle` is the way out: in the interpreter, a numpy array.
_HIDDEN = {"handle", "to_ir"}
_OF_TYPES = (tl.int32, tl.float32, tl.pointer_type(tl.float32), tl.block_type(tl.float32, [1]), tl.constexpr(0))
_ATTRIBUTES = {name for kind in (tl.tensor, tl.tuple, tl.tensor_descriptor, *_OF_TYPES) for name in dir(kind)} | {
    "type",
    "dtype",
    "block_shape",
    "strides",
    "values",
}  # what a tensor, a descriptor and a tuple are given when made
#: Calls whose texts may be f-strings.
_MESSAGES = {"static_print", "static_assert", "device_print", "device_assert", "print"}
_ABSENT = object()
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)


class Finding(msgspec.Struct, frozen=True):
    """Something in a kernel that Triton has not. `line` counts from 1 in `file`, a name without folders."""

    line: int
    sentence: str
    file: str = ""
    kind: Literal["refused", "not_implemented"] = "refused"


def problems(source_or_kernel: Any) -> list[Finding]:
    """What is to be refused in all @triton.jit functions of a module's text, or in a kernel and its helpers, by line.

    Raises TypeError for an object that holds no @triton.jit function.
    """
    if isinstance(source_or_kernel, str):
        return sorted(set(_of_source(source_or_kernel)), key=_order)
    function = jit_function(source_or_kernel)
    found: list[Finding] = []
    seen = {id(function)}
    waiting = [function]
    while waiting:
        function = waiting.pop()
        path, first_line = definition(function)
        scope = {name: meaning(thing) for name, thing in function.get_capture_scope().items()}
        reader = _Reader(scope, PurePath(path).name, first_line - 1)
        (tree,) = function.parse().body
        found += reader.read(tree)
        new = [helper for helper in reader.helpers if id(helper) not in seen]
        seen.update(map(id, new))
        waiting += new
    return sorted(set(found), key=_order)


def guard(
    kernel: Any, specialisation: Specialisation, arch: int = 80, *, explain: bool = True
) -> CompiledKernel | CompileProblem:
    """Both guards: the allow-list, for functions given as arguments too, then the real compile.

    Raises what `problems` and `compile_kernel` raise.
    """
    found = problems(kernel)
    path, line = definition(jit_function(kernel))
    for value in specialisation.constants.values():
        given = meaning(value)
        if given.kind == "helper":
            found += problems(value)
        elif given.kind in ("function", "class", "module", "tuned"):
            name = getattr(value, "__name__", type(value).__name__)
            found.append(Finding(line, f"{name} is given as an argument, and is no @triton.jit function", path))
    if found:
        first = min(found, key=lambda finding: finding.kind != "not_implemented")
        return CompileProblem(first.kind, arch, first.sentence, PurePath(first.file).name, first.line)
    return compile_kernel(kernel, specialisation, arch, explain=explain)


def _of_source(source: str) -> Iterable[Finding]:
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return [Finding(getattr(error, "lineno", None) or 1, f"not Python: {getattr(error, 'msg', error)}")]
    scope = scope_of_source(module)
    return [
        finding
        for node in ast.walk(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_kernel(node)
        for finding in _Reader(scope, "", 0).read(node)
    ]


def _order(finding: Finding) -> tuple[str, int, str]:
    return finding.file, finding.line, finding.sentence


class _Reader:
    """Reads one function. What is refused is not read further inside."""

    def __init__(self, scope: Mapping[str, Meaning], file: str, lines_before: int) -> None:
        self._scope = scope
        self._file = file
        self._lines_before = lines_before
        self._locals: set[str] = set()
        self._in_message = False
        self._found: list[Finding] = []
        #: The student's other @triton.jit functions that are used here.
        self.helpers: list[JITFunction[Any]] = []

    def read(self, function: ast.stmt) -> list[Finding]:
        """All findings in a function's parameters and body."""
        if not isinstance(function, ast.FunctionDef):
            self._refuse(function, "a kernel is an ordinary function: no async")
            return self._found
        arguments = function.args
        if arguments.posonlyargs or arguments.kwonlyargs or arguments.kwarg:
            self._refuse(function, "a kernel's parameters have no `/`, no `*,` and no `**`: Triton does not pass them")
        self._locals = {argument.arg for argument in ast.walk(arguments) if isinstance(argument, ast.arg)}
        self._locals |= {
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self._all(function.body)
        return self._found

    def _refuse(self, node: ast.AST, sentence: str, kind: Literal["refused", "not_implemented"] = "refused") -> None:
        line = self._lines_before + getattr(node, "lineno", 1)
        self._found.append(Finding(line, sentence, self._file, kind))

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self._one(node)

    def _one(self, node: ast.AST) -> None:
        name = type(node).__name__
        if name not in _SYNTAX or not hasattr(CodeGenerator, f"visit_{name}"):
            self._unknown(node, name)
            return
        special: Callable[[Any], None] | None = getattr(self, f"_read_{name.lower()}", None)
        if special is not None:
            special(node)
        else:  # operators and contexts are no expressions
            self._all(child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.expr, ast.stmt)))

    def _unknown(self, node: ast.AST, name: str) -> None:
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id == "NotImplementedError":
                self._refuse(node, "not implemented yet", "not_implemented")
                return
        self._refuse(node, _WHAT_INSTEAD.get(name, f"this version of Triton has no {name}"))

    # --- statements -----------------------------------------------------------------------------------------------

    def _read_assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self._refuse(node, "one assignment at a time: Triton has no `a = b = c`")
        for target in node.targets:
            self._target(target)
        self._one(node.value)

    def _read_annassign(self, node: ast.AnnAssign) -> None:
        self._target(node.target)
        self._all([node.annotation, node.value])

    def _read_augassign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        self._operator(node, node.op)
        self._one(node.value)

    def _target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for element in target.elts:
                self._target(element)
        elif isinstance(target, ast.Subscript):
            self._refuse(target, "a tensor's elements cannot be assigned: use tl.where, or tl.store to memory")
        elif not isinstance(target, ast.Name):
            self._refuse(target, "only variables can be assigned, one by one or as a tuple")

    def _read_for(self, node: ast.For) -> None:
        loop = self._meaning(node.iter.func) if isinstance(node.iter, ast.Call) else None
        if loop is None or not any(loop.thing is one for one in (builtins.range, tl.range, tl.static_range)):
            self._refuse(node.iter, "a loop goes over range, tl.range or tl.static_range")
        else:
            self._one(node.iter)
        if not isinstance(node.target, ast.Name):
            self._refuse(node.target, "a loop has one variable")
        self._loop_end(node)
        self._all(node.body)

    def _read_while(self, node: ast.While) -> None:
        self._loop_end(node)
        self._all([node.test, *node.body])

    def _loop_end(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            self._refuse(node.orelse[0], "Triton has no `else` of a loop")

    def _read_with(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            manager = self._meaning(call.func) if isinstance(call, ast.Call) else None
            if manager is None or manager.kind != "language" or not isinstance(call, ast.Call):
                self._refuse(node, "Triton has no `with`, but for its own context managers")
            else:
                self._all([*call.args, *(keyword.value for keyword in call.keywords)])
            if item.optional_vars is not None:
                self._target(item.optional_vars)
        self._all(node.body)

    def _read_assert(self, node: ast.Assert) -> None:
        self._one(node.test)
        if node.msg is not None:
            self._message([node.msg])

    # --- expressions ----------------------------------------------------------------------------------------------

    def _read_constant(self, node: ast.Constant) -> None:
        if node.value is not None and not isinstance(node.value, (bool, int, float, str)):
            self._refuse(node, f"Triton has no constants such as {node.value!r}")

    def _read_binop(self, node: ast.BinOp) -> None:
        self._operator(node, node.op)
        self._all([node.left, node.right])

    def _operator(self, node: ast.AST, operator: ast.operator) -> None:
        if isinstance(operator, ast.MatMult):
            self._refuse(node, "Triton has no `@`: use tl.dot")

    def _read_compare(self, node: ast.Compare) -> None:
        if len(node.ops) > 1:
            self._refuse(node, "one comparison at a time: (a < b) & (b < c)")
        if not all(isinstance(operator, _COMPARISONS) for operator in node.ops):
            self._refuse(node, "Triton has no `in`: compare with each value")
        self._all([node.left, *node.comparators])

    def _read_listcomp(self, node: ast.ListComp) -> None:
        (first, *more) = node.generators
        if more or first.ifs or first.is_async or not isinstance(first.target, ast.Name):
            self._refuse(node, "a list comprehension has one `for`, no `if` and one variable")
        self._all([first.iter, node.elt])

    def _read_joinedstr(self, node: ast.JoinedStr) -> None:
        if not self._in_message:
            self._refuse(node, "an f-string is possible only in tl.static_print, tl.static_assert and the like")
        self._all(part.value for part in node.values if isinstance(part, ast.FormattedValue))

    def _message(self, nodes: Iterable[ast.AST]) -> None:
        before, self._in_message = self._in_message, True
        self._all(nodes)
        self._in_message = before

    def _read_call(self, node: ast.Call) -> None:
        self._one(node.func)
        if any(keyword.arg is None for keyword in node.keywords):
            self._refuse(node, "Triton has no `**` among the arguments of a call")
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        arguments: list[ast.AST] = [one.value if isinstance(one, ast.Starred) else one for one in node.args]
        arguments += [keyword.value for keyword in node.keywords]
        if name in ("getattr", "hasattr") and name not in self._locals:
            self._by_name(node)
        if name in _MESSAGES:
            self._message(arguments)
        else:
            self._all(arguments)

    def _by_name(self, node: ast.Call) -> None:
        name = node.args[1] if len(node.args) > 1 else None
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            self._refuse(node, "the name of an attribute must be written out")
        else:
            self._attribute_of_a_value(node, name.value, node.args[0])

    def _read_name(self, node: ast.Name) -> None:
        self._judge(node, self._meaning(node), node.id)

    def _read_attribute(self, node: ast.Attribute) -> None:
        found = self._meaning(node)
        if found is not None:
            self._judge(node, found, ast.unparse(node))
            return
        owner = self._meaning(node.value)
        if owner is not None and isinstance(owner.thing, ModuleType) and owner.kind == "language":
            self._refuse(node, f"{ast.unparse(node.value)} has no {node.attr}")
        else:
            refused = len(self._found)
            self._one(node.value)
            if len(self._found) == refused:  # one finding for a chain of names
                self._attribute_of_a_value(node, node.attr, node.value)

    def _attribute_of_a_value(self, node: ast.AST, name: str, owner: ast.expr) -> None:
        # A variable may be a named tuple, whose fields have any name.
        field = isinstance(owner, ast.Name) and owner.id in self._locals
        if name.startswith("_") or name in _HIDDEN or not (field or name in _ATTRIBUTES):
            self._refuse(node, f"a kernel cannot use .{name}")

    def _meaning(self, node: ast.expr) -> Meaning | None:
        """What a global name, or an attribute of a module, stands for; None for variables and what is computed."""
        if isinstance(node, ast.Name):
            if node.id in self._locals:
                return None
            if node.id in self._scope:
                return self._scope[node.id]
            if node.id in CodeGenerator.builtin_namespace:
                return Meaning("language", CodeGenerator.builtin_namespace[node.id])
            return Meaning("value", None, "builtin" if hasattr(builtins, node.id) else "undefined")
        if isinstance(node, ast.Attribute) and not node.attr.startswith("_"):
            owner = self._meaning(node.value)
            if owner is not None:
                return self._member(owner, node.attr)
        return None

    def _member(self, owner: Meaning, name: str) -> Meaning | None:
        thing = getattr(owner.thing, name, _ABSENT)
        if owner.kind == "module":
            return Meaning("module", None, owner.called)  # torch.nn.functional is torch's as well
        if owner.kind != "language" or thing is _ABSENT:
            return None
        if owner.thing is math and isinstance(thing, float):
            return Meaning("constant", thing)
        if isinstance(owner.thing, ModuleType):
            return meaning(thing)
        in_enumeration = isinstance(owner.thing, type) and isinstance(thing, owner.thing)
        return meaning(thing) if in_enumeration else None

    def _judge(self, node: ast.AST, found: Meaning | None, spelled: str) -> None:
        if found is None or found.kind in ("language", "constant", "structure"):
            return
        if found.kind == "helper":
            if isinstance(found.thing, JITFunction):
                self.helpers.append(found.thing)
            return
        self._refuse(node, self._sentence(found, spelled))

    def _sentence(self, found: Meaning, spelled: str) -> str:
        last = spelled.rpartition(".")[2]
        package = found.called.partition(".")[0]
        if found.kind == "module" or (found.kind == "function" and package in ("numpy", "torch")):
            known = _TRITON_NAMES.get(last, last if hasattr(tl, last) else "")
            instead = f"use tl.{known}" if known else "use triton.language"
            return f"a kernel cannot call {package}: {instead}"
        if found.kind == "function":
            return f"{spelled} is an ordinary Python function: give it @triton.jit"
        if found.kind == "class":
            return f"{spelled} is a Python class: a kernel knows only Triton's types"
        if found.kind == "tuned":
            return f"{spelled} is a whole kernel with its tuning: a kernel calls plain @triton.jit functions"
        if found.called == "undefined":
            return f"{spelled} is not defined"
        if found.called == "builtin":
            return f"a kernel cannot use Python's {spelled}: use {_BUILTINS.get(spelled, 'triton.language')}"
        return f"{spelled} is a Python variable outside the kernel: pass it, or make it {spelled} = tl.constexpr(...)"
