"""`submission.f(...)` against Workers of every character: whatever a Worker does becomes the student's outcome.

Never a fault, which would be a free retry, and never a pass. The Worker is a thread of the test, over a real socketpair.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

from warpgrade.course import Exercise, Return
from warpgrade.judge.failure import Failure
from warpgrade.judge.sandbox import Exit, SandboxUnavailable
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.messages import (
    Call,
    HandleValue,
    Ready,
    Returned,
    TensorSpec,
    Unsafe,
)

X = torch.arange(6, dtype=torch.float32)
READY = Ready()


# --- honest ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_leaks")
class TestHonest:
    def test_a_call_reads_like_a_function(self, make: Any, workers: Any) -> None:
        remote = make(workers.honest())
        assert torch.equal(remote.double(X), X + X)
        assert list(remote.last_inputs) == ["x"]
        remote.close()

    def test_an_output_argument_is_written(self, make: Any, workers: Any) -> None:
        remote = make(workers.honest(lambda x, out: [out.copy_(x), None][1]), "fill")
        out = torch.full((6,), float("nan"))
        remote.fill(X, out)
        assert torch.equal(out, X)
        remote.close()

    def test_one_worker_serves_many_calls(self, make: Any, workers: Any) -> None:
        sandbox = workers.honest()
        remote = make(sandbox)
        for _ in range(20):
            remote.double(X)
        assert sandbox.started == 1
        remote.close()

    def test_closing_twice_is_harmless(self, make: Any, workers: Any) -> None:
        remote = make(workers.honest())
        remote.double(X)
        assert remote.close() is not None
        assert remote.close() is None

    def test_a_handle_becomes_a_function(self, make: Any, workers: Any, tiny: Any) -> None:
        def on_call(player: Any, call: Call, payload: bytearray) -> None:
            if call.handle is None:
                player.say(Returned(HandleValue(3), len(payload), [], 0), payload)
            else:
                player.answer(call.handle * 2.5, payload)

        remote = make(workers.calling(on_call))
        remote._exercise = msgspec.structs.replace(tiny.exercise(), returns=[Return(kind="handle")])
        assert remote.double(X)(X) == 7.5
        remote.close()


# --- what the call did to its arguments -----------------------------------------------------------------------------


def changing(*places: int, result: Any = None) -> Callable[..., None]:
    """A Worker that answers right, and flips bytes of the arguments on the way."""

    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        def change(answer: bytearray) -> None:
            for place in places:
                answer[place] ^= 0xFF

        player.answer(X + X if result is None else result, payload, change)

    return on_call


MARGIN = 8192
END = MARGIN + 24  # X has 24 bytes


@pytest.mark.parametrize("place", [MARGIN, MARGIN + 13, END - 1])
def test_a_changed_input_is_wrong(place: int, fails: Any) -> None:
    failure = fails(changing(place))
    assert failure.outcome is Outcome.WRONG
    assert "x" in failure.sentence
    assert failure.pattern == "an input is changed"


@pytest.mark.parametrize("place", [END, END + 100, END + MARGIN - 1])
def test_a_write_behind_a_buffer_is_a_memory_error(place: int, fails: Any) -> None:
    failure = fails(changing(place))
    assert failure.outcome is Outcome.MEMORY_ERROR
    assert "after its end" in failure.sentence


@pytest.mark.parametrize("place", [0, MARGIN - 1])
def test_a_write_before_a_buffer_is_a_memory_error(place: int, fails: Any) -> None:
    failure = fails(changing(place))
    assert failure.outcome is Outcome.MEMORY_ERROR
    assert "before its beginning" in failure.sentence


def test_an_input_restored_afterwards_is_not_a_change(make: Any, workers: Any) -> None:
    remote = make(workers.calling(changing()))
    assert torch.equal(remote.double(X), X + X)
    remote.close()


def test_gaps_between_the_elements_of_a_view_are_watched_too(fails: Any) -> None:
    base = torch.arange(12, dtype=torch.float32)
    assert fails(changing(MARGIN + 4), base[::2]).outcome is Outcome.WRONG


def test_the_sentences_hold_no_number_of_the_inputs(fails: Any) -> None:
    for place in (END + 17, 5, MARGIN + 3):
        failure = fails(changing(place))
        assert not any(character.isdigit() for character in failure.sentence + failure.pattern)


# --- death ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "outcome"),
    [(Exit("it was killed by signal 11 (SIGSEGV)"), Outcome.CRASHED), (Exit("it ended by itself with status 0"), Outcome.CRASHED),
     (Exit("it used more than 8 GiB of memory", out_of_memory=True), Outcome.OUT_OF_MEMORY)],
)  # fmt: skip
def test_death_during_a_call_is_the_students(end: Exit, outcome: Outcome, make: Any, workers: Any) -> None:
    remote = make(workers.calling(lambda player, call, payload: player.socket.shutdown(socket.SHUT_RDWR), end=end))
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert caught.value.outcome is outcome


def test_an_exit_status_is_not_told_to_students(make: Any, workers: Any) -> None:
    """The submission chooses it, after it has seen the inputs: eight bits of a hidden size for each test."""
    end = Exit("it ended by itself with status 137")
    remote = make(workers.calling(lambda player, call, payload: player.socket.shutdown(socket.SHUT_RDWR), end=end))
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert "137" not in caught.value.sentence
    assert "137" in caught.value.evidence["end"]


def load_phase(act: Callable[[Any], None]) -> FakeSandbox:
    def play(sock: socket.socket) -> None:
        from warpgrade.wire import Channel
        from warpgrade.wire.messages import Load

        channel: Any = Channel(sock, Load | Call)
        channel.send(READY, timeout_s=5.0)
        channel.receive(timeout_s=5.0)
        with contextlib.suppress(Exception):
            act(channel)

    return FakeSandbox(play)


@pytest.mark.parametrize(
    ("act", "outcome"),
    [(lambda channel: None, Outcome.CRASHED),
     (lambda channel: channel.send(READY, timeout_s=1.0), Outcome.REFUSED),
     (lambda channel: channel.send(Unsafe(["a free retry"]), timeout_s=1.0), Outcome.REFUSED),
     (lambda channel: channel.receive(timeout_s=20.0), Outcome.TIMED_OUT)],
    ids=["dies", "says ready again", "says unsafe", "never ends"],
)  # fmt: skip
def test_while_loading_all_is_the_students_too(act: Any, outcome: Outcome, make: Any) -> None:
    remote = make(load_phase(act), compile_s=0.3)
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert caught.value.outcome is outcome
    assert remote.was_ready
    remote.close()


@pytest.mark.parametrize(
    "play",
    [lambda sock: None, lambda sock: sock.sendall(b"Traceback (most recent call last)"),
     lambda sock: sock.sendall(struct.pack("<I", 27) + b'{"type":"loaded","x":[1,2]}')],
    ids=["dies", "prints", "says something else"],
)  # fmt: skip
def test_before_ready_all_is_ours(play: Any, make: Any) -> None:
    remote = make(FakeSandbox(play))
    with pytest.raises(SandboxUnavailable):
        remote.double(X)
    assert not remote.was_ready


def test_a_sandbox_that_is_not_tight_is_ours_and_names_the_reason(make: Any) -> None:
    header = msgspec.json.encode(Unsafe(["/course/hidden can be seen"]))
    remote = make(FakeSandbox(lambda sock: sock.sendall(struct.pack("<I", len(header)) + header)))
    with pytest.raises(SandboxUnavailable, match="hidden can be seen"):
        remote.double(X)
    assert not remote.was_ready


# --- the suite's own mistakes ---------------------------------------------------------------------------------------


def test_too_many_arguments_are_the_suites_mistake(make: Any, workers: Any) -> None:
    remote = make(workers.honest())
    with pytest.raises(TypeError):
        remote.double(X, X)
    with pytest.raises(TypeError):
        remote.double(object())
    remote.close()


def test_private_names_are_no_remote_functions(make: Any, workers: Any) -> None:
    with pytest.raises(AttributeError):
        make(workers.honest())._nothing  # noqa: B018


def test_own_work_is_required_where_the_exercise_says_so(make: Any, workers: Any, tiny: Any) -> None:
    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        spec = TensorSpec("float32", [6], [1], len(payload))
        whole = bytes(payload) + bytes((X + X).view(torch.uint8).numpy())
        player.say(Returned(spec, len(payload), ["add"], 0), whole)

    remote = make(workers.calling(on_call))
    exercise: Exercise = remote._exercise
    remote._exercise = msgspec.structs.replace(exercise, own_kernel=True, form="function")
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert caught.value.outcome is Outcome.REFUSED
    remote.close()


# --- a busy machine -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("busy", "disturbed"), [(0.0, True), (0.5, True), (1.0, False)])
def test_a_time_out_without_the_processor_may_be_the_machines(
    busy: float, disturbed: bool, make: Any, workers: Any
) -> None:
    remote = make(workers.calling(lambda player, call, payload: None, busy=busy), call_s=0.3)
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert (caught.value.outcome, remote.disturbed) == (Outcome.TIMED_OUT, disturbed)
    remote.close()


def test_a_kill_that_nobody_explains_may_be_the_machines(make: Any, workers: Any) -> None:
    for unknown in (True, False):
        end = Exit("it was killed by signal 9 (SIGKILL)", killed_by_unknown=unknown)
        remote = make(workers.calling(lambda player, call, payload: player.socket.shutdown(socket.SHUT_RDWR), end=end))
        with pytest.raises(Failure):
            remote.double(X)
        assert remote.disturbed is unknown


def test_when_the_time_is_used_up_no_worker_is_started_any_more(make: Any, workers: Any) -> None:
    sandbox = workers.calling(lambda player, call, payload: None)
    remote = make(sandbox, call_s=0.2, exercise_s=0.3)
    for _ in range(5):
        with pytest.raises(Failure):
            remote.double(X)
    assert sandbox.started == 2
    remote.close()


def test_an_output_is_no_input_that_a_result_could_be_a_copy_of(make: Any, workers: Any) -> None:
    remote = make(workers.honest(lambda x, out: [out.copy_(x), None][1]), "fill")
    remote.fill(X, torch.full((6,), float("nan")))
    assert list(remote.last_inputs) == ["x"]
    remote.close()
