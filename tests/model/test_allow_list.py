from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from tests.model import compiled_kernels as kernels
from warpgrade.model.allow_list import Finding, guard, problems
from warpgrade.model.compiled import compile_kernel
from warpgrade.model.signature import specialise
from warpgrade.wire.compiled import CompiledKernel, CompileProblem
from warpgrade.worker.module import SourceCell, SubmissionModule

F32 = torch.zeros(1024)
HEAD = """\
import math
import os
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

GLOBAL = tl.constexpr(4)
PLAIN = 4
INFINITY = tl.constexpr(float("inf"))
exp = tl.exp


class Pair(NamedTuple):
    first: tl.tensor
    second: tl.tensor


class Holder:
    size = 4


@triton.jit
def twice(v, ADD: tl.constexpr = 0):
    return v * 2 + ADD


@triton.constexpr_function
def padded(n):
    return 2 ** (n - 1).bit_length()


@triton.jit
def minmax(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def add_up(a, b):
    return a + b


@triton.jit
def early(v, FLAG: tl.constexpr):
    if FLAG:
        return v + 1
    return v


@triton.jit
def outer_faulty(v):
    return inner_faulty(v)


@triton.jit
def inner_faulty(v):
    return np.abs(v)  # in a helper of a helper


def python_function(v):
    return v


tuned = triton.autotune([triton.Config({"ADD": 1})], key=[])(twice)

"""
KERNEL = """
@triton.jit
def kernel(x, o, n, BLOCK: tl.constexpr, BIAS: tl.constexpr = None, OUT: tl.constexpr = tl.float32):
    off = tl.arange(0, BLOCK)
    v = tl.load(x + off, mask=off < n, other=0.0)
{body}
    tl.store(o + off, v, mask=off < n)
"""

