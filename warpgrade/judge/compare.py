"""Is it right, and if not, in which way is it wrong? Comparison against an exact oracle, and classes of patterns.

The bound is `factor * u * sqrt(terms) * magnitude`, element by element: u is the unit roundoff of the declared
precision, `terms` the length of a sum, `magnitude` what the exact result is made of (sum of |a||b| for a dot product).
That is the probabilistic form of the standard error bound of a sum (Higham, Accuracy and Stability of Numerical
Algorithms, section 4.2, and Higham & Mary 2019): sqrt(n) u instead of n u.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome

#: Unit roundoff, half the distance from 1 to the next number: 2**-p for p bits of significand (bfloat16: 8).
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST_SUBNORMAL = {torch.float32: 2.0**-149, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
_SHOWN = 5
#: Relative error below which a wrong result is called inaccurate. bfloat16 keeps 0.4% and sums of it a little less.
_NEARLY_RIGHT = 0.02


def assert_close(
    actual: torch.Tensor,
    expected: torch.Tensor,
    *,
    precision: str = "float32",
    terms: int = 1,
    magnitude: torch.Tensor | None = None,
    factor: float = 4.0,
    inputs: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Raise a `wrong` Failure unless every element of `actual` is within the bound of `expected`.

    `expected` is exact, or float64. NaN must stand where `expected` has NaN and infinities must be equal. `factor`
    stands for what the bound leaves out; 4 unless the suite says why not. Raises ValueError for a suite's mistakes.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"the suite compares {tuple(actual.shape)} with {tuple(expected.shape)}")
    exact = expected.to(torch.float64)
    got = actual.to(torch.float64)
    size = exact.abs() if magnitude is None else magnitude.to(torch.float64)
    bound = factor * UNIT_ROUNDOFF[precision] * math.sqrt(max(terms, 1)) * size
    # Below the smallest subnormal a dtype has nothing to be near with.
    bound = bound.clamp(min=SMALLEST_SUBNORMAL.get(actual.dtype, 0.0))
    finite = exact.isfinite()
    if not bool(bound[finite].isfinite().all()):
        raise ValueError("the suite's magnitude is not finite where the expected value is: everything would pass")
    error = (got - exact).abs()
    # Where infinity is expected the bound is infinite too, and must not count.
    fits = (finite & (error <= bound)) | (got.isnan() & exact.isnan()) | (got == exact)
    _report(actual, expected, ~fits, error / bound.clamp(min=torch.finfo(torch.float64).tiny), inputs or {})


def assert_identical(
    actual: torch.Tensor, expected: torch.Tensor, *, inputs: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Raise a `wrong` Failure unless both hold the same numbers bit by bit: -0.0 is not 0.0, NaN equals any NaN."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise ValueError(
            f"the suite compares {actual.dtype} {tuple(actual.shape)} with {expected.dtype} {expected.shape}"
        )
    same = actual == expected
    if actual.dtype.is_floating_point:
        same = (same & (actual.signbit() == expected.signbit())) | (actual.isnan() & expected.isnan())
    _report(actual, expected, ~same, None, inputs or {})


def _report(
    actual: torch.Tensor,
    expected: torch.Tensor,
    bad: torch.Tensor,
    ratio: torch.Tensor | None,
    inputs: Mapping[str, torch.Tensor],
) -> None:
    count = int(bad.sum())
    if not count:
        return
    where = torch.nonzero(bad)[:_SHOWN]
    rows = [
        f"{index} got {actual[tuple(index)].item()!r}, expected {expected[tuple(index)].item()!r}"
        for index in where.tolist()
    ]
    evidence = {
        "mismatches": f"{count} of {bad.numel()} elements",
        "first mismatches": "; ".join(rows),
        "shape": str(tuple(actual.shape)),
    }
    if ratio is not None:
        finite = ratio[bad & ratio.isfinite()]
        if len(finite):
            evidence["largest error"] = f"{float(finite.max()):.3g} times the tolerance"
    pattern = pattern_of(actual, expected, bad, ratio, inputs)
    raise Failure(
        Outcome.WRONG, "The result is wrong" + (f": {pattern}." if pattern else "."), pattern, evidence=evidence
    )


def pattern_of(
    actual: torch.Tensor,
    expected: torch.Tensor,
    bad: torch.Tensor,
    ratio: torch.Tensor | None = None,
    inputs: Mapping[str, torch.Tensor] | None = None,
) -> str:
    """In which way `actual` is wrong: a clause for the student that says where to look and holds no size or value.

    `bad` marks the wrong elements, `ratio` their error in tolerances. "" where nothing is known.
    """
    got, exact = actual.to(torch.float64), expected.to(torch.float64)
    for name, tensor in (inputs or {}).items():
        if tensor.shape == actual.shape and torch.equal(tensor.to(torch.float64), got) and not torch.equal(got, exact):
            return f"it is a copy of {name}"
    special = ~exact.isfinite()
    if bool((bad & special).any()) and not bool((bad & ~special).any()):
        return "only results that should be NaN or infinite are wrong"
    if bool(got[bad].isnan().all()) and bool(exact[bad].isfinite().all()):
        subject = _place(bad) or "where numbers belong there is"
        return f"{subject} NaN: never written, or computed from memory never written"
    if bad.numel() > 1 and bool((got == 0).all()):
        return "every element is zero"
    if bad.numel() > 2 and bool((got == got.flatten()[0]).all()):
        return "every element is the same"
    if torch.allclose(got[bad], -exact[bad], rtol=1e-3, atol=0.0):
        return "the sign is wrong"
    if ratio is not None and bool(((got - exact).abs() <= _NEARLY_RIGHT * exact.abs())[bad].all()):
        return "it is about right, but less accurate than the contract asks"
    for pattern in (_shifted(got, exact), _transposed(got, exact), _scaled(got, exact, bad)):
        if pattern:
            return pattern
    place = _place(bad)
    return f"only {place} wrong" if place else ("every element is wrong" if bool(bad.all()) else "")


def _place(bad: torch.Tensor) -> str:
    """Where the wrong elements lie, as 'the end is' or 'the last column is'; "" if nowhere in particular."""
    flat = bad.flatten()
    count = int(flat.sum())
    if count == flat.numel() or flat.numel() < 2:
        return ""
    if bad.dim() == 2:
        rows, columns = bad.all(1), bad.all(0)
        if bool(columns[-1]) and int(columns.sum()) == 1 and count == bad.shape[0]:
            return "the last column is"
        if bool((bad == columns).all()) and bool(columns.any()):
            return "some columns are" if not _is_tail(columns) else "the last columns are"
        if bool((bad == rows[:, None]).all()) and bool(rows.any()):
            return "some rows are" if not _is_tail(rows) else "the last rows are"
    if _is_tail(flat):
        most = count > flat.numel() / 2
        return "everything after the beginning is" if most else "the end, where the last block is not full, is"
    if _is_tail(flat.flip(0)):
        return "the beginning is"
    indices = torch.nonzero(flat).flatten()
    if count > 2:
        steps = indices.diff()
        if bool((steps == steps[0]).all()) and int(steps[0]) > 1:
            return "every so many elements one is"
    return ""


def _is_tail(flat: torch.Tensor) -> bool:
    count = int(flat.sum())
    return 0 < count < flat.numel() and bool(flat[-count:].all())


def _shifted(got: torch.Tensor, exact: torch.Tensor) -> str:
    g, e = got.flatten(), exact.flatten()
    if len(g) > 3 and (torch.allclose(g[1:], e[:-1], rtol=1e-3) or torch.allclose(g[:-1], e[1:], rtol=1e-3)):
        return "the values are right, but each stands one place off"
    if len(g) > 3 and torch.allclose(g.sort().values, e.sort().values, rtol=1e-3):
        return "the values are right, but in another order"
    return ""


def _transposed(got: torch.Tensor, exact: torch.Tensor) -> str:
    square = got.dim() == 2 and got.shape[0] == got.shape[1] > 1
    return "it is transposed" if square and torch.allclose(got, exact.t(), rtol=1e-3) else ""


def _scaled(got: torch.Tensor, exact: torch.Tensor, bad: torch.Tensor) -> str:
    usable = bad & exact.isfinite() & got.isfinite() & (exact != 0)
    if int(usable.sum()) < 3 or not bool(bad.all()):
        return ""
    factors = got[usable] / exact[usable]
    return "every element is off by the same factor" if float(factors.std()) < 1e-3 * abs(float(factors.mean())) else ""
