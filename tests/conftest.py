"""What the tests of the core share: a tiny course in a temporary folder, and Workers played by a thread."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from warpgrade.course import Course, Exercise, Limits
from warpgrade.judge.sandbox.fake import FakeSandbox
from warpgrade.submission import Submission, parse_submission
from warpgrade.wire import Channel, PeerClosed, WireError
from warpgrade.wire import tensors as wire_tensors
from warpgrade.wire.messages import Call, Compile, JudgeMessage, KernelUse, Loaded, Message, Ready, Returned

# Some tests start a judge of their own; none may leave compiled files in the repository.
sys.dont_write_bytecode = True

READY = Ready()

DECLARATION = """
    title = "Tiny"
    notebook = "tiny.ipynb"

    [exercises.double]
    title = "Double"
    points = 10
    form = "plain"
    signature = "double(x)"
    summary = "Twice x."
    own_kernel = false
    [[exercises.double.arguments]]
    name = "x"
    kind = "tensor"
    dtypes = ["float32"]
    [[exercises.double.returns]]
    dtype = "x"
    shape = "x"
    [exercises.double.limits]
    call_s = 5.0

    [exercises.fill]
    title = "Fill"
    points = 7
    form = "plain"
    signature = "fill(x, out)"
    summary = "Copy x into out."
    own_kernel = false
    [[exercises.fill.arguments]]
    name = "x"
    kind = "tensor"
    [[exercises.fill.arguments]]
    name = "out"
    kind = "tensor"
    output = true
"""

CHECKS = """
    import torch

    def test_double__two(submission, inputs, assert_close):
        x = inputs.normal(5)
        assert_close(submission.double(x), 2 * x)

    def test_fill__copies(submission, inputs, assert_identical):
        x, out = inputs.normal(5), inputs.poisoned(5)
        submission.fill(x, out)
        assert_identical(out, x)
"""

HIDDEN_DOUBLE = """
    import pytest
    from pathlib import Path

    def test_any(submission, inputs, assert_close):
        x = inputs.normal(33)
        assert_close(submission.double(x), 2 * x)

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_sizes(submission, inputs, assert_close, n):
        x = inputs.normal(n)
        assert_close(submission.double(x), 2 * x)
"""

HIDDEN_FILL = """
    def test_out(submission, inputs, assert_identical):
        x, out = inputs.normal(9), inputs.poisoned(9)
        submission.fill(x, out)
        assert_identical(out, x)
"""

RIGHT_CODE = "import torch\ndef double(x):\n    return x + x\ndef fill(x, out):\n    out.copy_(x)\n"


class Tiny:
    """A course `tiny` with two exercises, which tests may change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "source/tiny").mkdir(parents=True)
        (root / "course_tests/tiny").mkdir(parents=True)
        self.write("source/tiny/exercises.toml", DECLARATION)
        self.write("source/tiny/checks.py", CHECKS)
        self.write("course_tests/tiny/test_double.py", HIDDEN_DOUBLE)
        self.write("course_tests/tiny/test_fill.py", HIDDEN_FILL)
        self.course = Course(root)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def exercise(self, name: str = "double", **limits: Any) -> Exercise:
        exercise = self.course.exercise("tiny", name)
        return msgspec.structs.replace(exercise, limits=msgspec.structs.replace(exercise.limits, **limits))


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path / "course")


def _notebook(*cells: str) -> Submission:
    document = {"cells": [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells], "metadata": {}}
    return parse_submission(json.dumps(document), "test.ipynb")


@pytest.fixture(scope="session")
def notebook() -> Callable[..., Submission]:
    """A Submission of these code cells."""
    return _notebook


class Player:
    """Plays the Worker at the other end of a FakeSandbox's socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.channel: Channel[JudgeMessage] = Channel(sock, JudgeMessage)

    def say(self, message: Message, payload: bytes = b"") -> None:
        with contextlib.suppress(WireError):
            self.channel.send(message, payload, timeout_s=20.0)

    def hear(self) -> tuple[JudgeMessage, bytearray]:
        frame = self.channel.receive(timeout_s=20.0)
        return frame.message, frame.payload

    def answer(
        self,
        result: Any,
        payload: bytes | bytearray,
        change: Callable[[bytearray], None] | None = None,
        kernels: tuple[KernelUse, ...] = (),
    ) -> None:
        """Say what the course's own Worker says when a call returned `result` and ran `kernels`."""
        packer = wire_tensors.ResultPacker(len(payload), [], max_bytes=1 << 30)
        value = packer.value(result)
        answer = bytearray(packer.end_bytes)
        answer[: len(payload)] = payload
        if change:
            change(answer)
        for start, block in packer.blocks:
            answer[start : start + len(block)] = block
        self.say(Returned(value, len(payload), [], len(kernels), kernels), bytes(answer))


def _player(
    on_call: Callable[[Player, Call, bytearray], None], on_compile: Callable[[Player, Compile], None] | None = None
) -> Callable[[socket.socket], None]:
    def play(sock: socket.socket) -> None:
        player = Player(sock)
        with contextlib.suppress(PeerClosed, OSError):
            player.say(READY)
            player.hear()
            player.say(Loaded([]))
            while True:
                message, payload = player.hear()
                if isinstance(message, Compile):
                    assert on_compile is not None
                    on_compile(player, message)
                else:
                    assert isinstance(message, Call)
                    on_call(player, message, payload)

    return play


def _honest(function: Callable[..., Any]) -> Callable[[Player, Call, bytearray], None]:
    def on_call(player: Player, call: Call, payload: bytearray) -> None:
        buffer = torch.frombuffer(payload, dtype=torch.uint8) if payload else torch.empty(0, dtype=torch.uint8)
        arguments = [wire_tensors.unpack(value, buffer, []) for value in call.arguments]
        player.answer(function(*arguments), payload)

    return on_call


class Workers:
    """FakeSandboxes whose Worker answers calls in a chosen way."""

    Player = Player

    @staticmethod
    def calling(
        on_call: Callable[[Player, Call, bytearray], None],
        on_compile: Callable[[Player, Compile], None] | None = None,
        **keywords: Any,
    ) -> FakeSandbox:
        """Ready, loaded, and then `on_call(player, call, payload)` for each call, `on_compile(player, message)` for
        each question about a kernel."""
        return FakeSandbox(_player(on_call, on_compile), **keywords)

    @staticmethod
    def honest(function: Callable[..., Any] = lambda x: x + x, **keywords: Any) -> FakeSandbox:
        """A Worker that calls `function` on the arguments, and answers as ours does."""
        return FakeSandbox(_player(_honest(function)), **keywords)


@pytest.fixture(scope="session")
def workers() -> type[Workers]:
    return Workers


@pytest.fixture
def no_leaks() -> Any:
    """The test leaves as many open descriptors as it found."""
    from warpgrade.judge.sandbox.process import wait_until

    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, 10.0)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.fixture(scope="session")
def short() -> Limits:
    """Limits for a Worker that is meant to be stopped."""
    return Limits(call_s=1.0, compile_s=1.0, exercise_s=20.0)