ACCEPTED = {
    "nothing more": "pass",
    "a docstring": '"""What it does."""',
    "a helper": "v = twice(v, ADD=GLOBAL)",
    "a tuple from a helper": "low, high = minmax(v, 0.0)\nv = low + high",
    "a helper that returns early": "v = early(v, BLOCK > 1)",
    "constexpr if": "if BLOCK >= 128:\n    v += 1\nelse:\n    v -= 1",
    "is None": "if BIAS is not None:\n    v += BIAS",
    "runtime if": "if n > 10:\n    v = v * 2",
    "if expression": "v = v * (2 if BLOCK > 64 else 3)",
    "a boolean of constants": "if BLOCK > 4 and not BLOCK == 8:\n    v = -v",
    "while": "i = 0\nwhile i < n:\n    v += i\n    i += 1",
    "range": "for i in range(0, n, 2):\n    v += i",
    "range backwards": "for i in range(8, 0, -1):\n    v += i",
    "tl.range": "for i in tl.range(0, n, num_stages=2):\n    v += i",
    "static_range": "for i in tl.static_range(4):\n    v += i",
    "nested loops": "for i in range(n):\n    for j in tl.static_range(2):\n        v += i * j",
    "inline assembly": 'v = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [v], dtype=tl.float32, is_pure=True, pack=1)',
    "libdevice": "v = libdevice.asin(v)",
    "tl.extra": "v = tl.extra.cuda.libdevice.tanh(v)",
    "tl.math": "v = tl.math.exp2(v)",
    "another name of tl.exp": "v = exp(v)",
    "a reduction": "v = v - tl.max(v, axis=0)",
    "a reduction of our own": "v = v / tl.reduce(v, 0, add_up)",
    "a scan": "v = tl.associative_scan(v, 0, add_up)",
    "methods": "v = v.to(tl.float16).to(OUT).reshape(BLOCK)",
    "types of values": "v = v.to(x.dtype.element_ty)",
    "shape": "v += v.shape[0]",
    "None index": "v += tl.sum(v[:, None] * v[None, :], 1)",
    "a dot": "v = tl.sum(tl.dot(v[:, None] * v[None, :], v[:, None] * v[None, :]), 1)",
    "transposed": "v += tl.sum((v[:, None] * v[None, :]).T, 1)",
    "a local constant": "HALF: tl.constexpr = BLOCK // 2\nv += tl.sum(tl.arange(0, HALF), 0)",
    "a global constant": "v = tl.where(v > 0, v, -INFINITY)",
    "compile-time functions": "v += triton.cdiv(BLOCK, 3) + triton.next_power_of_2(BLOCK) + tl.cdiv(n, 3)",
    "a function of constants": "v += padded(BLOCK)",
    "math of constants": "v += math.pi * math.sqrt(2.0)",
    "builtins": "v += min(n, 4) + max(n, 2) + len(v.shape) + float(BLOCK) + int(BLOCK)",
    "assertions": 'tl.static_assert(BLOCK >= 16, f"BLOCK is {BLOCK}")\nassert n > 0, "n"\ntl.device_assert(n > 0, "n")',
    "printing": 'tl.static_print("BLOCK", BLOCK, f"{BLOCK}")\ntl.device_print("v", v)',
    "a tuple and its elements": "pair = (v, v + 1)\nv = pair[0] + pair[1]",
    "a named tuple": "pair = Pair(v, v + 1)\nv = pair.first + pair.second",
    "a list": "parts = [v, v]\nv = parts[0] + parts[1]",
    "a list comprehension": "parts = [part * 2 for part in (v, v)]\nv = parts[0]",
    "atomics": "tl.atomic_add(o + off, v, mask=off < n)",
    "a member of an enumeration": "v = tl.maximum(v, 0.0, propagate_nan=tl.PropagateNan.ALL)",
    "isinstance": "if isinstance(v, tl.tensor):\n    v += 1",
    "swapping": "w = v + 1\nv, w = w, v",
    "bits": "v = ((off << 1) | (off & 3) ^ ~off).to(tl.float32)",
    "a descriptor": "d = tl.make_tensor_descriptor(x, shape=[n], strides=[1], block_shape=[BLOCK])\nv = d.load([0])",
    "random numbers": "v = tl.where(tl.rand(7, off) > 0.5, v, 0.0)",
    "a lock": "lock = o.to(tl.pointer_type(tl.int32))\nwhile tl.atomic_cas(lock, 0, 1) == 1:\n    pass\ntl.atomic_xchg(lock, 0)",
    "block pointers": "p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))\np = tl.advance(p, (BLOCK,))\nv = tl.load(p)",
    "swizzling": "i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), 4, 4, 2)\nv += i + j",
    "a persistent loop": "for i in tl.range(tl.program_id(0), n, tl.num_programs(0), flatten=True):\n    v += i",
    "assume and barrier": "tl.assume(n > 0)\ntl.debug_barrier()",
    "join and split": "a, b = tl.split(tl.join(v, v))\nv = a + b",
    "sort, flip, cumsum": "v = tl.cumsum(tl.flip(tl.sort(v), 0), 0)",
    "asking for a type": "if x.dtype.element_ty == tl.float32 and v.dtype.is_fp32():\n    v += 1",
    "the width of a type": "if x.dtype.element_ty.primitive_bitwidth == 32 and v.dtype.fp_mantissa_width > 7:\n    v += 1",
    "the same bits": "v = v.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True)",
    "hints of the cache": 'v += tl.load(x + off, eviction_policy="evict_first") + tl.load(x + off, cache_modifier=".cg")',
    "statistics": "m = tl.max(v, 0)\nv = tl.exp(v - m) / tl.sum(tl.exp(v - m), 0)\nv = tl.fma(v, v, tl.sigmoid(v))",
    "multiple_of": "v += tl.load(x + tl.multiple_of(n, 16) + tl.max_contiguous(off, BLOCK))",
}
#: Only in newer versions of Triton.
if hasattr(CodeGenerator, "visit_NamedExpr"):
    ACCEPTED["a named expression"] = "v = v + (w := v * 2) + w"

