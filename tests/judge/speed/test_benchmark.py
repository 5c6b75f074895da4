"""`benchmark` in a suite: what the declaration makes of it, and every way in which there is no reading."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
import torch

from tests.judge.speed import runners
from warpgrade.course import Argument, Exercise, Form, Return, Speed
from warpgrade.judge.failure import Failure
from warpgrade.judge.speed.benchmark import Benchmark, speed_sentence, threshold_for, workload
from warpgrade.judge.speed.protocol import ATTEMPTS
from warpgrade.judge.speed.simulated import H200, T4, SimulatedDevice
from warpgrade.judge.verdict import Outcome

THRESHOLDS = {"h200": 0.8, "t4": 0.7}


def tensor(name, shape, dtypes=("float32", "float16"), output=False):
    return Argument(name=name, kind="tensor", dtypes=list(dtypes), shape=list(shape), output=output)


def exercise(id_, arguments, returns=(), form=Form.FUNCTION, thresholds=THRESHOLDS):
    return Exercise(
        title=id_, points=4, form=form, signature=f"{id_}()", summary="", arguments=list(arguments), id=id_,
        returns=list(returns), speed=Speed("a copy", dict(thresholds)), assignment="a",
    )  # fmt: skip


ADD = exercise(
    "vector_add",
    [
        tensor("x", "n"), tensor("y", "n"), tensor("z", "n", output=True), Argument(name="n", kind="int"),
        Argument(name="BLOCK", kind="constexpr"),
    ],
    form=Form.KERNEL,
)  # fmt: skip
RELU = exercise("relu", [tensor("x", ["..."])], [Return(dtype="x", shape="x")])
ROW_SUM = exercise("row_sum", [tensor("x", "MN")], [Return(dtype="float32", shape=["M"])])


class SimulatedTiming:
    """Implements `Timing` with Runners of any behaviour."""

    def __init__(self, behave=runners.honest, efficiency=0.9, device=None):
        self.device = device or SimulatedDevice()
        self.behave, self.efficiency = behave, efficiency
        self.purposes = []
        self.holding = False
        self.baselines = set()

    def start(self, role, message, baseline):
        assert self.holding
        self.baselines.add(baseline)
        behave = {"noop": runners.trivial, "baseline": runners.honest, "candidate": self.behave}[role]
        return runners.Running(self.device, message, behave, self.efficiency if role == "candidate" else 1.0)

    @contextlib.contextmanager
    def alone(self, purpose):
        assert not self.holding
        self.holding = True
        self.purposes.append(purpose)
        try:
            yield
        finally:
            self.holding = False


def add(benchmark, **changes):
    arguments = {
        "check": runners.check_add, "moved_bytes": lambda n: 12 * n, "grid": lambda n: (-(-n // 1024),), "BLOCK": 1024
    } | changes  # fmt: skip
    benchmark(arguments.pop("check"), **arguments)


# --- readings ------------------------------------------------------------------------------------------------------


def test_fast_enough_passes_and_leaves_its_reading():
    timing = SimulatedTiming()
    benchmark = Benchmark(ADD, timing)
    add(benchmark)
    assert benchmark.reading.share == pytest.approx(0.9, rel=0.01)
    assert benchmark.reading.inconclusive_before == []
    assert timing.purposes == ["timing a/vector_add"]
    assert timing.baselines == {"copy"}
    assert not timing.holding


def test_too_slow_is_a_failure_with_its_reading():
    benchmark = Benchmark(ADD, SimulatedTiming(efficiency=0.6))
    with pytest.raises(Failure) as raised:
        add(benchmark)
    assert raised.value.outcome is Outcome.TOO_SLOW
    assert raised.value.reading.share == pytest.approx(0.6, rel=0.01)
    assert raised.value.sentence == (
        "It runs at 60% of the speed of a copy. Full marks are from 80%, and none at 40% and below."
    )
    assert speed_sentence(raised.value.reading) == raised.value.sentence


def test_the_threshold_is_the_one_of_this_gpu():
    benchmark = Benchmark(ADD, SimulatedTiming(efficiency=0.75, device=SimulatedDevice(T4)))
    add(benchmark)
    assert (benchmark.reading.threshold, benchmark.reading.threshold_for) == (0.7, "t4")


# --- none ----------------------------------------------------------------------------------------------------------


def test_without_a_gpu_it_is_pending():
    with pytest.raises(Failure) as raised:
        add(Benchmark(ADD, None))
    assert raised.value.outcome is Outcome.PENDING


def test_on_a_gpu_without_a_threshold_it_is_pending():
    of = exercise("vector_add", ADD.arguments, form=Form.KERNEL, thresholds={"mi300": 0.5})
    with pytest.raises(Failure) as raised:
        add(Benchmark(of, SimulatedTiming()))
    assert raised.value.outcome is Outcome.PENDING
    assert "NVIDIA H200" in raised.value.sentence


def test_where_memory_is_short_it_is_pending():
    timing = SimulatedTiming(device=SimulatedDevice(replace(H200, free_bytes=H200.free_bytes // 10)))
    with pytest.raises(Failure) as raised:
        add(Benchmark(ADD, timing))
    assert raised.value.outcome is Outcome.PENDING


def test_a_gpu_that_vanishes_is_a_fault():
    with pytest.raises(Failure) as raised:
        add(Benchmark(ADD, SimulatedTiming(device=SimulatedDevice(vanishes_s=0.3))))
    assert raised.value.outcome is Outcome.FAULT
    assert "not the submission's fault" in raised.value.sentence


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.WRONG])
def test_a_worker_that_ends_while_it_is_timed_may_have_been_disturbed(outcome):
    def fails(runner, launches):
        raise Failure(outcome, "so")

    benchmark = Benchmark(ADD, SimulatedTiming(fails))
    with pytest.raises(Failure):
        add(benchmark)
    assert benchmark.disturbed == (outcome is not Outcome.WRONG)


def test_inconclusive_is_tried_again_and_then_a_persons():
    timing = SimulatedTiming(device=SimulatedDevice(slowdown=lambda now_s: 1.3))
    with pytest.raises(Failure) as raised:
        add(Benchmark(ADD, timing))
    assert raised.value.outcome is Outcome.INCONCLUSIVE
    assert len(timing.purposes) == ATTEMPTS == len(raised.value.evidence)


def test_a_neighbour_who_goes_away_costs_an_attempt():
    timing = SimulatedTiming(device=SimulatedDevice(slowdown=lambda now_s: 1.3 if now_s < 0.5 else 1.0))
    benchmark = Benchmark(ADD, timing)
    add(benchmark)
    assert len(timing.purposes) == 2
    assert len(benchmark.reading.inconclusive_before) == 1
    assert benchmark.reading.share == pytest.approx(0.9, rel=0.01)


def test_faster_than_possible_is_not_tried_again():
    timing = SimulatedTiming(efficiency=2.0)
    with pytest.raises(Failure) as raised:
        add(Benchmark(ADD, timing))
    assert raised.value.outcome is Outcome.INCONCLUSIVE
    assert len(timing.purposes) == 1
    assert "person" in raised.value.sentence


def test_wrong_while_timed_is_not_tried_again():
    timing = SimulatedTiming(runners.zeros_at_the_end)
    with pytest.raises(Failure) as raised:
        add(Benchmark(ADD, timing))
    assert raised.value.outcome is Outcome.WRONG
    assert len(timing.purposes) == 1


def test_memory_is_given_back_whatever_happens():
    timing = SimulatedTiming(device=SimulatedDevice(slowdown=lambda now_s: 1.3))
    for _ in range(3):  # three attempts each: nine times the memory would not fit
        with pytest.raises(Failure) as raised:
            add(Benchmark(ADD, timing))
        assert raised.value.outcome is Outcome.INCONCLUSIVE


# --- from the declaration ------------------------------------------------------------------------------------------


def made(of, size=64, check=None, **changes):
    arguments = {"sizes": {}, "moved_bytes": lambda n: 12 * n, "grid": None, "normal": {}} | changes
    return workload(
        of, size, arguments["sizes"], check or (lambda out, x: None), arguments["moved_bytes"], arguments["grid"],
        arguments["normal"],
    )  # fmt: skip


def test_a_kernels_outputs_and_scalars_are_declared():
    one = made(ADD, check=runners.check_add, sizes={"BLOCK": 1024}, grid=lambda n: (n // 2,))
    assert list(one.inputs) == ["x", "y"]
    assert list(one.outputs) == ["z"]
    assert one.scalars == {"n": 64, "BLOCK": 1024}
    assert one.grid == (32,)
    assert one.divided == {"x", "y", "z"}
    assert one.signature == ("x", "y", "z", "n", "BLOCK")
    assert one.moved_bytes == 12 * 64


def test_a_functions_results_follow_its_inputs():
    one = made(RELU)
    assert one.grid is None
    assert (one.outputs["result 1"].shape, one.outputs["result 1"].dtype) == ((64,), torch.float32)


def test_a_result_of_fewer_dimensions():
    one = made(ROW_SUM, sizes={"N": 128}, normal={"x": (1.0, 2.0)})
    assert one.inputs["x"].shape == (64, 128)
    assert (one.inputs["x"].mean, one.inputs["x"].std) == (1.0, 2.0)
    assert one.outputs["result 1"].shape == (64,)
    assert one.divided == {"x", "result 1"}


@pytest.mark.parametrize(
    ("of", "changes", "text"),
    [
        (ROW_SUM, {}, "one size free"),
        (ROW_SUM, {"sizes": {"M": 1, "N": 1}}, "one size free"),
        (ROW_SUM, {"sizes": {"N": 1, "K": 3}}, "K, which is not declared"),
        (ROW_SUM, {"sizes": {"N": 1}, "normal": {"y": (0.0, 1.0)}}, "y, which is not declared"),
        (ROW_SUM, {"sizes": {"N": 1}, "check": lambda x: None}, "has to take result 1, x"),
        (ADD, {}, "no value for BLOCK"),
        (exercise("f", [tensor("x", "n")]), {}, "declares no tensor"),
        (exercise("f", [tensor("x", "n", ["int64"])], [Return(dtype="x", shape="x")]), {}, "floating-point"),
    ],
)
def test_what_does_not_fit_the_declaration_is_the_suites_mistake(of, changes, text):
    with pytest.raises(TypeError, match=text):
        made(of, **changes)


def test_a_suites_mistake_is_seen_without_a_gpu():
    with pytest.raises(TypeError):
        Benchmark(ADD, None)(runners.check_add, moved_bytes=lambda n: n)


@pytest.mark.parametrize(
    ("gpu", "column"),
    [
        ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h200"), ("Tesla T4", "t4"), ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA L4", "default"), ("NVIDIA T400", "default"), ("NVIDIA RTX A1000", "default"),
    ],
)  # fmt: skip
def test_a_gpu_finds_its_column_by_a_whole_word_of_its_name(gpu, column):
    speed = Speed("a copy", {"h200": 0.8, "a100": 0.7, "t4": 0.6, "default": 0.5})
    assert threshold_for(speed, gpu).column == column
    assert threshold_for(speed, gpu).share == speed.thresholds[column]


def test_without_a_default_other_gpus_have_no_threshold():
    assert threshold_for(Speed("a copy", {"h200": 0.8}), "NVIDIA L4") is None
