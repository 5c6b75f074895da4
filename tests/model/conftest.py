"""Fixtures of the model tier's tests."""

import pytest
import torch

from warpgrade.model.interpreter import install, interpreting
from warpgrade.model.sanitizer import Session


@pytest.fixture(autouse=True, scope="session")
def installed():
    install()
    torch.set_num_threads(1)


@pytest.fixture
def clean():
    """Kernels launched in the test run interpreted; the test fails if the sanitizer finds anything."""
    torch.manual_seed(0)
    with interpreting(Session(seed=1)) as session:
        yield session
    assert session.findings == []
    assert session.launches


#: Unit roundoff: what rounding a result once to the type may cost, relative to it.
ROUNDING = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@pytest.fixture
def near():
    """`near(actual, exact, work)`: `exact` is in fp64 or integers; `work` bounds the error made before the last rounding."""

    def check(actual, exact, work=0.0):
        if not actual.dtype.is_floating_point:
            assert torch.equal(actual.long(), exact.long())
            return
        exact = exact.double()
        work = torch.as_tensor(work, dtype=torch.float64)
        smallest = 2.0**-25 if actual.dtype == torch.float16 else 0.0  # half a denormal
        allowed = work + ROUNDING[actual.dtype] * (exact.abs() + work) + smallest
        error = (actual.double() - exact).abs()
        assert (error <= allowed).all(), (
            f"largest error {error.max():.3g}, {(error / allowed).max():.2f} of what is allowed"
        )

    return check
