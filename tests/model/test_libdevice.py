"""NVIDIA's libdevice and what else only a GPU has, in interpreted kernels."""

import math
import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import erf as imported_erf

from warpgrade.model.findings import NotInterpreted
from warpgrade.model.interpreter import interpreting, source_line
from warpgrade.model.libdevice import calculate
from warpgrade.model.sanitizer import Session


@triton.jit
def of_one(x, out, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = getattr(libdevice, NAME)(tl.load(x + offsets, mask=offsets < n, other=1.0))
    tl.store(out + offsets, value, mask=offsets < n)


def run(name, values, result=torch.float32, dtype=torch.float32):
    x = torch.tensor(values, dtype=dtype)
    out = torch.zeros(len(values), dtype=result)
    with interpreting(Session()) as session:
        of_one[(1,)](x, out, len(values), NAME=name, BLOCK=triton.next_power_of_2(len(values)))
    assert not session.findings
    return out


VALUES = [-3.5, -1.0, -0.5, -0.25, 0.25, 0.5, 0.75, 1.5, 2.5, 6.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("name", "exact"),
    {
        "erf": math.erf, "erfc": math.erfc, "sinpi": lambda v: math.sin(math.pi * v), "cosh": math.cosh,
        "cospi": lambda v: math.cos(math.pi * v), "round": lambda v: math.copysign(math.floor(abs(v) + 0.5), v),
        "rint": round, "exp10": lambda v: 10.0**v, "tgamma": lambda v: math.gamma(v) if v != -1 else math.nan,
        "lgamma": lambda v: math.lgamma(v) if v != -1 else math.inf, "logb": lambda v: math.frexp(v)[1] - 1.0,
        "normcdf": lambda v: 0.5 * math.erfc(-v / 2**0.5), "rcbrt": lambda v: math.copysign(abs(v) ** (-1 / 3), v),
        "erfcx": lambda v: math.exp(v * v) * math.erfc(v), "saturatef": lambda v: min(max(v, 0.0), 1.0),
        "rcp_rn": lambda v: 1 / v, "fast_expf": math.exp, "trunc": math.trunc,
    }.items(),
)  # fmt: skip
def test_a_function_of_one_number_is_the_function_of_that_name(name, exact, dtype):
    if dtype == torch.float64 and name in ("saturatef", "fast_expf"):
        with pytest.raises(TypeError, match=f"libdevice.{name} does not take fp64"):
            run(name, VALUES, dtype, dtype)
        return
    expected = torch.tensor([exact(value) for value in VALUES], dtype=torch.float64)
    # CUDA's tables of errors allow most of these a few units in the last place, tgamma and lgamma up to ten.
    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        run(name, VALUES, dtype, dtype).double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "isnan": [0, 1, 0, 0, 0], "isinf": [0, 0, 1, 1, 0], "finitef": [1, 0, 0, 0, 1], "signbit": [0, 0, 0, 1, 1],
        "float2int_rn": [2, 0, 2**31 - 1, -(2**31), -4], "float2int_rd": [2, 0, 2**31 - 1, -(2**31), -4],
        "float2int_ru": [3, 0, 2**31 - 1, -(2**31), -3], "float2int_rz": [2, 0, 2**31 - 1, -(2**31), -3],
        "float_as_int": [0x40200000, 0x7FC00000, 0x7F800000, 0xFF800000 - 2**32, 0xC0600000 - 2**32],
        "ilogb": [1, -(2**31), 2**31 - 1, 2**31 - 1, 1],
    }.items(),
)  # fmt: skip
def test_what_a_float_is_and_becomes(name, expected):
    assert run(name, [2.5, math.nan, math.inf, -math.inf, -3.5], torch.int32).tolist() == expected


