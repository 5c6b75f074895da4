"""Each cheat earns nothing, and would have been worth its while without the defence that is there for it.

The simulated twin of `benchmarks/timing_attacks.py`. A cheat's kernel is honestly worth nothing, as
the first test says; with the defence off it earns marks.
What cannot be tried by switching something off, because it is no check but how things are: patched timers (26; the
clock is the Judge's, in another process), super-batches of single calls (17; a message is timed as a whole), a slow
warm-up to get fewer samples (28; counts are fixed).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.speed import runners
from warpgrade.judge.failure import Failure
from warpgrade.judge.marks import speed_share
from warpgrade.judge.speed.device import DoesNotFit
from warpgrade.judge.speed.message import Defences
from warpgrade.judge.speed.protocol import Inconclusive
from warpgrade.judge.speed.simulated import SimulatedDevice
from warpgrade.judge.verdict import Outcome

#: Of the baseline's speed; full marks are from 0.8, none at 0.4.
HONESTLY = 0.38


class Polling(runners.Running):
    """(66) A kernel that never ended looks at the inputs, and begins as soon as they are there."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._begun = False
        fill = self.device.poison_
        runner = self

        def poisoned(tensor, word):
            fill(tensor, word)  # the last thing that the Judge queues
            if not runner.closed and runner.calls:
                runner.begin()

        self.device.poison_ = poisoned

    def begin(self):
        self._begun = True
        self.device.synchronize()
        for launch in self.message.launches:
            self.add(launch)
        self.wait()

    def run(self, launches):
        if self._begun:
            self.calls, self._begun = self.calls + 1, False
            for launch in launches:
                self.pretend(launch)
            self.wait()
        else:
            super().run(launches)


class Hogging(runners.Running):
    """(27, 67) Keeps the GPU busy whenever somebody else's messages are timed."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        device, runner = self.device, self
        work = device.work

        def slowed(process, quiet_s, effect=None):
            hogged = not runner.closed and isinstance(process, runners.Running) and process is not runner
            work(process, quiet_s * (4 if hogged else 1), effect)

        device.work = slowed


#: name: how it behaves, what the Worker is, what becomes of it, which defences it would take to be off
CHEATS = {
    "cache by pointer": (runners.cached_by_pointer, None, Outcome.WRONG, {"fresh_inputs"}),
    "cache by content": (runners.cached_by_content, None, "no marks", {"fresh_inputs"}),
    "one launch answers for all": (runners.first_answers_for_all, None, Outcome.WRONG, {"distinct_operands"}),
    "work after the answer": (runners.answers_early, None, Outcome.WRONG, {"gathered_inside_clock"}),
    "wrong only when large": (runners.zeros_at_the_end, None, Outcome.WRONG, {"full_checks"}),
    "lower precision": (runners.rounds_to_half, None, Outcome.WRONG, {"full_checks"}),
    "polls the inputs before the clock": (runners.honest, Polling, "no marks", {"inputs_inside_clock"}),
    "hogs during the baseline": (runners.honest, Hogging, "no marks", {"baseline_alone"}),
}


def marks(measured, behave, candidate, defences):
    """The part of the points that it earns; an Outcome, or None where nobody gets marks."""
    try:
        reading = measured(
            behave, HONESTLY, device=SimulatedDevice(), defences=defences, candidate=candidate or runners.Running
        )
    except Failure as failure:
        return failure.outcome
    except Inconclusive:
        return None
    return float(speed_share(reading.share, reading.threshold))


def test_the_kernel_behind_all_of_them_is_worth_nothing(measured):
    assert marks(measured, runners.honest, None, Defences()) == 0.0


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_earns_nothing(measured, name):
    behave, candidate, outcome, _ = CHEATS[name]
    earned = marks(measured, behave, candidate, Defences())
    assert earned == (0.0 if outcome == "no marks" else outcome)


@pytest.mark.parametrize("name", CHEATS)
def test_it_would_pay_without_the_defence(measured, name):
    behave, candidate, _, off = CHEATS[name]
    earned = marks(measured, behave, candidate, replace(Defences(), **dict.fromkeys(off, False)))
    assert isinstance(earned, float), earned
    assert earned > 0.1


def test_faster_than_possible_would_pay_without_the_ceiling(measured):
    assert marks(measured, runners.honest, None, Defences()) == 0.0
    reading = measured(runners.honest, 3.0, defences=replace(Defences(), ceiling=False))
    assert speed_share(reading.share, reading.threshold) == 1


def test_a_steady_neighbour_is_seen_by_the_canary_alone(measured):
    """Nobody's cheat: two students who help each other. The reading looks right without it."""
    device = SimulatedDevice(slowdown=lambda now_s: 1.3)
    assert measured(device=device, defences=replace(Defences(), canary=False)).share > 0


