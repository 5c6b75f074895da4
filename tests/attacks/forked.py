"""A Worker forked from a process that has imported torch: 0.1 s instead of 3, and no protection at all.

For attacks whose defence is the Judge's comparison, contract, canaries, clock or lint. What touches files, processes
or memory goes through the real sandbox. `python -I forked.py FD FOLDER` is the process that forks; it imports the
package in FOLDER, the one under test.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

_ANSWER = struct.Struct("<iiB")  # pid, wait status, whether it had ended by itself


def serve(descriptor: int) -> None:
    """Fork a Worker for each descriptor that comes; end and reap one for each pid that comes."""
    import numpy
    import torch
    import triton.language  # noqa: F401

    from warpgrade.worker import kernels, probe, watch  # noqa: F401
    from warpgrade.worker import main as worker

    torch.set_num_threads(1)
    assert numpy
    with socket.socket(fileno=descriptor) as wire:
        while True:
            block, descriptors, _, _ = socket.recv_fds(wire, 4, 2)
            if not block:
                return
            if descriptors:
                pid = os.fork()
                if pid == 0:
                    os.setsid()
                    wire.close()
                    os.dup2(descriptors[1], 1)
                    os.dup2(descriptors[1], 2)
                    worker.main(descriptors[0], '{"sandboxed": false}')
                    os._exit(0)
                for end in descriptors:
                    os.close(end)
                wire.sendall(_ANSWER.pack(pid, 0, 0))
                continue
            (pid,) = struct.unpack("<i", block)
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
            wire.sendall(_ANSWER.pack(pid, status, bool(done)))


class ForkedSandbox:
    """Implements `Sandbox`. It says that it is isolated, so that the marks of our own attacks can be added up."""

    isolated = True

    def __init__(self, temporary: Path) -> None:
        import warpgrade

        self._ours, theirs = socket.socketpair()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
        self._server = subprocess.Popen(
            [sys.executable, "-I", __file__, str(theirs.fileno()), str(Path(warpgrade.__file__).parents[1])],
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd=temporary,
        )
        theirs.close()

    def close(self) -> None:
        self._ours.close()
        self._server.wait(20)

    def start(self, limits, environment, secrets):
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe2(os.O_NONBLOCK)
        os.set_blocking(writer, True)
        socket.send_fds(self._ours, [b"fork"], [theirs.fileno(), writer])
        theirs.close()
        os.close(writer)
        pid, _, _ = _ANSWER.unpack(self._ours.recv(_ANSWER.size))
        return _Running(self._ours, ours, reader, pid)


class _Running:
    """Implements `Running`."""

    def __init__(self, server: socket.socket, sock: socket.socket, reader: int, pid: int) -> None:
        self.socket = sock
        self._server = server
        self._reader = reader
        self._pid = pid
        self._end = None

    def output(self) -> str:
        with contextlib.suppress(OSError):
            return os.read(self._reader, 4000).decode("utf-8", "replace")
        return ""

    def processor_s(self) -> float:
        from warpgrade.judge.sandbox.process import processor_s

        return processor_s(self._pid)

    def kill(self):
        from warpgrade.judge.sandbox import Exit

        if self._end is None:
            self._server.sendall(struct.pack("<i", self._pid))
            _, status, by_itself = _ANSWER.unpack(self._server.recv(_ANSWER.size))
            self.socket.close()
            os.close(self._reader)
            code = os.waitstatus_to_exitcode(status)
            how = f"it ended by itself with status {code}" if by_itself else "it was ended by the judge"
            self._end = Exit(how)
        return self._end


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])  # before what is installed, which may be another version
    serve(int(sys.argv[1]))
