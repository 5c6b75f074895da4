"""`submission` as a suite sees it: a remote call that reads like a function. Judge's side of the wire.

Everything that goes wrong after the Worker has said `Ready` is the student's: it died, it did not answer, it answered
nonsense. Everything before is ours, because no student code has run yet.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from warpgrade.course import Exercise
from warpgrade.judge import contract, lint
from warpgrade.judge.arguments import take_arguments
from warpgrade.judge.failure import Failure
from warpgrade.judge.kernels import failure_of_finding, failure_of_many, failure_of_problem
from warpgrade.judge.raised import failure_of_raised
from warpgrade.judge.repeated import own_line, own_reason
from warpgrade.judge.sandbox import START_LIMIT_S, Exit, Running, Sandbox, SandboxUnavailable
from warpgrade.judge.verdict import KernelReport, Outcome, Tier
from warpgrade.model.architectures import DEFAULT_ARCHITECTURES
from warpgrade.submission import Submission
from warpgrade.wire import Channel, PeerClosed, TimedOut, WireError
from warpgrade.wire.base import Message
from warpgrade.wire.compiled import RESOURCE_PROBLEMS, CompiledKernel, CompileProblem
from warpgrade.wire.messages import (
    Call,
    Cell,
    Compile,
    KernelUse,
    Load,
    Loaded,
    Location,
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
    WorkerMessage,
)
from warpgrade.wire.tensors import Handle, pack_arguments, unpack_returned

#: One top-level statement of the notebook; see worker/module.py.
STATEMENT_LIMIT_S = 10.0
#: Kernels about which students are told, each compiled twice with trials: about a second each.
MAX_REPORTED = 4
#: Versions of one kernel, for other types, blocks and options, that are all compiled: a few tenths of a second each.
#: The exercises' tests ask for up to seven blocks, or four types of elements.
MAX_COMPILED = 12
#: Of further ones, one in so many, drawn anew at each call and by nobody foreseen: a kernel may count its versions.
ONE_IN = 4
#: Of the time that it waited, a call that really computes has had the processor for more than this: loops that never
#: end had 0.93 of it and more, two side by side on two cores that others used too. Below, it may be the machine.
BUSY_SHARE = 0.8
_OUTSIDE = "Reading or writing far outside of a tensor does that: does every load and store have a mask?"


class RemoteSubmission:
    """The submission behind one exercise, in a Worker of its own. `submission.name(...)` calls a function of it."""

    def __init__(
        self, exercise: Exercise, submission: Submission, sandbox: Sandbox, tier: Tier, secret_paths: list[Path]
    ) -> None:
        self._exercise = exercise
        self._submission = submission
        self._sandbox = sandbox
        self._tier = tier
        self._secrets = secret_paths
        self._running: Running | None = None
        self._channel: Channel[WorkerMessage] | None = None
        self._ready = self._loaded = False
        #: Whether a Worker has ever passed its start-up assertion. Without one nothing was judged.
        self.was_ready = False
        #: A call timed out without having had the processor, or was killed by nobody that we know.
        self.disturbed = False
        self._spent_s = 0.0
        self._problems: list[Problem] = []
        #: Functions that this Worker has been asked to call.
        self._called: set[str] = set()
        #: Of this Worker's life, by number: the call in which each kernel moved most.
        self._uses: dict[int, KernelUse] = {}
        #: Likewise, by number and whether it is tuned: why it does not run, or None.
        self._refusals: dict[tuple[int, bool], CompileProblem | None] = {}
        #: Versions that compile, by the kernel's name.
        self._passed: Counter[str] = Counter()
        #: The Triton kernels of the last call.
        self.kernels: tuple[KernelUse, ...] = ()
        #: Input tensors of the last call, so that a comparison can say "this is a copy of x".
        self.last_inputs: dict[str, torch.Tensor] = {}
        self.output = ""

    # --- what suites use ----------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **keywords: self._call(name, arguments, keywords)

    def launch(self, name: str, grid: tuple[int, ...], *arguments: Any, **keywords: Any) -> None:
        """Launch the bare kernel `name` on `grid`; output arguments are written into the tensors that were passed.

        Raises Failure for whatever the submission does, SandboxUnavailable where no Worker can be had, TypeError for a
        call that does not fit the declaration (the suite's mistake).
        """
        self._call(name, arguments, keywords, grid=grid)

    def compiled(self, arch: int = DEFAULT_ARCHITECTURES[0]) -> list[CompiledKernel]:
        """What the compiler makes of the last call's kernels for compute capability `arch`, one for each of `kernels`.

        Made in the Worker, like all that is said of kernels: a lint, not a proof. Raises Failure where one does not run
        there, and as `launch`.
        """
        answers = [self._compile(use, arch, explain=False) for use in self.kernels]
        for answer in answers:
            if isinstance(answer, CompileProblem):
                raise failure_of_problem(answer, self._own_place(answer))
        return [answer for answer in answers if isinstance(answer, CompiledKernel)]

    def share(self, descriptors: Sequence[int], sizes_bytes: Sequence[int]) -> None:
        """Show the Worker a timed message's blocks of inputs and outputs. The descriptors stay the caller's.

        Raises as `launch`.
        """
        channel = self._ensure_loaded()
        limit_s, what = self._exercise.limits.call_s, "Taking over the memory of the timed calls"
        answer, _ = self._ask(channel, Share(list(sizes_bytes)), bytearray(), limit_s, what, descriptors=descriptors)
        if not isinstance(answer, Shared):
            raise self._malformed("the shared memory was not taken over")

    def run(self, message: Run, *, first: bool) -> None:
        """Have a timed message answered, after `share`. The `first` one may take as long as compiling and tuning may.

        Raises as `launch`.
        """
        limits = self._exercise.limits
        what = f"A series of calls of {message.function}"
        limit_s = limits.compile_s if first else limits.call_s
        answer, _ = self._ask(self._ensure_loaded(), message, bytearray(), limit_s, what, timed=True)
        if not isinstance(answer, (Ran, Raised)):
            raise self._malformed("no answer to a timed message")
        self._judge_findings(message.function, answer, message.seed)
        if isinstance(answer, Raised):
            failure = failure_of_raised(message.function, answer, self._exercise, self._submission, self._problems)
            if not failure.outcome.decided:
                # The tests of correctness have run this code: that it cannot be run is now of its own making.
                failure.outcome, failure.sentence = Outcome.CRASHED, f"{what} raised an exception."
            raise failure

    def move(self, size_bytes: int, times: int) -> None:
        """Have the Worker copy so many bytes so often, in memory of its own. For one that holds no student's code.

        Raises as `launch`.
        """
        answer, _ = self._ask(
            self._ensure_ready(),
            Move(size_bytes, times),
            bytearray(),
            self._exercise.limits.call_s,
            "A copy",
            timed=True,
        )
        if not isinstance(answer, Ran):
            raise self._malformed("no answer to a copy")

    def kernel_reports(self) -> list[KernelReport]:
        """What is worth telling about each kernel of this Worker's life, those that moved most first.

        For students to read, so only to be asked before a hidden test has called anything. Raises Failure if the Worker
        does not answer.
        """
        uses = sorted(self._uses.values(), key=lambda use: use.useful_bytes, reverse=True)
        by_name = {use.name: use for use in reversed(uses)}  # one for each name, the largest
        shown = [use for use in uses if by_name[use.name] is use][:MAX_REPORTED]
        return [
            KernelReport(
                name=use.name,
                launches=use.launches,
                traffic=use.traffic,
                tuned=use.tuned,
                compiled=[self._compile(use, arch, explain=True) for arch in DEFAULT_ARCHITECTURES],
            )
            for use in shown
        ]

    # --- life of the Worker --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the Worker without waiting for it, so that its imports run beside the Judge's own.

        Raises SandboxUnavailable.
        """
        self._running = self._sandbox.start(self._exercise.limits, {}, self._secrets)
        self._channel = Channel(self._running.socket, WorkerMessage)
        self._ready = self._loaded = False
        self.output = ""
        self._uses, self._refusals, self._passed, self._called, self.kernels = {}, {}, Counter(), set(), ()

    def wait_until_ready(self) -> None:
        """Wait until the Worker has passed its start-up assertion; nothing of the submission is loaded.

        Raises SandboxUnavailable.
        """
        self._ensure_ready()

    def close(self) -> Exit | None:
        """End the Worker, and say how it ended; None if there was none."""
        if self._running is None:
            return None
        self.output = self._running.output()
        end = self._running.kill()
        self._running = self._channel = None
        self._uses, self._refusals, self._passed, self._called, self.kernels = {}, {}, Counter(), set(), ()
        return end

    def notices(self) -> list[str]:
        """Statements of the notebook that raised and were skipped, as sentences for the student."""
        return [
            f"{f'Cell {p.location.cell}, line {p.location.line}' if p.location else 'A statement'} was skipped: "
            f"{own_reason(p.exception)}."
            for p in self._problems
        ]

    def _ensure_loaded(self) -> Channel[WorkerMessage]:
        channel = self._ensure_ready()
        if not self._loaded:
            self._load(channel)
            self._loaded = True
        return channel

    def _ensure_ready(self) -> Channel[WorkerMessage]:
        """A Worker that has passed its start-up assertion, and has seen nothing of the submission."""
        if self._running is None or self._channel is None:
            self.start()
        channel = self._channel
        assert channel is not None
        if not self._ready:
            self._await_ready(channel)
            self._ready = True
        return channel

    def _await_ready(self, channel: Channel[WorkerMessage]) -> None:
        try:
            message = channel.receive(timeout_s=START_LIMIT_S).message
        except (TimedOut, WireError) as error:
            output = self._running.output() if self._running else ""
            end = self.close()
            how = end.description if end and not isinstance(error, TimedOut) else f"no answer in {START_LIMIT_S:.0f} s"
            raise SandboxUnavailable(f"the worker did not start ({how}): {output[-1500:]}") from error
        if isinstance(message, Unsafe):
            self.close()
            raise SandboxUnavailable("the sandbox is not tight: " + "; ".join(message.reasons))
        if not isinstance(message, Ready):
            self.close()
            raise SandboxUnavailable("the worker did not say that it is ready")
        self.was_ready = True

    def _load(self, channel: Channel[WorkerMessage]) -> None:
        payload, cells = bytearray(), []
        for cell in self._submission.cells:
            text = cell.source.encode("utf-8")
            cells.append(Cell(cell.number, len(payload), len(text)))
            payload += text
        what = "Running the notebook's definitions"
        loaded, _ = self._ask(channel, Load(cells, STATEMENT_LIMIT_S), payload, self._exercise.limits.compile_s, what)
        if not isinstance(loaded, Loaded):
            raise self._malformed("no list of what the notebook defines")
        self._problems = [
            msgspec.structs.replace(p, location=own_line(self._submission, p.location, chosen=False))
            for p in loaded.problems
        ]

    def _ask(
        self,
        channel: Channel[WorkerMessage],
        message: Message,
        payload: bytearray,
        limit_s: float,
        what: str,
        look: str = "",
        *,
        descriptors: Sequence[int] = (),
        timed: bool = False,
    ) -> tuple[WorkerMessage, bytearray]:
        """Send and receive within `limit_s` and what is left of the exercise's time. Raises Failure, which says that
        `what` failed and where to `look`.

        `timed`: a clock is running, so the machine's processes are not looked through before, which takes milliseconds.
        """
        left_s = self._left_s()
        started = time.monotonic()
        busy_s = 0.0 if timed else self._processor_s()
        try:
            if not channel.quiet():
                raise WireError("an answer was there before the call")
            channel.send(message, payload, timeout_s=min(limit_s, left_s), descriptors=descriptors)
            frame = channel.receive(timeout_s=max(0.0, min(limit_s, left_s) - (time.monotonic() - started)))
            return frame.message, frame.payload
        except TimedOut as error:
            busy_s = self._processor_s() - busy_s
            waited_s = time.monotonic() - started
            self.disturbed |= timed or busy_s < BUSY_SHARE * waited_s
            self.close()
            if left_s < limit_s:
                raise self._out_of_time() from error
            raise Failure(
                Outcome.TIMED_OUT,
                f"{what} took more than {limit_s:.0f} s. {look or 'Is there a loop that never ends?'}",
                evidence={"processor time": f"{busy_s:.1f} of {waited_s:.1f} s"},
            ) from error
        except PeerClosed as error:
            end = self.close()
            assert end is not None
            self.disturbed |= end.killed_by_unknown
            if end.out_of_memory:
                raise Failure(Outcome.OUT_OF_MEMORY, f"{what} ended early: {end.description}.") from error
            # An exit status or a signal is a number that the submission may choose, after it has seen the inputs.
            raise Failure(
                Outcome.CRASHED,
                f"{what} ended the whole process. {look or _OUTSIDE}",
                evidence={"end": end.description, "output": self.output[-1500:]},
            ) from error
        except WireError as error:
            raise self._malformed(str(error)) from error
        finally:
            self._spent_s += time.monotonic() - started

    def _processor_s(self) -> float:
        return self._running.processor_s() if self._running is not None else 0.0

    def _left_s(self) -> float:
        """What is left of the exercise's time. Raises Failure when nothing is."""
        left_s = self._exercise.limits.exercise_s - self._spent_s
        if left_s <= 0:
            self.close()
            raise self._out_of_time()
        return left_s

    def _out_of_time(self) -> Failure:
        limit_s = self._exercise.limits.exercise_s
        return Failure(Outcome.TIMED_OUT, f"All tests of this exercise together took more than {limit_s:.0f} s.")

    def _malformed(self, detail: str) -> Failure:
        self.close()
        return Failure(
            Outcome.REFUSED,
            "The answer was not one that the course's own code sends: reaching for the judge's wire is refused.",
            evidence={"wire": detail[:500]},
        )

    # --- calls ---------------------------------------------------------------------------------------------------

    def _call(
        self,
        name: str,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        *,
        grid: tuple[int, ...] | None = None,
        handle: int | None = None,
    ) -> Any:
        # The declaration is about the exercise's own function, not about one that it returned.
        own = [] if handle is not None else self._exercise.arguments
        declared = [argument.name for argument in own if argument.name not in keywords]
        if handle is None and name == self._exercise.id and len(arguments) > len(declared):
            raise TypeError(f"{name} is declared with {len(declared)} arguments, and the suite passes {len(arguments)}")
        names = [declared[i] if i < len(declared) else f"argument {i + 1}" for i in range(len(arguments))]
        named = dict(zip(names, arguments, strict=True))
        packed = pack_arguments(named, keywords)
        everything = named | keywords
        self.last_inputs = {
            key: value
            for key, value in everything.items()
            if isinstance(value, torch.Tensor) and not self._is_output(key)
        }
        self._left_s()  # before a Worker is started for nothing
        channel = self._ensure_loaded()
        seed = secrets.randbits(32)
        on_grid = list(grid) if grid is not None else None
        message = Call(name, packed.arguments, packed.keywords, on_grid, handle, seed)
        limits = self._exercise.limits
        # On a GPU the first call of a function compiles and tunes.
        first = self._tier is Tier.GPU and name not in self._called
        self._called.add(name)
        limit_s = limits.compile_s if first else limits.call_s
        answer, payload = self._ask(channel, message, packed.payload, limit_s, f"{name}(...)")
        if not isinstance(answer, (Raised, Returned)):
            raise self._malformed("no answer to a call")
        if not (isinstance(answer, Raised) and answer.problem.exception == "NotImplementedError"):
            self._guard(answer.kernels)
        self._judge_findings(name, answer, seed)
        if isinstance(answer, Raised):
            raise failure_of_raised(name, answer, self._exercise, self._submission, self._problems)
        try:
            outputs = {name for name in packed.tensors if self._is_output(name)}
            take_arguments(packed, payload, answer.arguments_offset_bytes, everything, outputs)
            value = unpack_returned(answer.value, payload, offset_bytes=len(packed.payload))
        except WireError as error:
            raise self._malformed(str(error)) from error
        tensors = [value for value in everything.values() if isinstance(value, torch.Tensor)]
        empty = bool(tensors) and not any(tensor.numel() for tensor in tensors)
        answers_contract = handle is None and name == self._exercise.id
        new_tensor = answers_contract and any(returned.kind == "tensor" for returned in self._exercise.returns)
        if self._tier is Tier.MODEL:  # on a GPU no library has kernels
            lint.check_own_work(self._exercise, answer, empty=empty, new_tensor=new_tensor)
        if answers_contract:
            value = contract.check_returned(self._exercise, everything, value)
        elif handle is not None:
            value = contract.plain(self._exercise, value)
        return self._callable(name, value)

    # --- kernels -------------------------------------------------------------------------------------------------

    def _judge_findings(self, name: str, answer: Returned | Raised | Ran, seed: int) -> None:
        """Raises Failure for what is said to be wrong with the kernels that ran before this answer."""
        self.kernels = answer.kernels
        if answer.kernels_left_out:
            raise failure_of_many(name, answer.kernels_left_out)
        if answer.findings:
            finding = answer.findings[0]
            place = own_line(self._submission, finding.location)
            raise failure_of_finding(finding, self._submission, place, seed)

    def _guard(self, uses: tuple[KernelUse, ...]) -> None:
        """Raises Failure for a kernel that compiles for no GPU: the interpreter runs much that Triton has not."""
        for use in uses:
            known = self._uses.get(use.number)
            if known is None or known.useful_bytes < use.useful_bytes:
                self._uses[use.number] = use
            key = use.number, use.tuned
            few = self._passed[use.name] < MAX_COMPILED
            if key not in self._refusals and (few or secrets.randbelow(ONE_IN) == 0):
                self._refusals[key] = self._refusal(use)
                self._passed[use.name] += self._refusals[key] is None
            if problem := self._refusals.get(key):
                raise failure_of_problem(problem, self._own_place(problem))

    def _refusal(self, use: KernelUse) -> CompileProblem | None:
        """Why it runs on none of the architectures; None if it does on one."""
        # A tuner passes over configurations that need too much; facts that cannot be read are our own fault.
        harmless = {"unreadable", *(RESOURCE_PROBLEMS if use.tuned else ())}
        problem: CompileProblem | None = None
        for arch in DEFAULT_ARCHITECTURES:
            answer = self._compile(use, arch, explain=False)
            if isinstance(answer, CompiledKernel) or answer.kind in harmless:
                return None
            if problem is None or problem.kind != "undecided":  # where one is not known, the others prove nothing
                problem = answer
        return problem

    def _compile(self, use: KernelUse, arch: int, *, explain: bool) -> CompiledKernel | CompileProblem:
        message = Compile(use.number, arch, explain)
        what, limit_s = "Compiling a kernel", self._exercise.limits.compile_s
        look = "Is a block very large, or a loop unrolled very often?"
        answer, _ = self._ask(self._ensure_loaded(), message, bytearray(), limit_s, what, look)
        if not isinstance(answer, (CompiledKernel, CompileProblem)) or answer.arch != arch:
            raise self._malformed("no answer to a compilation")
        return answer

    def _own_place(self, problem: CompileProblem) -> Location | None:
        return (
            own_line(self._submission, Location(problem.cell, problem.line, ""))
            if problem.cell and problem.line
            else None
        )

    def _is_output(self, name: str) -> bool:
        argument = self._exercise.argument(name)
        return argument is not None and argument.output

    def _callable(self, name: str, value: Any) -> Any:
        """Handles become functions, so that `predict(images)` reads as it should."""
        if isinstance(value, Handle):
            number = value.number
            return lambda *arguments, **keywords: self._call(name, arguments, keywords, handle=number)
        if isinstance(value, tuple):
            return tuple(self._callable(name, item) for item in value)
        return value
