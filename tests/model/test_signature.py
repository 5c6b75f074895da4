from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.model.compiled_kernels import add, copy_by_descriptor, matmul, of_tuples
from warpgrade.model.signature import TensorStandIn, jit_function, specialisations, specialise

F32 = torch.zeros(64)
DIVISIBLE = [["tt.divisibility", 16]]


@triton.jit
def of_everything(x, n, f, flag, nothing, BLOCK: tl.constexpr):
    pass


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["x"])
def held_back(x, n):
    pass


@triton.jit
def annotated(x: "*fp32", n: tl.int64, f: tl.float64, small: tl.int8):  # noqa: F722
    pass


@triton.jit
def with_default(x, n=48, BLOCK: tl.constexpr = 32):
    pass


def descriptor() -> TensorDescriptor:
    return TensorDescriptor.from_tensor(torch.zeros(64, 64, dtype=torch.float16), [32, 16])


LAUNCHES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "aligned": (add, (F32, F32, F32, 64), {"BLOCK": 16}),
    "offset by four bytes": (add, (F32[1:], F32, F32, 63), {"BLOCK": 16}),
    "options": (add, (F32, F32, F32, 64), {"BLOCK": 16, "num_warps": 8, "num_stages": 2, "maxnreg": 64}),
    "an integer of one": (add, (F32, F32, F32, 1), {"BLOCK": 16}),
    "zero": (add, (F32, F32, F32, 0), {"BLOCK": 16}),
    "negative": (add, (F32, F32, F32, -16), {"BLOCK": 16}),
    "past 31 bits": (add, (F32, F32, F32, 2**31), {"BLOCK": 16}),
    "past 63 bits": (add, (F32, F32, F32, 2**63), {"BLOCK": 16}),
    "every kind": (of_everything, (F32, 17, 0.5, True, None, 16), {}),
    "a constant dtype": (of_everything, (F32, 17, 0.5, False, None), {"BLOCK": tl.float16}),
    "held back": (held_back, (F32, 16), {}),
    "annotated": (annotated, (F32, 16, 2.0, 16), {}),
    "defaults": (with_default, (F32,), {}),
    "a tuple": (of_tuples, ((F32, F32[1:]), (48, 1), 128), {}),
    "a descriptor": (copy_by_descriptor, (descriptor(), descriptor(), 32, 16), {}),
} | {
    str(dtype): (add, (torch.zeros(8, dtype=dtype), F32, F32, 64), {"BLOCK": 16})
    for dtype in (
        torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int16,
        torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip


class NoGpu:
    """A driver that only says which GPU there would be."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


@pytest.mark.parametrize("name", LAUNCHES)
def test_what_a_real_launch_would_compile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's own launch, stopped by its own hook where it would start to compile."""
    kernel, arguments, keywords = LAUNCHES[name]
    seen: dict[str, Any] = {}

    def stop(*, compile: dict[str, Any], **_: Any) -> bool:
        seen.update(compile)
        return True

    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", stop)
    kernel.device_caches.clear()
    monkeypatch.setattr(driver, "_active", NoGpu())
    kernel.run(*arguments, grid=(1,), warmup=False, **keywords)
    kernel.device_caches.clear()
    ours = specialise(kernel, arguments, keywords)
    assert ours.signature == seen["signature"]
    assert ours.constants == seen["constants"]
    assert ours.attributes == seen["configs"][0]
    # What is not given is Triton's to choose: its CUDAOptions.
    defaults = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
    assert {name: ours.options.get(name, default) for name, default in defaults.items()} == {
        name: seen[name] for name in defaults
    }


def test_types_constants_and_alignment_of_one_launch() -> None:
    """By hand, so that the comparison above is not the only witness."""
    found = specialise(of_everything, (F32[4:], 17, 0.5, True, None, 16), {"num_warps": 2})
    assert found.signature == {
        "x": "*fp32", "n": "i32", "f": "fp32", "flag": "u1", "nothing": "constexpr", "BLOCK": "constexpr",
    }  # fmt: skip
    assert found.constants == {(4,): None, (5,): 16}
    assert found.attributes[0,] == DIVISIBLE  # 4 float32 are 16 bytes
    assert found.options == {"num_warps": 2}
    assert found.unaligned == ("n",)  # 17


def test_one_is_a_constant_and_not_counted_as_unaligned() -> None:
    found = specialise(matmul, (F32, F32, F32, 64, 64, 30, 30, 1, 64, 1, 64, 1, 16, 16, 16), {})
    assert found.constants[7,] == 1
    assert found.unaligned == ("K", "sam")


def test_unaligned_arguments_of_a_tuple_have_names_of_their_own() -> None:
    found = specialise(of_tuples, ((F32, F32[1:]), (17, 32), 128), {})
    assert found.unaligned == ("pointers[1]", "sizes[0]")
    assert found.unaligned_pointers == ("pointers[1]",)


def test_assuming_alignment_gives_what_an_aligned_launch_gives() -> None:
    ragged = specialise(add, (F32[1:], F32, F32, 63), {"BLOCK": 16})
    assert ragged.unaligned == ("x", "n")
    aligned = specialise(add, (F32, F32, F32, 64), {"BLOCK": 16})
    assert ragged.assuming_aligned(["x", "n"]) == aligned
    assert ragged.assuming_aligned(["x"]).unaligned == ("n",)


def test_integers_of_64_bits_are_named() -> None:
    assert specialise(add, (F32, F32, F32, 2**31), {"BLOCK": 16}).wide_integers == ("n",)
    assert specialise(add, (F32, F32, F32, 2**31 - 1), {"BLOCK": 16}).wide_integers == ()


def test_a_stand_in_counts_like_the_tensor() -> None:
    stand_ins = [TensorStandIn(torch.float32, (64,), address=address) for address in (4, 16, 32)]
    found = specialise(add, (*stand_ins, 64), {"BLOCK": 16})
    assert found == specialise(add, (F32[1:], F32, F32, 64), {"BLOCK": 16})
    assert stand_ins[0].stride() == (1,) and stand_ins[0].stride(0) == 1


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "text"),
    [
        ((F32, F32), {}, TypeError, r"^add\(\) missing 3 required"),
        ((F32, F32, F32, "64"), {"BLOCK": 16}, TypeError, "str"),
        ((F32, F32, F32, 64), {"BLOCK": 16, "num_wraps": 8}, KeyError, "num_wraps"),
        ((F32, F32, F32, 64), {"BLOCK": 16, "num_warps": 3}, ValueError, "power of 2"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused(
    arguments: tuple[Any, ...], keywords: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        specialise(add, arguments, keywords)


def test_a_plain_function_is_no_kernel() -> None:
    with pytest.raises(TypeError, match=r"plain is not a @triton\.jit function"):
        jit_function(plain)


def plain() -> None: ...


# --- autotune and heuristics --------------------------------------------------------------------------------------

CONFIGS = [
    triton.Config({"BLOCK": 128}, num_warps=4),
    triton.Config({"BLOCK": 256}, num_warps=8, num_stages=2),
]


def test_each_configuration_of_an_autotuner_is_a_version() -> None:
    tuned = triton.autotune(CONFIGS, key=["n"])(add)
    first, second = specialisations(tuned, (F32, F32, F32, 64), {})
    assert first.constants[4,] == 128 and first.options["num_warps"] == 4
    assert second.constants[4,] == 256 and second.options == second.options | {"num_warps": 8, "num_stages": 2}
    assert "BLOCK: 256" in second.config
    assert specialise(tuned, (F32, F32, F32, 64), {}, config=1) == second
    with pytest.raises(ValueError, match="2 configurations"):
        specialise(tuned, (F32, F32, F32, 64), {})


def test_pruning_sees_the_arguments_and_is_obeyed() -> None:
    def prune(configs: list[Any], named: dict[str, Any], **_: Any) -> list[Any]:
        return [config for config in configs if config.kwargs["BLOCK"] <= named["n"]]

    tuned = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": prune})(add)
    (only,) = specialisations(tuned, (F32, F32, F32, 128), {})
    assert only.constants[4,] == 128


def test_a_value_given_twice_is_refused() -> None:
    tuned = triton.autotune(CONFIGS, key=["n"])(add)
    with pytest.raises(ValueError, match="BLOCK"):
        specialisations(tuned, (F32, F32, F32, 64), {"BLOCK": 64})


@pytest.mark.parametrize("outer_first", [True, False])
def test_heuristics_around_and_below_an_autotuner(outer_first: bool) -> None:
    tune = triton.autotune([triton.Config({"BM": 32, "BN": 64}), triton.Config({"BM": 64, "BN": 64})], key=["K"])
    even = triton.heuristics({"BK": lambda named: 32 if named["K"] % 32 == 0 else 16})
    kernel = even(tune(matmul)) if outer_first else tune(even(matmul))
    for K, expected in ((64, 32), (48, 16)):
        found = specialisations(kernel, (F32, F32, F32, 64, 64, K, K, 1, 64, 1, 64, 1), {})
        assert [version.constants[14,] for version in found] == [expected, expected]
        assert [version.constants[12,] for version in found] == [32, 64]


def test_a_configuration_may_set_the_shape_of_a_descriptor_first() -> None:
    """As in Triton's tutorial of a persistent matmul: the host makes a descriptor, the autotuner knows its block."""

    def set_shape(named: dict[str, Any]) -> None:
        for name in ("source", "target"):
            named[name].block_shape = [named["BM"], named["BN"]]

    config = triton.Config({"BM": 16, "BN": 64}, pre_hook=set_shape)
    tuned = triton.autotune([config], key=[])(copy_by_descriptor)
    found = specialise(tuned, (descriptor(), descriptor()), {})
    assert found.signature["source"].replace(" ", "") == "tensordesc<fp16[16,64]>"


def test_the_private_names_of_triton_that_the_signature_rests_on() -> None:
    from triton.runtime import jit
    from triton.runtime.autotuner import Autotuner, Heuristics

    look = "look at warpgrade/model/signature.py"
    assert callable(getattr(jit, "create_function_from_signature", None)), look
    assert callable(getattr(jit.JITFunction, "_pack_args", None)), look
    assert hasattr(add, "params") and hasattr(add, "debug"), look
    tuned = triton.autotune(CONFIGS, key=[])(add)
    assert isinstance(tuned, Autotuner) and hasattr(tuned, "prune_configs") and tuned.configs == CONFIGS, look
    assert isinstance(triton.heuristics({"n": len})(add), Heuristics), look
