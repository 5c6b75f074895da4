"""`share` and `run` against Workers of every character."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from warpgrade.judge.failure import Failure
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.judge.verdict import Outcome
from warpgrade.wire import PeerClosed, TimedOut
from warpgrade.wire.base import Message
from warpgrade.wire.messages import (
    Launch,
    Loaded,
    Move,
    Problem,
    Raised,
    Ran,
    Ready,
    Returned,
    Run,
    SanitizerFinding,
    Share,
    Shared,
    TensorSpec,
    WorkerMessage,
)

RUN = Run("double", ["x"], {}, [Launch({}, {"z": TensorSpec("float32", [1], [1], 0)})])


@pytest.fixture
def timed(make: Any, workers: Any) -> Callable[..., Any]:
    """A remote whose Worker answers `Share` and `Run` with these messages; None: it hangs up."""

    def build(on_share: Message | None, on_run: Message | None = None, **limits: Any) -> Any:
        def play(sock: socket.socket) -> None:
            player = workers.Player(sock)
            player.say(Ready())
            player.hear()
            player.say(Loaded([]))
            with contextlib.suppress(PeerClosed):
                for answer in (on_share, on_run):
                    player.hear()
                    if answer is None:
                        return
                    player.say(answer)
                player.hear()

        return make(FakeSandbox(play), **limits)

    return build


@pytest.fixture
def files() -> Any:
    descriptors = [os.memfd_create("test") for _ in range(2)]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def failure(remote: Any, files: list[int], *, run: bool = True) -> Failure:
    try:
        with pytest.raises(Failure) as caught:
            remote.share(files, [0, 0])
            if run:
                remote.run(RUN, first=False)
    finally:
        remote.close()
    assert caught.value.outcome.decided
    return caught.value


def test_an_honest_worker_answers(timed: Any, files: list[int]) -> None:
    remote = timed(Shared(), Ran())
    remote.share(files, [0, 0])
    remote.run(RUN, first=True)
    remote.close()


@pytest.mark.parametrize("answer", [Ran(), Ready(), Loaded([])])
def test_another_answer_to_share_is_refused(timed: Any, files: list[int], answer: Message) -> None:
    assert failure(timed(answer), files, run=False).outcome is Outcome.REFUSED


@pytest.mark.parametrize("answer", [Shared(), Ready(), Loaded([])])
def test_another_answer_to_run_is_refused(timed: Any, files: list[int], answer: Message) -> None:
    assert failure(timed(Shared(), answer), files).outcome is Outcome.REFUSED


def test_who_hangs_up_has_crashed(timed: Any, files: list[int]) -> None:
    assert failure(timed(None), files, run=False).outcome is Outcome.CRASHED
    assert failure(timed(Shared(), None), files).outcome is Outcome.CRASHED


def test_what_raises_is_told(timed: Any, files: list[int]) -> None:
    found = failure(timed(Shared(), Raised(Problem("IndexError", "secret"), "call")), files)
    assert (found.outcome, found.exception) == (Outcome.CRASHED, "IndexError")
    assert "secret" not in found.sentence


def test_a_finding_of_the_sanitizer_fails(timed: Any, files: list[int]) -> None:
    finding = SanitizerFinding("race", "store and store", "x", 3, (0, 0, 0), "", None)
    assert failure(timed(Shared(), Ran(findings=(finding,))), files).outcome is Outcome.MEMORY_ERROR


def test_kernels_of_which_nothing_is_told_are_refused(timed: Any, files: list[int]) -> None:
    assert failure(timed(Shared(), Ran(kernels_left_out=3)), files).outcome is Outcome.REFUSED


def test_an_answer_before_the_question_is_refused(make: Any, workers: Any, files: list[int]) -> None:
    """Whoever answers early saves the time of the message: it must not lie there when the clock starts."""

    answered = threading.Event()

    def play(sock: socket.socket) -> None:
        player = workers.Player(sock)
        player.say(Ready())
        player.hear()
        player.say(Loaded([]))
        player.hear()
        player.say(Shared())
        player.say(Ran())
        answered.set()
        with contextlib.suppress(PeerClosed):
            player.hear()

    remote = make(FakeSandbox(play))
    remote.share(files, [0, 0])
    assert answered.wait(20.0)
    with pytest.raises(Failure) as caught:
        remote.run(RUN, first=False)
    remote.close()
    assert caught.value.outcome is Outcome.REFUSED


def test_only_a_worker_takes_descriptors_that_are_no_payload() -> None:
    assert Share not in WorkerMessage.__args__
    assert Returned in WorkerMessage.__args__


def test_no_process_is_looked_at_while_the_clock_runs(timed: Any, files: list[int], monkeypatch: Any) -> None:
    """On a machine with many processes that takes as long as the message."""
    remote = timed(Shared(), Ran())
    remote.share(files, [0, 0])
    monkeypatch.setattr(remote, "_processor_s", lambda: pytest.fail("inside the clock"))
    remote.run(RUN, first=False)
    remote.close()


def test_a_timed_call_that_takes_too_long_is_judged_once_more(timed: Any, files: list[int]) -> None:
    """Whether the machine was at fault is not known: nobody looked at the processor before."""
    remote = timed(Shared(), Loaded([]), call_s=0.2)
    remote.share(files, [0, 0])
    remote._channel.receive = _too_late
    with pytest.raises(Failure) as caught:
        remote.run(RUN, first=False)
    remote.close()
    assert caught.value.outcome is Outcome.TIMED_OUT
    assert remote.disturbed


def _too_late(*, timeout_s: float) -> Any:
    raise TimedOut


@pytest.mark.parametrize("answer", [Shared(), Ready(), Loaded([]), None])
def test_another_answer_to_a_copy_is_none(timed: Any, answer: Message | None, make: Any, workers: Any) -> None:
    def play(sock: socket.socket) -> None:
        player = workers.Player(sock)
        player.say(Ready())
        with contextlib.suppress(PeerClosed):
            assert isinstance(player.hear()[0], Move), "and nothing of the submission before"
            if answer is not None:
                player.say(answer)
                player.hear()

    remote = make(FakeSandbox(play))
    with pytest.raises(Failure):
        remote.move(4, 1)
    remote.close()
