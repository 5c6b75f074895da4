"""The Worker's loop: assert the sandbox, build the module, answer calls until the Judge hangs up."""

from __future__ import annotations

import inspect
import os
import select
import socket
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from warpgrade.wire.base import Message
from warpgrade.wire.channel import Channel, PeerClosed
from warpgrade.wire.messages import (
    MAX_PAYLOAD_BYTES,
    Call,
    Compile,
    JudgeMessage,
    Load,
    Loaded,
    Move,
    Problem,
    Raised,
    Ran,
    Ready,
    Returned,
    Run,
    Share,
    Shared,
    Unsafe,
)
from warpgrade.worker import startup
from warpgrade.worker.module import SourceCell, SubmissionModule, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpgrade.worker.kernels import Kernels
    from warpgrade.worker.place import Place
    from warpgrade.worker.stores import StoringSession
    from warpgrade.worker.timed import Moving, SharedBlocks

#: The Judge keeps the clock; the Worker itself waits as long as it takes.
_FOR_EVER_S = 10.0**6  # poll counts milliseconds in an int


def main(descriptor: int, plan_json: str) -> None:
    """Serve the socket `descriptor` until the other end closes it."""
    plan = msgspec.json.decode(plan_json, type=startup.Plan)
    channel: Channel[JudgeMessage] = Channel(socket.socket(fileno=descriptor), JudgeMessage)
    if plan.sandboxed and (found := startup.problems(plan)):
        channel.send(Unsafe(found[:50]), timeout_s=_FOR_EVER_S)
        return
    if not plan.sandboxed:
        threading.Thread(target=_end_with_the_judge, args=(descriptor,), name="hang-up", daemon=True).start()
    try:
        serve(channel, gpu=plan.gpu)
    except PeerClosed:
        return