#: Body and what the sentence says. The line is the first of the body, where no `# here` says otherwise.
REFUSED = {
    "import": ("import math", "outside the kernel"),
    "from import": ("from math import exp", "outside the kernel"),
    "try": ("try:\n    v += 1\nexcept ValueError:\n    pass", "no try"),
    "raise": ("raise ValueError", "cannot raise"),
    "with open": ('with open("f") as f:\n    v += 1', "no `with`"),
    "lambda": ("f = lambda a: a", "no lambda"),
    "global": ("global PLAIN", "no global"),
    "del": ("del v", "no del"),
    "break": ("for i in range(n):\n    break  # here", "no break"),
    "continue": ("for i in range(n):\n    continue  # here", "no continue"),
    "yield": ("yield v", "no yield"),
    "nested function": ("def inner(a):\n    return a", "outside"),
    "nested class": ("class C:\n    pass", "class"),
    "dict": ("d = {}", "no dict"),
    "set": ("d = {1, 2}", "no set"),
    "dict comprehension": ("d = {i: i for i in range(2)}", "no dict"),
    "generator": ("v += sum(i for i in range(2))", "Python's sum"),
    "match": ("match n:\n    case 1:\n        v += 1", "no match"),
    "async": ("async def f():\n    pass", "outside"),
    "numpy": ("v = np.exp(v)", "numpy: use tl.exp"),
    "numpy under another name": ("v = np.matmul(v, v)", "use tl.dot"),
    "torch": ("v = torch.relu(v)", "torch: use triton.language"),
    "a module below torch": ("v = torch.nn.functional.softmax(v)", "torch: use tl.softmax"),
    "os": ('os.system("true")', "call os"),
    "what Triton's modules import": ("v = tl.core.math.os.system('true')", "tl.core.math has no os"),
    "a Python module through Triton": ("v += tl.core.inspect.currentframe()", "call inspect"),
    "Triton's host side": ("v += triton.testing.do_bench(twice)", "call triton"),
    "triton.jit": ("f = triton.jit(twice)", "triton.jit is an ordinary Python function"),
    "a Python function": ("v = python_function(v)", "@triton.jit"),
    "in a helper of a helper": ("v = outer_faulty(v)", "numpy: use tl.abs"),
    "a Python class": ("v += Holder.size", "Holder is a Python class"),
    "a Python global": ("v *= PLAIN", "PLAIN = tl.constexpr"),
    "a tuned kernel": ("v = tuned(v)", "a whole kernel"),
    "abs": ("v = abs(v)", "use tl.abs"),
    "open": ('open("f")', "Python's open"),
    "eval": ('eval("1")', "Python's eval"),
    "undefined": ("v = v * scale", "scale is not defined"),
    "a dunder": ("v = v.__class__", "__class__"),
    "a dunder of a module": ("v = tl.__dict__", "__dict__"),
    "a dunder of a helper": ("v = twice.__globals__", "__globals__"),
    "the numpy array inside": ("v = v.handle.data.sum()", ".handle"),
    "by name": ("v = getattr(v, 'handle')", ".handle"),
    "by a name made up": ("v = getattr(v, 'han' + 'dle')", "written out"),
    "string methods": ("s = 'a'.join(('b', 'c'))", ".join"),
    "no such function": ("v = tl.expp(v)", "tl has no expp"),
    "assigning an element": ("v[0] = 1", "tl.where"),
    "assigning an attribute": ("v.x = 1", "only variables"),
    "a = b = c": ("a = b = v", "one assignment"),
    "a < b < c": ("v += 0 < n < 4", "one comparison"),
    "in": ("v += n in (1, 2)", "no `in`"),
    "@": ("v = v @ v", "use tl.dot"),
    "a loop over a list": ("for i in [1, 2]:\n    v += i", "tl.static_range"),
    "a loop over enumerate": ("for i in enumerate(v):\n    v += 1", "tl.static_range"),
    "else of a loop": ("for i in range(n):\n    v += 1\nelse:\n    v -= 1  # here", "else"),
    "f-string": ('s = f"{BLOCK}"', "f-string"),
    "conditions in a comprehension": ("l = [p for p in (v, v) if BLOCK > 1]", "no `if`"),
    "two loops in a comprehension": ("l = [p for p in (v, v) for q in (v, v)]", "one `for`"),
    "**": ("v = twice(v, **BIAS)", "`**`"),
    "bytes": ("s = b'x'", "constants such as"),
}
#: Where the two guards differ, and why.
COMPILER_ACCEPTS = {
    "conditions in a comprehension": "the code generator passes over the `if`, the interpreter obeys it",
}


def indented(body: str) -> str:
    return "\n".join("    " + line for line in body.splitlines())


def source_of(body: str) -> str:
    return HEAD + KERNEL.format(body=indented(body))


def kernel_of(body: str, folder: Path) -> Any:
    submission = SubmissionModule([SourceCell(1, source_of(body))], folder, statement_limit_s=20)
    assert submission.problems == []
    return submission.module.kernel


