"""From the source of a @triton.jit function to a Python function that can run in the interpreter.

Triton gives some Python syntax another meaning than Python does. Where the two differ, the syntax tree is changed, each
node keeping its line: an assigned number becomes a tensor, `and`, `or` and `not` work lane by lane on blocks, and what
real Triton refuses (chained comparisons, a block as a condition) is refused instead of being silently wrong.
"""

from __future__ import annotations

import ast
import textwrap
import types
import weakref
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.compiler.errors import UnsupportedLanguageConstruct

from warpgrade.model import language
from warpgrade.model.builder import builder, semantic

#: The one name that a rewritten function has beyond its own; no student's name looks like it.
_HELPERS = "__warpgrade_model__"
_functions: weakref.WeakKeyDictionary[Callable[..., Any], types.FunctionType] = weakref.WeakKeyDictionary()


class Helpers:
    """What rewritten code calls."""

    @staticmethod
    def assigned(value: Any) -> Any:
        """The value of an assignment: a number becomes a tensor."""
        return semantic.to_tensor(value, False)

    @staticmethod
    def condition(value: Any) -> bool:
        """The truth of what `if` and `while` look at."""
        if _is_block(value):
            raise UnsupportedLanguageConstruct(None, None, "a block cannot be the condition of `if` or `while`")
        if isinstance(value, tl.tensor) and "undefined" in value.handle.attr:
            builder.watch.decide(value.handle.attr["undefined"])
        return bool(value)

    @staticmethod
    def both(left: Any, right: Callable[[], Any]) -> Any:
        """`left and right()`."""
        return left.logical_and(right()) if _is_block(left) else left and right()

    @staticmethod
    def either(left: Any, right: Callable[[], Any]) -> Any:
        """`left or right()`."""
        return left.logical_or(right()) if _is_block(left) else left or right()

    @staticmethod
    def asserted(value: Any, message: Any = "") -> None:
        """`assert value, message`, which the compiler takes for a tl.device_assert."""
        semantic.device_assert(semantic.to_tensor(value), message, None)

    @staticmethod
    def negated(value: Any) -> Any:
        """`not value`."""
        return value.__not__() if _is_block(value) else not value

    @staticmethod
    def inside(value: Any) -> Any:
        """What a global or outer name stands for: `from triton.language import load`, or Python's own `max`."""
        return language.inside(value)

    @staticmethod
    def refuse(message: str) -> None:
        """What real Triton does not compile."""
        raise UnsupportedLanguageConstruct(None, None, message)


def _is_block(value: Any) -> bool:
    return isinstance(value, tl.tensor) and value.handle.data.size > 1


def runnable(function: Callable[..., Any]) -> types.FunctionType:
    """The rewritten form of the Python function under a @triton.jit, with its globals, defaults and closure.

    Line numbers and file are the original's. Raises OSError if the source cannot be read.
    """
    if function not in _functions:
        _functions[function] = _rewrite(function)
    return _functions[function]


def _rewrite(function: Any) -> types.FunctionType:
    import inspect

    lines, first_line = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first_line - 1)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    code = function.__code__
    definition = _Rewriter({*code.co_varnames, *code.co_cellvars}).visit(definition)
    # The function's free variables stay free variables: it is compiled inside of a function that has them, which is
    # never called; the code is taken out of it and bound to the original's cells.
    names = [*code.co_freevars, _HELPERS]
    outer = ast.parse(f"def outer({', '.join(names)}): pass")
    assert isinstance(outer.body[0], ast.FunctionDef)
    outer.body[0].body = [definition]
    ast.fix_missing_locations(outer)
    inner = _code_named(_code_named(compile(outer, code.co_filename, "exec"), "outer"), definition.name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[_HELPERS] = types.CellType(Helpers)
    closure = tuple(cells[name] for name in inner.co_freevars)
    rewritten = types.FunctionType(inner, function.__globals__, function.__name__, function.__defaults__, closure)
    rewritten.__kwdefaults__ = function.__kwdefaults__
    return rewritten


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, variables: set[str]) -> None:
        self._variables = variables

    def _call(self, helper: str, at: ast.AST, *arguments: ast.expr) -> ast.Call:
        name = ast.Attribute(ast.Name(_HELPERS, ast.Load()), helper, ast.Load())
        call = ast.copy_location(ast.Call(name, list(arguments), []), at)
        for node in (call.func, name.value):
            ast.copy_location(node, at)
        return call

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Store) or node.id in self._variables:
            return node
        return self._call("inside", node, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        # `tl.load`: inside of a launch the module itself is another
        return node if isinstance(node.value, ast.Name) else self.generic_visit(node)  # type: ignore[return-value]

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        if len(node.targets) > 1:
            text = ast.copy_location(ast.Constant("an assignment to several names at once (`a = b = 0`)"), node)
            return ast.copy_location(ast.Expr(self._call("refuse", node, text)), node)
        node.value = self._call("assigned", node.value, node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        arguments = [node.test] if node.msg is None else [node.test, node.msg]
        return ast.copy_location(ast.Expr(self._call("asserted", node, *arguments)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        helper = "both" if isinstance(node.op, ast.And) else "either"
        result = node.values[0]
        for value in node.values[1:]:
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            later = ast.copy_location(ast.Lambda(nothing, value), value)
            result = self._call(helper, node, result, later)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call("negated", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) > 1:
            return self._call("refuse", node, ast.copy_location(ast.Constant("a chained comparison"), node))
        return node

    def _conditional(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self._call("condition", node.test, node.test)
        return node

    visit_If = visit_While = visit_IfExp = _conditional  # noqa: N815