def _end_with_the_judge(descriptor: int) -> None:
    """Where no sandbox ends it, a Worker that is busy when the Judge is killed would stay busy for ever."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is always reported
    poll.poll()
    os._exit(0)


def serve(channel: Channel[JudgeMessage], *, gpu: bool = False) -> None:
    """Import torch and triton, say so, and answer. `gpu`: kernels are launched there, and not interpreted."""
    # Imported here, after the assertion, so that a bad sandbox is reported in milliseconds.
    import torch
    import triton

    from warpgrade.worker import watch
    from warpgrade.worker.place import Interpreted, OnGpu

    watch.install()
    # A notebook on a laptop sets TRITON_INTERPRET; here it would take away the function that can be compiled as well.
    triton.knobs.runtime.interpret = False
    torch.set_num_threads(1)
    _stand_in_for_the_notebook_package()
    place = OnGpu() if gpu else Interpreted()
    if wrong := place.prepare():
        channel.send(Unsafe([wrong]), timeout_s=_FOR_EVER_S)
        return
    channel.send(Ready(), timeout_s=_FOR_EVER_S)
    answering = Answering(place)
    while True:
        frame = channel.receive(timeout_s=_FOR_EVER_S)
        answer, payload = answering.answer(frame.message, frame.payload, frame.descriptors)
        channel.send(answer, payload, timeout_s=_FOR_EVER_S)


class Answering:
    """One submission, from its `Load` on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._submission: SubmissionModule | None = None
        self._kernels: Kernels | None = None
        self._handles: list[Any] = []
        self._blocks: SharedBlocks | None = None
        self._moving: Moving | None = None

    def answer(
        self, message: JudgeMessage, payload: bytearray, descriptors: Sequence[int] = ()
    ) -> tuple[Message, bytes | bytearray]:
        """The answer to one message, and its payload. Raises RuntimeError for a call before a load."""
        if isinstance(message, Load):
            return self._load(message, payload), b""
        if isinstance(message, Share):
            from warpgrade.worker.timed import SharedBlocks

            self._blocks = SharedBlocks(message, descriptors, self._place)
            return Shared(), b""
        if isinstance(message, Move):
            from warpgrade.worker.timed import Moving

            self._moving = self._moving or Moving(self._place.device)
            self._moving.move(message)
            self._place.synchronize()
            return Ran(), b""
        if self._submission is None or self._kernels is None:
            raise RuntimeError(f"{type(message).__name__} before Load")
        if isinstance(message, Compile):
            return self._kernels.compiled(message), b""
        if isinstance(message, Run):
            if self._blocks is None:
                raise RuntimeError("Run before Share")
            return self._run(self._submission, self._kernels, self._blocks, message), b""
        return self._call(self._submission, self._kernels, message, payload)

    def _load(self, message: Load, payload: bytearray) -> Loaded:
        from warpgrade.worker.kernels import Kernels
        from warpgrade.worker.stores import StoringSession

        cells = [
            SourceCell(cell.number, payload[cell.offset_bytes : cell.offset_bytes + cell.length_bytes].decode("utf-8"))
            for cell in message.cells
        ]
        folder = Path(tempfile.mkdtemp(prefix="submission-"))
        os.chdir(folder)
        # A notebook tries its kernels out at top level (`y = relu(x)`); what is wrong with them is said of calls.
        with self._place.running(StoringSession()):
            self._submission = SubmissionModule(cells, folder, statement_limit_s=message.statement_limit_s)
        self._kernels = Kernels(self._submission)
        # All of it has to fit one header, also where JSON needs six bytes a character.
        return Loaded([Problem(p.exception, p.text[:300], p.location) for p in self._submission.problems])

    def _call(
        self, submission: SubmissionModule, kernels: Kernels, call: Call, payload: bytearray
    ) -> tuple[Message, bytes | bytearray]:
        import torch

        from warpgrade.wire import tensors
        from warpgrade.worker import watch

        handles = self._handles
        try:
            function = handles[call.handle] if call.handle is not None else getattr(submission.module, call.function)
        except (AttributeError, IndexError):
            text = f"the notebook defines no {call.function}"
            return Raised(Problem("NameError", text), "lookup"), b""
        buffer = self._place.take(payload)  # the tensors handed to the student are views of it
        arguments = [tensors.unpack(value, buffer, handles) for value in call.arguments]
        keywords = {name: tensors.unpack(value, buffer, handles) for name, value in call.keywords.items()}
        try:
            if call.grid is not None:
                function = function[tuple(call.grid)]
            elif (signature := _signature(function)) is not None:
                signature.bind(*arguments, **keywords)
        except (TypeError, ValueError) as error:
            return Raised(Problem("TypeError", safe_text(error)), "signature"), b""
        session = kernels.session(call.seed)
        seen = watch.Watch(session)
        try:
            with self._place.running(session):
                result = watch.watching(seen, lambda: function(*arguments, **keywords))
            left = self._place.give_back(buffer)
            packer = tensors.ResultPacker(len(payload), handles, max_bytes=MAX_PAYLOAD_BYTES)
            value = packer.value(result)
            stored = _stored(session, result, buffer)
            answer = bytearray(packer.end_bytes)
            if payload:
                torch.frombuffer(answer, dtype=torch.uint8)[: len(payload)].copy_(left)
            for start, block in packer.blocks:
                answer[start : start + len(block)] = block
            uses, left_out = kernels.uses(session)
        except BaseException as error:  # noqa: BLE001 - student code: whatever it raises is an answer, not our end
            problem = submission.problem(error)
            uses, left_out = kernels.uses(session)
            return Raised(problem, "call", uses, kernels.findings(session), left_out), b""
        finally:
            session.let_go()
        launches = sum(not launch.tuning for launch in session.launches)
        findings = kernels.findings(session)
        return (
            Returned(
                value, len(payload), seen.operations, launches, uses, findings, left_out, seen.elements_read, stored
            ),
            answer,
        )

    def _run(self, submission: SubmissionModule, kernels: Kernels, blocks: SharedBlocks, run: Run) -> Message:
        try:
            function = getattr(submission.module, run.function)
        except AttributeError:
            return Raised(Problem("NameError", f"the notebook defines no {run.function}"), "lookup")
        try:
            if run.grid is not None:
                function = function[tuple(run.grid)]
        except (TypeError, ValueError) as error:
            return Raised(Problem("TypeError", safe_text(error)), "signature")
        session = kernels.session(run.seed)
        try:
            with self._place.running(session):
                blocks.run(run, function)
            self._place.synchronize()
            uses, left_out = kernels.uses(session)
            return Ran(uses, kernels.findings(session), left_out)
        except BaseException as error:  # noqa: BLE001 - student code: whatever it raises is an answer, not our end
            problem = submission.problem(error)
            uses, left_out = kernels.uses(session)
            return Raised(problem, "call", uses, kernels.findings(session), left_out)
        finally:
            session.let_go()


def _stored(session: StoringSession, result: Any, buffer: Any) -> bool:
    """Whether a kernel stored to one of the tensors in a result, arguments aside. True where there is none."""
    import torch

    items = (
        list(result.values()) if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else [result]
    )
    made = [item for item in items if isinstance(item, torch.Tensor) and item.numel()]
    arguments = buffer.untyped_storage()._cdata
    made = [item for item in made if item.untyped_storage()._cdata != arguments]
    return not made or any(map(session.stored_to, made))


def _signature(function: Any) -> inspect.Signature | None:
    """None where it is not known, as of `SomeAutogradFunction.apply`: then the call itself says what does not fit.

    Raises TypeError for what cannot be called.
    """
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _stand_in_for_the_notebook_package() -> None:
    """`from warpgrade.notebook import check` stands in a notebook's first cell; here these names do nothing."""

    def nothing(*args: Any, **kwargs: Any) -> None:
        """Stand-in: checks, hints and plots belong to the notebook, not to the Worker."""

    def look_up(name: str) -> Any:
        # inspect and pickle ask every module for dunder names, and must hear that there are none
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing

    module = types.ModuleType("warpgrade.notebook")
    module.__getattr__ = look_up  # type: ignore[method-assign]
    sys.modules["warpgrade.notebook"] = module