def line_of(body: str) -> int:
    before = (HEAD + KERNEL).partition("{body}")[0].count("\n")
    marked = (number for number, line in enumerate(body.splitlines(), 1) if "# here" in line)
    return before + next(marked, 1)


def compiled(kernel: Any) -> CompiledKernel | CompileProblem:
    return compile_kernel(kernel, specialise(kernel, (F32, F32, 1000, 64), {}), 80, explain=False)


@pytest.mark.parametrize("name", ACCEPTED)
def test_triton_is_accepted_by_both_guards(name: str, tmp_path: Path) -> None:
    kernel = kernel_of(ACCEPTED[name], tmp_path)
    assert problems(kernel) == []
    result = compiled(kernel)
    assert isinstance(result, CompiledKernel), result
    (below,) = (finding for finding in problems(source_of(ACCEPTED[name])))  # inner_faulty, which stands in HEAD
    assert "numpy" in below.sentence


@pytest.mark.parametrize("name", REFUSED)
def test_other_python_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    body, text = REFUSED[name]
    kernel = kernel_of(body, tmp_path)
    line = (
        source_of(body)[: source_of(body).index("# in a helper of")].count("\n") + 1
        if "outer" in body
        else line_of(body)
    )
    found = problems(kernel)
    assert [finding for finding in found if finding.line == line and text in finding.sentence], found
    assert {finding.file for finding in found} == {"submission.py"}
    assert {finding.line for finding in found} == {line}, "nothing else is refused"
    in_text = problems(source_of(body))
    assert {(one.line, one.sentence) for one in found} <= {(one.line, one.sentence) for one in in_text}
    accepted = isinstance(compiled(kernel), CompiledKernel)
    assert accepted == (name in COMPILER_ACCEPTS), "the compiler thinks otherwise, and COMPILER_ACCEPTS has no reason"


def test_kernels_of_the_other_tests() -> None:
    """Those with a fault in their language are found on the marked line; the others pass."""
    inner = {"calls_stub_helper": "stub_helper", "middle": "inner_fault", "nested_fault": "inner_fault"}
    faulty = {
        "stub", "stub_helper", "calls_stub_helper", "other_raise", "undefined_name", "unsupported_python",
        "calls_plain_python", "calls_numpy", "reads_python_global", "inner_fault", "middle", "nested_fault",
    }  # fmt: skip
    found = {name: problems(one) for name, one in vars(kernels).items() if isinstance(one, (JITFunction, Autotuner))}
    assert {name for name, findings in found.items() if findings} == faulty
    for name in faulty:
        assert [finding.line for finding in found[name]] == [
            kernels.fault_line(getattr(kernels, inner.get(name, name)))
        ]


PARAMETERS = """
import triton
@triton.jit
def kernel({}):
    pass
"""


@pytest.mark.parametrize("parameters", ["x, /, y", "x, *, y", "x, **others"])
def test_parameters_that_triton_does_not_pass(parameters: str) -> None:
    (finding,) = problems(PARAMETERS.format(parameters))
    assert finding.line == 4 and "parameters" in finding.sentence


def test_async_kernels_and_broken_text() -> None:
    assert "async" in problems("@triton.jit\nasync def f(): pass")[0].sentence
    (finding,) = problems("@triton.jit\ndef f(:\n    pass")
    assert finding.line == 2 and "not Python" in finding.sentence


def test_functions_without_the_decorator_may_be_any_python() -> None:
    assert problems("import numpy as np\ndef f(x):\n    return np.exp([i for i in x if i])") == []


def test_names_imported_from_triton_in_any_way() -> None:
    body = "@jit\ndef k(x, o, B: constexpr):\n    r = arange(0, B)\n    language.store(o + r, load(x + r))\n"
    head = "from triton import jit, language\nfrom triton.language import arange, constexpr, load\n"
    assert problems(head + body) == []
    assert (
        problems("from triton import jit\nfrom triton.language import *\nimport triton.language as language\n" + body)
        == []
    )
    (finding,) = problems("from numpy import exp\n@triton.jit\ndef k(x):\n    y = exp(x)\n")
    assert "numpy: use tl.exp" in finding.sentence


