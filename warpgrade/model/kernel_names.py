"""What a global name in a kernel stands for: something of Triton's language, a kernel's helper, or ordinary Python."""

from __future__ import annotations

import ast
import math  # noqa: F401 - so that a kernel's `import math` is found loaded
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import ConstexprFunction, JITCallable, JITFunction

#: language: Triton's own. helper: a @triton.jit function of the student's. constant: a constexpr, a dtype or None.
#: structure: a named tuple or Triton aggregate. The others cannot be used in a kernel: value, an ordinary Python value;
#: function and class; module; tuned, a kernel with an autotuner or heuristics.
Kind = Literal["language", "helper", "constant", "structure", "value", "function", "class", "module", "tuned"]


@dataclass(frozen=True)
class Meaning:
    """What a name stands for. `thing` is the object where there is one; `called` how a person would name it."""

    kind: Kind
    thing: Any = None
    called: str = ""


def meaning(thing: Any) -> Meaning:
    """What an object stands for inside a kernel, as Triton's code generator and its interpreter would take it."""
    if isinstance(thing, ModuleType):
        name = thing.__name__
        known = name in ("triton", "math") or f"{name}.".startswith("triton.language.")
        return Meaning("language" if known else "module", thing, name)
    if thing is None or isinstance(thing, (tl.constexpr, tl.dtype)):
        return Meaning("constant", thing)
    if isinstance(thing, (Autotuner, Heuristics)):
        return Meaning("tuned", thing)
    if _is_tritons(thing) or isinstance(thing, ConstexprFunction):
        return Meaning("language", thing)  # the second: any Python, which the compiler runs with constants only
    if isinstance(thing, JITFunction):
        return Meaning("helper", thing)
    if isinstance(thing, type):
        fields = issubclass(thing, tuple) and hasattr(thing, "_fields")
        return Meaning("structure" if fields or getattr(thing, "__triton_aggregate__", False) else "class", thing)
    if callable(thing):
        return Meaning("function", thing, getattr(thing, "__module__", None) or type(thing).__module__)
    return Meaning("value", thing)


def _is_tritons(thing: Any) -> bool:
    """Whether it is found in Triton under the name that it says it has: what it says alone could be forged."""
    if not isinstance(thing, (type, JITCallable)) and not callable(thing):
        return f"{type(thing).__module__}.".startswith(("triton.language.", "triton._C.libtriton."))
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__name__", "")
    # What runs at compile time (triton.cdiv) lies anywhere in Triton; of the rest only the language is for kernels.
    homes = ("triton.",) if isinstance(thing, JITCallable) else ("triton.language.", "triton._C.libtriton.", "math.")
    if not isinstance(module, str) or not f"{module}.".startswith(homes):
        return False
    return getattr(sys.modules.get(module), str(name), None) is thing


def scope_of_source(module: ast.Module) -> dict[str, Meaning]:
    """The names that a module's text defines at top level. Of what it imports, only Triton and math are known."""
    scope: dict[str, Meaning] = {}
    for statement in _top_level(module):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                scope[alias.asname or name] = _imported(name)
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                _import_from(scope, statement.module or "", alias)
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            kind: Kind = "helper" if is_kernel(statement) else "function"
            if any(ast.unparse(one).rpartition(".")[2] == "constexpr_function" for one in statement.decorator_list):
                kind = "language"
            scope[statement.name] = Meaning(kind)
        elif isinstance(statement, ast.ClassDef):
            named = any(ast.unparse(base).endswith("NamedTuple") for base in statement.bases)
            aggregate = any("aggregate" in ast.unparse(one) for one in statement.decorator_list)
            scope[statement.name] = Meaning("structure" if named or aggregate else "class")
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    scope[target.id] = _assigned(statement.value, scope)
    return scope


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator is `triton.jit`, with or without arguments."""
    names = (ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in function.decorator_list)
    return any(name in ("triton.jit", "jit") for name in names)


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _top_level(child)


def _imported(name: str) -> Meaning:
    # Only what is loaded already: nothing is imported because a student's text names it.
    known = name == "math" or f"{name}.".startswith("triton.")
    return meaning(sys.modules[name]) if known and name in sys.modules else Meaning("module", None, name)


def _import_from(scope: dict[str, Meaning], module: str, alias: ast.alias) -> None:
    source = _imported(module)
    if alias.name == "*":
        if source.kind == "language":
            scope.update({name: meaning(getattr(source.thing, name)) for name in source.thing.__all__})
        return
    if source.thing is not None and hasattr(source.thing, alias.name):
        found = meaning(getattr(source.thing, alias.name))
    elif source.thing is not None:
        found = _imported(f"{module}.{alias.name}")
    else:
        found = Meaning("function", None, module)
    scope[alias.asname or alias.name] = found


def _assigned(value: ast.expr, scope: Mapping[str, Meaning]) -> Meaning:
    """`X = tl.constexpr(3)` and `exp = tl.exp` are Triton's; what else is assigned is an ordinary value."""
    if isinstance(value, ast.Call):
        function = _assigned(value.func, scope)
        if function.thing is tl.constexpr:
            return Meaning("constant", tl.constexpr(0))
        if function.thing is triton.autotune or function.thing is triton.heuristics or function.kind == "tuned":
            return Meaning("tuned")
        if function.thing is triton.jit:
            return Meaning("helper")
        return Meaning("value")
    if isinstance(value, ast.Name):
        return scope.get(value.id, Meaning("value"))
    if isinstance(value, ast.Attribute):
        owner = _assigned(value.value, scope)
        if isinstance(owner.thing, ModuleType) and hasattr(owner.thing, value.attr):
            return meaning(getattr(owner.thing, value.attr))
    if isinstance(value, ast.Constant) and value.value is None:
        return Meaning("constant")
    return Meaning("value")