@triton.jit
def of_integers(x, out, NAME: tl.constexpr):
    offsets = tl.arange(0, 4)
    tl.store(out + offsets, getattr(libdevice, NAME)(tl.load(x + offsets)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["popc", "clz", "ffs", "brev", "abs"])
def test_integers(name, dtype):
    values, bits = [1, 0, -2, 12], torch.iinfo(dtype).bits
    texts = [f"{value % 2**bits:0{bits}b}" for value in values]
    expected = {
        "popc": [text.count("1") for text in texts],
        "clz": [len(text) - len(text.lstrip("0")) for text in texts],
        "ffs": [len(text) - text.rfind("1") if "1" in text else 0 for text in texts],
        "brev": [(int(text[::-1], 2) ^ 1 << (bits - 1)) - (1 << (bits - 1)) for text in texts],
        "abs": [abs(value) for value in values],
    }[name]
    out = torch.zeros(4, dtype=torch.int64)
    with interpreting(Session()):
        of_integers[(1,)](torch.tensor(values, dtype=dtype), out, NAME=name)
    assert out.tolist() == expected


def test_products_keep_their_upper_halves():
    a, b = np.array([2**31 - 1, -5], np.int32), np.array([2**31 - 1, 3], np.int32)
    assert calculate("__nv_mulhi", [a, b]).tolist() == [(2**31 - 1) ** 2 >> 32, -1]
    assert calculate("__nv_mul64hi", [a.astype(np.int64) << 32, b.astype(np.int64) << 32]).tolist() == [
        (2**31 - 1) ** 2, -15,
    ]  # fmt: skip


def test_a_fused_multiply_add_rounds_once():
    x = np.array([1 + 2.0**-12], np.float32)  # its square needs a bit more than fp32 has
    assert calculate("__nv_fmaf", [x, x, -np.ones(1, np.float32)]).tolist() == [2.0**-11 + 2.0**-24]
    assert calculate("__nv_fmaf_rn", [x, x, -np.ones(1, np.float32)]).tolist() == [2.0**-11 + 2.0**-24]


@triton.jit
def with_an_imported_name(x, out):
    offsets = tl.arange(0, 4)
    tl.store(out + offsets, imported_erf(tl.load(x + offsets)))


def test_a_name_imported_out_of_libdevice():
    x, out = torch.linspace(-1, 1, 4), torch.zeros(4)
    with interpreting(Session()):
        with_an_imported_name[(1,)](x, out)
    torch.testing.assert_close(out, torch.erf(x))


@triton.jit
def garbage(x, out, n):
    offsets = tl.arange(0, 4)
    tl.store(out + offsets, libdevice.tanh(tl.load(x + offsets, mask=offsets < n)))


def test_garbage_stays_garbage_in_libdevice():
    with interpreting(Session()) as session:
        garbage[(1,)](torch.ones(3), torch.zeros(4), 3)
    assert [finding.kind for finding in session.findings] == ["undefined"]


# --- what is not there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add_ru", "rcp_rz", "double2float_rd"])
def test_a_function_that_numpy_has_not(name):
    values = [np.ones(1, np.float64)] * (2 if name == "add_ru" else 1)
    symbol = name if name[0] == "d" else f"d{name}"
    with pytest.raises(NotInterpreted, match="only a GPU"):
        calculate(f"__nv_{symbol}", values)


@triton.jit
def with_assembly(x, out):
    offsets = tl.arange(0, 4)
    value = tl.load(x + offsets)
    doubled = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [value], tl.float32, is_pure=True, pack=1)
    tl.store(out + offsets, doubled)


def test_assembly_is_no_kernel_that_is_not_written_yet():
    with interpreting(Session()) as session, pytest.raises(NotInterpreted) as caught:
        with_assembly[(1,)](torch.ones(4), torch.zeros(4))
    assert re.search(r"cannot be interpreted, so only a GPU can run this kernel", str(caught.value))
    found = source_line(caught.value, session)
    assert found is not None
    assert found[0] == __file__


@triton.jit
def not_written(x):
    raise NotImplementedError("here")


def test_a_kernel_that_is_not_written_says_so_itself():
    with interpreting(Session()), pytest.raises(NotImplementedError, match="here"):
        not_written[(1,)](torch.ones(4))
