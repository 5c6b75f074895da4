"""Hostile answers to `submission.f(...)`: each is the student's failure, never a fault (a free retry), never a pass."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
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
READY = Ready()


def said(value: Any, *, offset: int | None = None, extra: bytes = b"", cut: int = 0) -> Callable[..., None]:
    def on_call(player: Any, call: Call, payload: bytearray) -> None:
        whole = bytes(payload) + extra
        player.say(Returned(value, len(payload) if offset is None else offset, [], 0), whole[: len(whole) - cut])

    return on_call


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
