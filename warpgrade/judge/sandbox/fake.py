"""The one shipped fake: a Python function plays the Worker, in a thread, over a real socketpair.

With it every test of the Judge runs without bubblewrap, torch in a child, or student code.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from warpgrade.course import Limits
from warpgrade.judge.sandbox import Exit
from warpgrade.judge.sandbox.process import socketpair


class FakeSandbox:
    """Implements `Sandbox`. `play(socket)` is called with the Worker's end for each start.

    `busy` is the share of the time for which the Worker has the processor.
    """

    def __init__(
        self,
        play: Callable[[socket.socket], None],
        *,
        isolated: bool = True,
        end: Exit | None = None,
        busy: float = 1.0,
    ) -> None:
        self.isolated = isolated
        self._play = play
        self._end = end or Exit("it ended by itself with status 0")
        self._busy = busy
        self.started = 0

    def start(self, limits: Limits, environment: dict[str, str], secrets: list[Path]) -> FakeRunning:
        """See `Sandbox.start`."""
        self.started += 1
        return FakeRunning(self._play, self._end, self._busy)


class FakeRunning:
    """Implements `Running`."""

    def __init__(self, play: Callable[[socket.socket], None], end: Exit, busy: float) -> None:
        self.socket, theirs = socketpair()
        self._end, self._busy = end, busy

        def run() -> None:
            with theirs:
                play(theirs)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def kill(self) -> Exit:
        """Hang up; the end is what the test said."""
        self.socket.close()
        self._thread.join(5.0)
        return self._end

    def output(self) -> str:
        """Nothing is printed."""
        return ""

    def processor_s(self) -> float:
        """As much as the test said."""
        return time.monotonic() * self._busy
