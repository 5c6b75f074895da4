"""What students read when a call of theirs fails: where, why, and nothing about the hidden inputs."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

from warpgrade.course import Form
from warpgrade.judge.failure import Failure
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.messages import (
    Call,
    Loaded,
    Location,
    OtherValue,
    Problem,
    Raised,
    Ready,
    Returned,
)

X = torch.arange(6, dtype=torch.float32)
READY = Ready()


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
    def returning(type_name: str) -> Callable[..., None]:
        return lambda player, call, payload: player.say(
            Returned(OtherValue(type_name), len(payload), [], 0), bytes(payload)
        )

    assert "1025" not in fails(returning("hidden_1025")).sentence
    assert "generator" in fails(returning("generator")).sentence


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


def test_a_kernel_without_its_decorator_is_told_so(make: Any, workers: Any) -> None:
    player = raising("TypeError", "'function' object is not subscriptable", during="signature")
    remote = make(workers.calling(player))
    remote._exercise = msgspec.structs.replace(remote._exercise, form=Form.KERNEL)
    with pytest.raises(Failure) as caught:
        remote.launch("double", (1,), X)
    assert "@triton.jit" in caught.value.sentence
    remote.close()
