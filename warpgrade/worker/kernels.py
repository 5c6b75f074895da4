"""The Triton kernels that a submission launches: interpreted in a session for each call, compiled when the Judge asks.

As all that the Worker says, what comes out of here is evidence and no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from warpgrade.model.allow_list import guard
from warpgrade.model.compile_errors import definition
from warpgrade.model.findings import Finding
from warpgrade.model.sanitizer import DescriptorFacts, Launch, Session, TensorFacts, traffic_of
from warpgrade.model.signature import TensorStandIn, specialise
from warpgrade.wire.compiled import MAX_DOTS, MAX_NAMES, CompiledKernel, CompileProblem
from warpgrade.wire.messages import (
    MAX_FINDINGS,
    MAX_KERNELS,
    ArgumentTraffic,
    Compile,
    KernelUse,
    Location,
    SanitizerFinding,
)
from warpgrade.worker.module import SubmissionModule, safe_text, sendable
from warpgrade.worker.stores import StoringSession

#: Bytes of JSON that the findings, and the kernels, of one answer may take: a quarter of a header each, so that the
#: rest of it fits too.
_SHARE_BYTES = 16 * 1024
#: In a Worker's life; of more nothing is told but that there were some. They are made where each call defines its own.
_MAX_KNOWN = 1000
_T = TypeVar("_T")
_Version = tuple[tuple[str, str], ...]


@dataclass
class _Known:
    """A version of a kernel that has been launched: one that compiles for float32 may not for float16, and one that
    compiles for a block of 64 elements may not for one of 100."""

    function: JITFunction[Any]
    version: _Version
    largest: Launch
    largest_bytes: int


class Kernels:
    """All kernels that have been launched, for the Worker's life, and what their autotuners chose."""

    def __init__(self, submission: SubmissionModule) -> None:
        self._submission = submission
        self._tuned: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self._known: list[_Known] = []
        self._compiled: dict[Compile, tuple[Launch, CompiledKernel | CompileProblem]] = {}

    def session(self, seed: int) -> StoringSession:
        """A session for one call."""
        return StoringSession(seed=seed, tuned=self._tuned, max_findings=MAX_FINDINGS)

    def uses(self, session: Session) -> tuple[tuple[KernelUse, ...], int]:
        """The kernels that ran in a session, in the order of their first launches, and of how many nothing is told.

        Where an answer has no room for all, it is the traffic of the last ones that is left out first.
        """
        launches: dict[int | None, list[Launch]] = {}
        for launch in session.launches:
            if not launch.tuning and isinstance(launch.kernel, JITFunction):
                launches.setdefault(self._number(launch), []).append(launch)
        unknown = len(launches.pop(None, []))
        uses = [
            KernelUse(number, sendable(own[0].name), len(own), _traffic(own), any(one.tuned for one in own))
            for number, own in launches.items()
            if number is not None
        ]
        size_bytes = sum(map(_size_bytes, uses))
        for index in reversed(range(len(uses))):
            if size_bytes <= _SHARE_BYTES:
                break
            bare = msgspec.structs.replace(uses[index], traffic={})
            size_bytes -= _size_bytes(uses[index]) - _size_bytes(bare)
            uses[index] = bare
        told = _fitting(uses, MAX_KERNELS)
        return told, len(uses) - len(told) + unknown

    def findings(self, session: Session) -> tuple[SanitizerFinding, ...]:
        """What is wrong with the kernels that ran in a session, in the order in which it was found."""
        return _fitting(map(self._finding, session.findings), MAX_FINDINGS)

    def compiled(self, message: Compile) -> CompiledKernel | CompileProblem:
        """The answer to a `Compile`, with lines as the notebook counts. Raises IndexError for an unknown kernel."""
        known = self._known[message.kernel]
        launch, answer = self._compiled.get(message, (None, None))
        if answer is None or launch is not known.largest:
            try:
                found = self._compile(known, message)
                answer = self._relocated(known.function, found)
            except OSError as error:  # the probe has compiled here, so the submission has filled its scratch folder
                return CompileProblem("compiler", message.arch, f"no room to compile in: {error.strerror}")
            except Exception as error:  # noqa: BLE001 - ours, on a kernel that we did not foresee: nobody's zero
                text = f"{type(error).__name__}: {safe_text(error)}"
                return CompileProblem("undecided", message.arch, sendable(text, 500))
            self._compiled[message] = known.largest, answer
        return answer

    # --- launches ------------------------------------------------------------------------------------------------

    def _number(self, launch: Launch) -> int | None:
        """The version's number, None where there are too many; its largest launch is remembered."""
        moved_bytes = launch.total_traffic.bytes_loaded + launch.total_traffic.bytes_stored
        version = _version(launch)
        for number, known in enumerate(self._known):
            if known.function is launch.kernel and known.version == version:
                if moved_bytes > known.largest_bytes:
                    known.largest, known.largest_bytes = launch, moved_bytes
                return number
        if len(self._known) == _MAX_KNOWN:
            return None
        self._known.append(_Known(launch.kernel, version, launch, moved_bytes))
        return len(self._known) - 1

    def _finding(self, finding: Finding) -> SanitizerFinding:
        return SanitizerFinding(
            finding.kind,
            finding.access,
            None if finding.argument is None else sendable(finding.argument),
            finding.index if finding.index is not None and abs(finding.index) <= 2**53 else None,
            finding.program,
            sendable(finding.detail, 500),
            self._place(*finding.line) if finding.line else None,
        )

    def _place(self, file: str, line: int) -> Location | None:
        """Where a line is in the notebook. Its text is left out: the Judge has its own copy."""
        found = self._submission.location(line) if file == str(self._submission.path) else None
        return None if found is None else Location(found.cell, found.line, "")

    # --- compiling -----------------------------------------------------------------------------------------------

    def _compile(self, known: _Known, message: Compile) -> CompiledKernel | CompileProblem:
        launch = known.largest
        given = {name: _stand_in(value) for name, value in launch.arguments.items()}
        try:
            specialisation = specialise(known.function, (), given | launch.constexprs | launch.options)
        except (TypeError, KeyError, ValueError) as error:  # num_warps=3, or an argument of a type that has no place
            return CompileProblem("options", message.arch, sendable(str(error), 500))
        return guard(known.function, specialisation, message.arch, explain=message.explain)

    def _relocated(
        self, function: JITFunction[Any], answer: CompiledKernel | CompileProblem
    ) -> CompiledKernel | CompileProblem:
        """With lines counted in a cell, not in the file that all cells became."""
        path, first_line = definition(function)
        if isinstance(answer, CompiledKernel):
            return self._facts(path, first_line, answer)
        place = self._place(path, answer.line) if answer.line and answer.file == self._submission.path.name else None
        return msgspec.structs.replace(
            answer,
            file="" if place else sendable(answer.file),
            line=place.line if place else 0,
            cell=place.cell if place else 0,
            facts=self._facts(path, first_line, answer.facts) if answer.facts else None,
        )

    def _facts(self, path: str, first_line: int, facts: CompiledKernel) -> CompiledKernel:
        home = self._place(path, first_line)
        cell = home.cell if home else 0

        def at(line: int) -> int:
            place = self._place(path, line) if line else None
            return place.line if place and place.cell == cell else 0

        def all_at(lines: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted({at(line) for line in lines} - {0}))

        def names(given: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(sendable(name) for name in given[:MAX_NAMES])

        return msgspec.structs.replace(
            facts,
            name=sendable(facts.name),
            cell=cell,
            dots=tuple(msgspec.structs.replace(dot, line=at(dot.line)) for dot in facts.dots[:MAX_DOTS]),
            accesses=tuple(
                msgspec.structs.replace(access, line=at(access.line), column=access.column if at(access.line) else 0)
                for access in facts.accesses
            ),
            wide_offset_lines=all_at(facts.wide_offset_lines),
            float64_lines=all_at(facts.float64_lines),
            unaligned=names(facts.unaligned),
            unaligned_pointers=names(facts.unaligned_pointers),
            narrowed_by=names(facts.narrowed_by),
            wide_integers=names(facts.wide_integers),
        )


def _version(launch: Launch) -> _Version:
    """What the compiler makes code of its own for, but for what it knows of divisors of numbers and addresses: with
    those nearly every launch would be new, and hardly one of them compiles otherwise."""
    arguments = ((name, _type(value)) for name, value in launch.arguments.items())
    constants = ((name, str(getattr(value, "__name__", value))) for name, value in launch.constexprs.items())
    options = ((name, str(value)) for name, value in launch.options.items())
    return (*arguments, *constants, *options)


def _type(value: Any) -> str:
    if isinstance(value, DescriptorFacts):
        return f"descriptor of {value.base.dtype}, {len(value.shape)} dimensions"
    if isinstance(value, TensorFacts):
        return str(value.dtype)
    if isinstance(value, tuple):
        return f"({', '.join(map(_type, value))})"
    if type(value) is int:
        if value == 1:  # made a constant, unless the kernel forbids it
            return "one"
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    return type(value).__name__


def _traffic(launches: list[Launch]) -> dict[str, ArgumentTraffic]:
    """Of each argument, summed over launches."""
    return {
        sendable(name): ArgumentTraffic(t.bytes_loaded, t.bytes_stored, t.sectors_loaded, t.sectors_stored)
        for name, t in list(traffic_of(launches).items())[:MAX_KERNELS]
    }


def _stand_in(value: Any) -> Any:
    """What is kept of a launch's argument, as something that a launch takes."""
    if isinstance(value, DescriptorFacts):
        sizes = (list(value.shape), list(value.strides), list(value.block_shape))
        return TensorDescriptor(_stand_in(value.base), *sizes, value.padding)
    if isinstance(value, TensorFacts):
        return TensorStandIn(value.dtype, value.shape, value.strides, value.offset_bytes)
    if isinstance(value, tuple):
        items: Callable[..., Any] = type(value)._make if hasattr(value, "_make") else tuple
        return items(_stand_in(item) for item in value)
    return value


def _size_bytes(item: Any) -> int:
    return len(msgspec.json.encode(item))


def _fitting(items: Iterable[_T], most: int) -> tuple[_T, ...]:
    """The first of them, as many as an answer has room for."""
    kept: list[_T] = []
    left_bytes = _SHARE_BYTES
    for item in items:
        left_bytes -= _size_bytes(item)
        if left_bytes < 0 or len(kept) == most:
            break
        kept.append(item)
    return tuple(kept)