def test_a_python_function_that_says_it_is_tritons_is_refused(tmp_path: Path) -> None:
    head = "def exp(v):\n    return v\nexp.__module__ = 'triton.language.math'\nexp.__triton_builtin__ = True\n"
    text = "import triton\nimport triton.language as tl\n" + head + "@triton.jit\ndef kernel(x):\n    y = exp(1.0)\n"
    cells = [SourceCell(1, text)]
    (finding,) = problems(SubmissionModule(cells, tmp_path, statement_limit_s=5).module.kernel)
    assert (finding.line, finding.sentence) == (9, "exp is an ordinary Python function: give it @triton.jit")


def test_the_guard_asks_both(tmp_path: Path) -> None:
    def guarded(kernel: Any) -> CompiledKernel | CompileProblem:
        return guard(kernel, specialise(kernel, (F32, F32, 64), {}), arch=90)

    refused = guarded(kernels.calls_numpy)
    assert isinstance(refused, CompileProblem)
    assert (refused.kind, refused.arch, refused.file) == ("refused", 90, "compiled_kernels.py")
    assert refused.message == "a kernel cannot call numpy: use tl.exp"
    stub = guarded(kernels.calls_stub_helper)
    assert isinstance(stub, CompileProblem)
    assert (stub.kind, stub.line) == ("not_implemented", kernels.fault_line(kernels.stub_helper))
    wrong = guarded(kernels.wrong_shapes_in_dot)
    assert isinstance(wrong, CompileProblem) and wrong.kind == "error"
    right = guard(kernels.add, specialise(kernels.add, (F32, F32, F32, 64), {"BLOCK": 64}))
    assert isinstance(right, CompiledKernel)


@triton.jit
def applies(x, o, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    off = tl.arange(0, BLOCK)
    tl.store(o + off, FUNCTION(tl.load(x + off)))


def test_functions_given_as_arguments_are_read_too() -> None:
    def guarded(function: Any) -> CompiledKernel | CompileProblem:
        return guard(applies, specialise(applies, (F32, F32, function, 64), {}))

    assert isinstance(guarded(kernels.middle), CompileProblem)
    faulty = guarded(kernels.inner_fault)
    assert isinstance(faulty, CompileProblem) and faulty.line == kernels.fault_line(kernels.inner_fault)
    plain = guarded(kernels.plain_function)
    assert isinstance(plain, CompileProblem)
    assert (plain.file, plain.message) == (
        Path(__file__).name,
        "plain_function is given as an argument, and is no @triton.jit function",
    )
    assert isinstance(guarded(twice), CompiledKernel)


@triton.jit
def twice(v):
    return v * 2


def test_autotuners_and_heuristics_are_looked_into(tmp_path: Path) -> None:
    wrapped = triton.autotune([triton.Config({})], key=[])(
        triton.heuristics({"BLOCK": lambda _: 64})(kernels.calls_numpy)
    )
    assert problems(wrapped) == problems(kernels.calls_numpy) != []


def test_what_the_code_generator_reads_is_what_this_list_was_written_for() -> None:
    """A new `visit_` in Triton is new syntax in kernels: decide whether warpgrade/model/allow_list.py lets it in."""
    known = {
        "AnnAssign", "Assert", "Assign", "Attribute", "AugAssign", "BinOp", "BoolOp", "Call", "Compare", "Constant",
        "Expr", "ExtSlice", "For", "FunctionDef", "If", "IfExp", "Index", "JoinedStr", "List", "ListComp", "Load",
        "Module", "Name", "NamedExpr", "NoneType", "Pass", "Return", "Slice", "Store", "Subscript", "Tuple", "UnaryOp",
        "While", "With", "arg", "arguments", "keyword",
    }  # fmt: skip
    # Not kinds of syntax: the code generator's own helpers, and what every visitor inherits.
    helpers = {"compound_statement", "if_scf", "if_top_level", "then_else_blocks", "Subscript_Load", "Subscript_Store"}
    visits = {name.removeprefix("visit_") for name in dir(CodeGenerator) if name.startswith("visit_")}
    assert visits - helpers - known == set()
    assert {"For", "While", "Call", "Subscript"} <= visits
    names = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max"}
    assert set(CodeGenerator.builtin_namespace) <= names, "new builtins: see _read_name of allow_list.py"


def test_a_finding_is_plain_data() -> None:
    assert Finding(3, "no") == Finding(line=3, sentence="no", file="", kind="refused")
