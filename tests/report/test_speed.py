"""What is said of a measurement, to whom."""

from __future__ import annotations

import msgspec
import pytest

from tests.speed_readings import reading
from warpgrade.course import Assignment, Exercise, Form, Speed
from warpgrade.judge.marks import speed_mark
from warpgrade.judge.verdict import (
    DeviceState,
    Environment,
    ExerciseVerdict,
    Outcome,
    TestKind,
    Tier,
    Verdict,
)
from warpgrade.report.cell import cell_text
from warpgrade.report.speed import provenance_lines, speed_lines
from warpgrade.report.text import render, table


def test_a_student_reads_how_fast_how_sure_and_on_what():
    assert speed_lines(reading(0.63)) == [
        "63.0% of the speed of a copy (95% interval: 62.7% to 63.3%)",
        # 9 GB in 2.25 / 0.63 ms
        "2,520 GB/s on one NVIDIA H200; full marks are from 80%",
    ]


def test_a_student_reads_why_it_took_several_attempts():
    assert speed_lines(reading(inconclusive_before=["The GPU was busy."]))[2:] == [
        "measured again because: The GPU was busy."
    ]


def test_a_ta_reads_every_block_and_the_state_of_the_gpu():
    text = "\n".join(provenance_lines(reading(0.63)))
    assert "NVIDIA H200, driver 580.1; threshold for h200" in text
    assert "candidate 3.571 ms, baseline 2.25 ms, 9,000,000,000 bytes to move; 4 launches a message" in text
    assert text.count("baseline: 18.3 ms a message") == 2
    assert "20 samples, 2 checked in full; canary 1 ms" in text
    assert "before: SM 1980 MHz, memory 3201 MHz, 40 °C, 0% of its time for others" in text
    assert "others were kept from the GPU for 1.4 s" in text


def test_what_slows_the_gpu_down_is_named_and_silence_is_said():
    slowed = reading(after=DeviceState(throttle_reasons=["sw_power_cap", "hw_thermal"]), before=DeviceState())
    text = "\n".join(provenance_lines(slowed))
    assert "before: the driver tells nothing" in text
    assert "after: slowed down by sw_power_cap, hw_thermal" in text


def test_nothing_of_it_needs_more_than_a_stored_verdict():
    one = reading(0.7)
    again = msgspec.json.decode(msgspec.json.encode(one), type=type(one))
    assert speed_lines(again) == speed_lines(one)
    assert provenance_lines(again) == provenance_lines(one)


# --- where it is said ----------------------------------------------------------------------------------------------

EXERCISE = Exercise(
    title="Add", points=10, form=Form.KERNEL, signature="", summary="", arguments=[], id="add", speed=Speed("a copy", {})
)  # fmt: skip


def judged(outcome, **changes):
    tests = [
        Verdict(test=f"{kind} one", kind=kind, outcome=Outcome.PASSED, points=points)
        for kind, points in ((TestKind.PUBLIC, "3"), (TestKind.HIDDEN, "5"))
    ]
    bad = {} if outcome is Outcome.PASSED else {"sentence": "It runs at a part of the speed."}
    tests.append(Verdict(test="speed", kind=TestKind.SPEED, outcome=outcome, points="2", **bad, **changes))
    nowhere = Environment(warpgrade="", python="", torch="", triton="", numpy="")
    return ExerciseVerdict(
        assignment="a", exercise="add", tier=Tier.GPU, submission_digest="", suite_digest="", environment=nowhere,
        verdicts=tests,
    )  # fmt: skip


def cell(whole):
    return cell_text(EXERCISE, True, speed_mark(EXERCISE, whole), whole)


def report(whole, **options):
    assignment = Assignment(title="A", notebook="", exercises={"add": EXERCISE}, name="a")
    return render(table(assignment, {"add": whole}, **options))


def test_the_speed_cell_shows_marks_and_measurement():
    assert cell(judged(Outcome.PASSED, reading=reading(0.91))).startswith("Add (speed): 2 of 2 points")
    assert "91.0% of the speed" in cell(judged(Outcome.PASSED, reading=reading(0.91)))
    slow = cell(judged(Outcome.TOO_SLOW, reading=reading(0.6)))
    assert slow.startswith("Add (speed): 1 of 2 points")
    assert "60.0% of the speed" in slow
    assert "It runs at a part of the speed." in slow


@pytest.mark.parametrize("secret", ["9,000,000,000", "canary", "driver", "4 launches"])
def test_provenance_is_a_tas(secret):
    slow = judged(Outcome.TOO_SLOW, reading=reading(0.6))
    assert secret not in cell(slow)
    assert secret not in report(slow)
    assert secret in " ".join(report(slow, evidence=True).split())


def test_the_table_shows_the_measurement():
    shown = report(judged(Outcome.TOO_SLOW, reading=reading(0.6)))
    assert "60.0% of the speed of a copy" in shown
    assert "too_slow" in shown
    assert "speed 1/2" in shown


def test_the_table_says_why_there_is_none():
    assert "a part of the speed" in report(judged(Outcome.INCONCLUSIVE))
    assert "a part of the speed" not in report(judged(Outcome.PENDING))
