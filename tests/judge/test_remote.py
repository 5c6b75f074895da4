"""`submission.f(...)` against Workers of every character: whatever a Worker does becomes the student's outcome.

Never a fault, which would be a free retry, and never a pass. The Worker is a thread of the test, over a real socketpair.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpgrade.course import Exercise, Return
from warpgrade.judge.failure import Failure
from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.sandbox import Exit, SandboxUnavailable
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.judge.verdict import Outcome, Tier
from warpgrade.wire.messages import (
    Call,
    FloatValue,
    HandleValue,
    IntValue,
    Loaded,
    Location,
    NoneValue,
    OtherValue,
    Problem,
    Raised,
    Ready,
    Returned,
    TensorSpec,
    TextValue,
    TupleValue,
    Unsafe,
)

X = torch.arange(6, dtype=torch.float32)
READY = Ready("3", "2", "3", "2")


@pytest.fixture
def make(tiny: Any, notebook: Callable[..., Any]) -> Callable[..., RemoteSubmission]:
    def build(sandbox: Any, name: str = "double", code: str = "", **limits: Any) -> RemoteSubmission:
        submission = notebook(code or "def double(x):\n    return x + x\n")
        return RemoteSubmission(tiny.exercise(name, **limits), submission, sandbox, Tier.MODEL, [])

    return build


@pytest.fixture
def fails(make: Callable[..., RemoteSubmission], workers: Any) -> Callable[..., Failure]:
    """The Failure of one call of `double` on a Worker that answers calls in this way."""

    def run(on_call: Callable[[Any, Call, bytearray], None], *arguments: Any, **limits: Any) -> Failure:
        remote = make(workers.calling(on_call), **limits)
        try:
            with pytest.raises(Failure) as caught:
                remote.double(*(arguments or (X,)))
        finally:
            remote.close()
        assert caught.value.outcome.decided
        assert caught.value.outcome is not Outcome.PASSED
        return caught.value

    return run


def said(value: Any, *, offset: int | None = None, extra: bytes = b"", cut: int = 0) -> Callable[..., None]:
    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        whole = bytes(payload) + extra
        player.say(Returned(value, len(payload) if offset is None else offset, [], 0), whole[: len(whole) - cut])

    return on_call


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


# --- hostile answers ------------------------------------------------------------------------------------------------

B53 = 2**53
HOSTILE_ANSWERS: dict[str, Callable[..., None]] = {
    "arguments kept back": lambda p, c, d: p.say(Returned(NoneValue(), 0, [], 0)),
    "arguments cut": said(NoneValue(), cut=1),
    "arguments said to be elsewhere": said(NoneValue(), offset=64),
    "result inside the arguments": said(TensorSpec("float32", [6], [1], 0)),
    "result beyond the payload": said(TensorSpec("float32", [6], [1], 1 << 40)),
    "result longer than the payload": said(TensorSpec("float32", [B53], [1], 0)),
    "shape that overflows": said(TensorSpec("float32", [B53] * 8, [1] * 8, 0)),
    "empty shape that overflows": said(TensorSpec("float32", [0, B53, B53], [1, 1, 1], 1 << 16)),
    "strides of another rank": lambda p, c, d: p.say(
        Returned(TensorSpec("float32", [6], [1, 1, 1], len(d)), len(d), [], 0), bytes(d) + bytes(24)
    ),
    "thirty-two times the same gigabyte": lambda p, c, d: p.say(
        Returned(TupleValue([TensorSpec("uint8", [1 << 20], [1], len(d))] * 32), len(d), [], 0),
        bytes(d) + bytes(1 << 20),
    ),
    "float beyond float64": said(FloatValue("0x1.0p+9999")),
    "int beyond 64 bits": said(IntValue("9999999999999999999")),
    "unknown dtype": said(TensorSpec("object", [6], [1], 0)),
    "unknown handle": said(HandleValue(10_000)),
    "a text": said(TextValue("passed")),
    "nothing": said(NoneValue()),
    "something else": said(OtherValue("generator")),
    "a tuple of nothing": said(TupleValue([])),
    "ready again": lambda p, c, d: p.say(READY),
    "loaded again": lambda p, c, d: p.say(Loaded([])),
    "unsafe in the middle": lambda p, c, d: p.say(Unsafe(["please try again"])),
    "a raised lookup": lambda p, c, d: p.say(Raised(Problem("NameError", ""), "lookup")),
    "a raised signature": lambda p, c, d: p.say(Raised(Problem("TypeError", ""), "signature")),
    "a raised sandbox failure": lambda p, c, d: p.say(Raised(Problem("SandboxUnavailable", "fault"), "call")),
    "a raised assertion": lambda p, c, d: p.say(Raised(Problem("AssertionError", ""), "call")),
    "a raised skip": lambda p, c, d: p.say(Raised(Problem("Skipped", ""), "call")),
    "a line that does not exist": lambda p, c, d: p.say(Raised(Problem("E", "", Location(9999, 9999, "x")), "call")),
}


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
def test_a_hostile_answer_is_the_students_failure(name: str, fails: Any, no_leaks: None) -> None:
    failure = fails(HOSTILE_ANSWERS[name])
    assert failure.outcome in {Outcome.REFUSED, Outcome.WRONG, Outcome.CRASHED, Outcome.NOT_IMPLEMENTED}


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\xff\xff\xff\xff", struct.pack("<I", 2**31), struct.pack("<I", 0), struct.pack("<I", 5) + b"hello",
     struct.pack("<I", 60000) + b"[" * 60000, b"PASSED 10/10\n" * 100],
)  # fmt: skip
def test_bytes_that_are_no_answer(data: bytes, fails: Any, no_leaks: None) -> None:
    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        with contextlib.suppress(OSError):
            player.socket.setblocking(True)
            player.socket.sendall(data)
        player.socket.shutdown(socket.SHUT_WR)

    assert fails(on_call).outcome in {Outcome.REFUSED, Outcome.CRASHED}


def test_an_answer_that_drips_is_timed_out(fails: Any) -> None:
    ended = threading.Event()

    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        player.socket.setblocking(True)
        with contextlib.suppress(OSError):
            for byte in struct.pack("<I", 60000) + b" " * 60000:
                player.socket.sendall(bytes([byte]))
                if ended.wait(0.02):
                    return

    try:
        assert fails(on_call, call_s=0.3).outcome is Outcome.TIMED_OUT
    finally:
        ended.set()


def test_silence_is_timed_out_and_the_next_test_gets_a_fresh_worker(make: Any, workers: Any) -> None:
    sandbox = workers.calling(lambda player, call, payload: None)
    remote = make(sandbox, call_s=0.2)
    for _ in range(2):
        with pytest.raises(Failure) as caught:
            remote.double(X)
        assert caught.value.outcome is Outcome.TIMED_OUT
    assert sandbox.started == 2
    remote.close()


def test_the_exercise_has_a_budget_that_restarts_do_not_renew(make: Any, workers: Any) -> None:
    remote = make(workers.calling(lambda player, call, payload: None), call_s=0.2, exercise_s=0.5)
    sentences = []
    for _ in range(5):
        with pytest.raises(Failure) as caught:
            remote.double(X)
        assert caught.value.outcome is Outcome.TIMED_OUT
        sentences.append(caught.value.sentence)
    assert "double(...)" in sentences[0]
    assert "All tests of this exercise together" in sentences[-1]
    remote.close()


@pytest.mark.parametrize(
    ("kind", "count"), [("unsealed", 1), ("huge", 1), ("pipe", 1), ("socket", 1), ("folder", 1), ("sealed", 2), ("sealed", 60)]
)  # fmt: skip
def test_hostile_descriptors(kind: str, count: int, fails: Any, no_leaks: None) -> None:
    def one() -> int:
        if kind == "pipe":
            reader, writer = os.pipe()
            os.close(writer)
            return reader
        if kind == "socket":
            return socket.socket(socket.AF_UNIX).detach()
        if kind == "folder":
            return os.open("/", os.O_RDONLY)
        descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, 100 << 30 if kind == "huge" else 1 << 16)
        if kind != "unsealed":
            fcntl.fcntl(descriptor, 1033, 6)
        return descriptor

    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        header = msgspec.json.encode(Returned(NoneValue(), len(payload), [], 0))
        descriptors = [one() for _ in range(count)]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with contextlib.suppress(OSError):
            player.socket.sendmsg([struct.pack("<I", len(header)) + header], rights)
        for descriptor in descriptors:
            os.close(descriptor)

    assert fails(on_call).outcome is Outcome.REFUSED


def test_an_answer_before_the_question_is_refused(make: Any, workers: Any) -> None:
    """Otherwise the answer to one call could be sent with the one before, and stop the clock of a timed call at once."""

    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        player.answer(X + X, payload)
        player.answer(X + X, payload)

    remote = make(workers.calling(on_call))
    remote.double(X)
    from warpgrade.judge.sandbox.process import wait_until

    assert wait_until(lambda: not remote._channel.quiet(), 10.0)
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert caught.value.outcome is Outcome.REFUSED
    remote.close()


counts = st.integers(0, 9) | st.integers(0, 2**53) | st.integers(16000, 17000)
specs = st.builds(TensorSpec, st.sampled_from(["float32", "int8", "bool", "x"]), st.lists(counts, max_size=8),
                  st.lists(counts, max_size=8), counts)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(specs | st.builds(TupleValue, st.lists(specs, max_size=4)), counts)
def test_any_announcement_is_a_failure_or_a_tensor_that_keeps_the_contract(
    make: Any, workers: Any, value: Any, offset: int
) -> None:
    remote = make(workers.calling(said(value, offset=offset if offset < 10 else None, extra=bytes(64))))
    try:
        returned = remote.double(X)
    except Failure as failure:
        assert failure.outcome.decided
    else:
        assert (returned.shape, returned.dtype) == (X.shape, X.dtype)
    finally:
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


# --- what students read ---------------------------------------------------------------------------------------------


def raising(
    exception: str, text: str = "", location: Location | None = None, during: str = "call"
) -> Callable[..., None]:
    return lambda player, call, payload: player.say(Raised(Problem(exception, text, location), during))


def test_an_exception_made_up_in_the_call_is_not_named(fails: Any) -> None:
    failure = fails(raising("Size_1025_x_37", "torch.Size([1025])"))
    assert "1025" not in failure.sentence + failure.exception + failure.pattern
    assert failure.evidence["exception"] == "Size_1025_x_37"


@pytest.mark.parametrize("name", ["ValueError", "IndexError", "InterpreterError"])
def test_an_exception_of_pythons_or_tritons_is_named(name: str, fails: Any) -> None:
    assert name in fails(raising(name)).sentence


def test_an_exception_that_the_notebook_defines_is_not_named(make: Any, workers: Any) -> None:
    remote = make(
        workers.calling(raising("TooSmall")), code="class TooSmall(Exception): pass\ndef double(x): raise TooSmall"
    )
    with pytest.raises(Failure) as caught:
        remote.double(X)
    # a notebook with a class for each size could say which size it met
    assert caught.value.exception == "Exception"
    assert caught.value.evidence["exception"] == "TooSmall"
    remote.close()


def test_a_million_empty_lines_do_not_keep_the_judge(make: Any, workers: Any) -> None:
    play = workers.calling(lambda p, c, d: p.say(Raised(Problem("NameError", ""), "lookup")))
    remote = make(play, code="x = 1" + "\n" * 1_000_000 + " " * 1_000_000 + "y = 1")
    started = time.monotonic()
    with pytest.raises(Failure):
        remote.double(X)
    assert time.monotonic() - started < 10.0  # quadratic, it took hours
    remote.close()


def test_control_characters_of_an_exceptions_name_go_nowhere(make: Any) -> None:
    remote = make(lookup([Problem("\x1b]0;owned\x07\nok", "", Location(1, 1, ""))]))
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert "\x1b" not in caught.value.sentence + caught.value.exception + "".join(remote.notices())
    remote.close()


def test_the_text_of_a_line_is_the_judges_own_copy(fails: Any) -> None:
    failure = fails(raising("ValueError", "", Location(1, 2, "hidden: 1025")))
    assert failure.location == Location(1, 2, "return x + x")
    assert fails(raising("ValueError", "", Location(1, 3000, "1025"))).location is None
    assert fails(raising("ValueError", "", Location(0, 0, "1025"))).location is None


def test_the_name_of_a_returned_type_is_not_believed(fails: Any) -> None:
    failure = fails(said(OtherValue("hidden_1025")))
    assert "1025" not in failure.sentence
    assert "generator" in fails(said(OtherValue("generator"))).sentence


@pytest.mark.parametrize(
    ("exception", "outcome"),
    [("NotImplementedError", Outcome.NOT_IMPLEMENTED), ("MemoryError", Outcome.OUT_OF_MEMORY),
     ("CompilationError", Outcome.DOES_NOT_COMPILE), ("SyntaxError", Outcome.DOES_NOT_COMPILE),
     ("ZeroDivisionError", Outcome.CRASHED), ("SystemExit", Outcome.CRASHED), ("KeyboardInterrupt", Outcome.CRASHED)],
)  # fmt: skip
def test_what_a_raised_exception_means(exception: str, outcome: Outcome, fails: Any) -> None:
    assert fails(raising(exception)).outcome is outcome


def test_a_call_that_does_not_fit_the_contract_quotes_it(fails: Any) -> None:
    failure = fails(raising("TypeError", during="signature"))
    assert failure.outcome is Outcome.WRONG
    assert "double(x)" in failure.sentence


# --- why a function is not there ------------------------------------------------------------------------------------


def lookup(problems: list[Problem]) -> FakeSandbox:
    def play(sock: socket.socket) -> None:
        from warpgrade.wire import Channel
        from warpgrade.wire.messages import Load

        channel: Any = Channel(sock, Load | Call)
        channel.send(READY, timeout_s=5.0)
        channel.receive(timeout_s=5.0)
        channel.send(Loaded(problems), timeout_s=5.0)
        channel.receive(timeout_s=5.0)
        channel.send(Raised(Problem("NameError", ""), "lookup"), timeout_s=5.0)

    return FakeSandbox(play)


@pytest.mark.parametrize(
    ("problems", "outcome", "words"),
    [([], Outcome.NOT_IMPLEMENTED, "defines no function"),
     ([Problem("SyntaxError", "", Location(1, 1, ""))], Outcome.DOES_NOT_COMPILE, "cell 1 stopped at line 1"),
     ([Problem("IndentationError", "", Location(1, 2, ""))], Outcome.DOES_NOT_COMPILE, "line 2"),
     ([Problem("ImportError", "", Location(1, 1, ""))], Outcome.CRASHED, "ImportError"),
     ([Problem("SyntaxError", "no line, which ours never says")], Outcome.NOT_IMPLEMENTED, "defines no function"),
     ([Problem("SyntaxError", "", Location(77, 1, "no such cell"))], Outcome.NOT_IMPLEMENTED, "defines no function")],
)  # fmt: skip
def test_a_missing_function_is_explained(
    problems: Any, outcome: Outcome, words: str, make: Any, no_leaks: None
) -> None:
    remote = make(lookup(problems))
    with pytest.raises(Failure) as caught:
        remote.double(X)
    assert caught.value.outcome is outcome
    assert words in caught.value.sentence
    remote.close()


def test_notices_name_the_cell_and_the_type_and_nothing_else(make: Any) -> None:
    problems = [
        Problem("ZeroDivisionError", "secret text", Location(1, 2, "1 / 0")),
        Problem("ValueError", "secret text"),
    ]
    remote = make(lookup(problems))
    with pytest.raises(Failure):
        remote.double(X)
    assert len(remote.notices()) == 2
    assert "Cell 1, line 2" in remote.notices()[0]
    assert "secret" not in "".join(remote.notices())
    remote.close()


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
