"""Python that Triton reads otherwise than Python does, what the compiler refuses, and the lines of errors."""

import inspect

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import UnsupportedLanguageConstruct

from warpgrade.model.interpreter import interpreting, source_line
from warpgrade.model.sanitizer import Session


@triton.jit
def lane_by_lane(x, out, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    inside = value > 2 and value < 10 and not (value == 5)  # noqa: SIM201
    tl.store(out + tl.arange(0, BLOCK), tl.where(inside or value == 15, 1, 0))


def test_and_or_not_work_on_blocks(clean):
    x, out = torch.arange(16), torch.empty(16, dtype=torch.int32)
    lane_by_lane[(1,)](x, out, BLOCK=16)
    assert out.nonzero()[:, 0].tolist() == [3, 4, 6, 7, 8, 9, 15]


@triton.jit
def scalars(out, n):
    if n > 2 and not n == 7:  # noqa: SIM201
        tl.store(out, 1 if n < 5 or n == 9 else 2)


@pytest.mark.parametrize(("n", "expected"), [(2, 0), (3, 1), (6, 2), (7, 0), (9, 1)])
def test_and_or_not_work_on_scalars(clean, n, expected):
    out = torch.zeros(1)
    scalars[(1,)](out, n)
    assert out.item() == expected


@triton.jit
def chained(out, n):
    tl.store(out, 0 < n < 4)  # REFUSED


@triton.jit
def block_as_a_condition(out, n):
    if tl.arange(0, 4) < n:  # REFUSED
        tl.store(out, 1)


@triton.jit
def assigned_together(out, n):
    a = b = n  # REFUSED
    tl.store(out, a + b)


@triton.jit
def not_a_power_of_two(out, n):
    tl.store(out + tl.arange(0, 3), n)  # REFUSED


@triton.jit
def width_at_run_time(out, n):
    tl.store(out + tl.arange(0, n), n)  # REFUSED


@triton.jit
def shape_at_run_time(out, n):
    value = tl.zeros((n,), tl.float32)  # REFUSED
    tl.store(out, tl.sum(value))


@triton.jit
def too_many_elements(out, n):
    value = tl.zeros((2048, 1024), tl.float32)  # REFUSED
    tl.store(out, tl.sum(value))


@triton.jit
def shapes_that_do_not_fit(out, n):
    tl.store(out + tl.arange(0, 8), tl.arange(0, 8) + tl.arange(0, 4))  # REFUSED


@triton.jit
def bf16_maximum(out, n):
    tl.atomic_max(out.to(tl.pointer_type(tl.bfloat16)), n.to(tl.bfloat16))  # REFUSED


@triton.jit
def fails_statically(out, n):
    tl.static_assert(False, "never")  # REFUSED


@triton.jit
def refused_within(n):
    return tl.arange(0, 5) + n  # REFUSED


@triton.jit
def in_a_helper(out, n):
    tl.store(out, tl.sum(refused_within(n)))


REFUSED = [
    chained,
    block_as_a_condition,
    assigned_together,
    not_a_power_of_two,
    width_at_run_time,
    shape_at_run_time,
    too_many_elements,
    shapes_that_do_not_fit,
    bf16_maximum,
    fails_statically,
    in_a_helper,
]


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_what_the_compiler_refuses_is_refused_with_the_students_line(kernel):
    """Each is an error for the real compiler too, at the same line or for the same reason."""
    with pytest.raises((triton.CompilationError, TypeError)):
        source = ASTSource(kernel, {"out": "*fp32", "n": "i32"}, {})
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
    with (
        interpreting(Session()) as session,
        pytest.raises((ValueError, TypeError, UnsupportedLanguageConstruct, triton.CompilationError)) as caught,
    ):
        kernel[(1,)](torch.zeros(64), 3)
    lines, first = inspect.getsourcelines((refused_within if kernel is in_a_helper else kernel).fn)
    marked = next(first + i for i, line in enumerate(lines) if "REFUSED" in line)
    assert source_line(caught.value, session) == (__file__, marked)


def test_the_traceback_of_any_error_has_the_kernels_line():
    @triton.jit
    def kernel(
        out,
        n,
    ):
        text = """a string
        of two lines"""
        tl.store(out, text.no_such_attribute)  # this is line 7 of the kernel, counted from its decorator at 0

    with interpreting(Session()) as session, pytest.raises(AttributeError) as caught:
        kernel[(1,)](torch.zeros(1), 1)
    assert source_line(caught.value, session) == (__file__, inspect.getsourcelines(kernel.fn)[1] + 7)


def test_a_line_of_torch_or_of_the_launcher_is_not_the_kernels():
    with interpreting(Session()) as session, pytest.raises(TypeError) as caught:
        chained[(1,)]()
    assert source_line(caught.value, session) is None