def test_elements_never_written_are_seen_at_once(measured):
    with pytest.raises(Failure) as raised:
        measured(runners.nothing_at_the_end)
    assert raised.value.pattern == "elements never written"


def test_an_input_may_not_be_changed(measured):
    with pytest.raises(Failure) as raised:
        measured(runners.honest_but_destroys)
    assert "changed its input x" in raised.value.sentence


@pytest.mark.parametrize("seed", range(10))
def test_wrong_in_every_other_message_is_found(measured, seed):
    """In every message pieces of two launches are checked, chosen when all is over."""

    def now_and_then(runner, launches):
        (runners.zeros_at_the_end if runner.calls % 2 == 0 else runners.honest)(runner, launches)

    with pytest.raises(Failure):
        measured(now_and_then, seed=seed)


def test_what_a_student_reads_says_where_and_no_sizes(measured):
    with pytest.raises(Failure) as raised:
        measured(runners.zeros_at_the_end)
    assert raised.value.sentence.startswith("While it was timed, on large inputs")
    assert not any(character.isdigit() for character in raised.value.sentence)
    assert "of" in raised.value.evidence["mismatches"]


def test_all_defences_are_on_where_nobody_says_otherwise():
    assert all(getattr(Defences(), name) for name in Defences.__dataclass_fields__)


def test_nothing_but_tests_and_benchmarks_switches_one_off():
    from pathlib import Path

    import warpgrade

    package = Path(warpgrade.__file__).parent
    users = {path.name for path in package.rglob("*.py") if "Defences(" in path.read_text()}
    # each of these makes the default one, with no argument
    for path in package.rglob("*.py"):
        assert path.read_text().count("Defences(") == path.read_text().count("Defences()") + path.read_text().count(
            "class Defences("
        )
    assert users <= {"message.py", "protocol.py"}


# --- what a submission might do for another attempt ----------------------------------------------------------------


class Littering(runners.Running):
    """Leaves 30 ms of work behind after each answer, which slows the canaries."""

    def run(self, launches):
        super().run(launches)
        self.device.work(self, 0.03)


@pytest.mark.parametrize("efficiency", [0.05, 0.15])
def test_who_is_too_slow_stays_so_whatever_it_leaves_running(measured, efficiency):
    reading = measured(efficiency=efficiency, candidate=Littering)
    assert speed_share(reading.share, reading.threshold) == 0


@pytest.mark.parametrize("efficiency", [0.5, 0.7])
def test_who_might_earn_something_is_not_given_a_zero_for_a_busy_gpu(measured, efficiency):
    """The canaries take twice as long: beside a neighbour who does that, half may be all alone. A person decides."""
    with pytest.raises(Inconclusive) as raised:
        measured(efficiency=efficiency, candidate=Littering)
    assert raised.value.reason.startswith("Something kept the GPU busy")


class Hoarding(runners.Running):
    """Takes all memory that is left."""

    def run(self, launches):
        super().run(launches)
        raise DoesNotFit("hoarded")


def test_a_submission_that_takes_all_memory_is_not_pending(measured):
    with pytest.raises(Inconclusive) as raised:
        measured(candidate=Hoarding)
    assert "memory" in raised.value.reason


@pytest.mark.parametrize("seed", range(6))
def test_one_wrong_launch_in_every_other_message_is_found(measured, seed):
    """It gains an eighth of the time at most: half of one launch of four. Of a message two launches are looked at,
    four pieces of each, so it is passed over with 0.5 + 0.5 * 0.5^4 = 53%, ten times with 0.2%."""

    def now_and_then(runner, launches):
        if runner.calls % 2:
            runners.honest(runner, launches)
        else:
            runners.zeros_at_the_end(runner, launches[:1])
            runners.honest(runner, launches[1:])

    with pytest.raises(Failure):
        measured(now_and_then, seed=seed)


@pytest.mark.parametrize("efficiency", [0.001, 0.01])
def test_the_slower_it_is_the_sooner_others_have_their_turn(measured, efficiency):
    """A message of the first takes 9 s: two to warm up and one to measure."""
    reading = measured(efficiency=efficiency)
    assert len(next(block for block in reading.blocks if block.runner == "candidate").message_ms) == 1
    assert speed_share(reading.share, reading.threshold) == 0
    # everything but the candidate's messages is as for an honest one: 1.6 s
    assert reading.exclusive_s < 1.7 + 3 * 0.0088 / efficiency
