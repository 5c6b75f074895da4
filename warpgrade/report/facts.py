"""Sentences for students from what a kernel became: what is so, why, and what to try.

A reason is said only where it is known: from the types and values of the launch, from what `tl.dot` was asked for, or
by having compiled again without the supposed cause. Otherwise the fact stands alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

import msgspec

from warpgrade.model.architectures import ARCHITECTURES, MAX_REGISTERS_PER_THREAD
from warpgrade.wire.compiled import CompiledKernel, CompileProblem

Result = CompiledKernel | CompileProblem
RemarkKind = Literal[
    "problem", "no_tensor_cores", "older_tensor_cores", "tf32", "narrow_access", "spills", "float64", "wide_offsets"
]
#: Rows that one instruction of the newer tensor cores takes at least, and warps that give it together (PTX ISA,
#: "wgmma" and "tcgen05.mma": m64, issued by a warpgroup of four warps for wgmma).
_NEWER_TENSOR_CORES = {90: "wgmma", 100: "tcgen05"}
_NEWER_ROWS = 64
_WARPGROUP = 4
#: What to do about what Triton says, by a part of its text.
_HINTS = (
    (r"must be of type tl\.constexpr|must have type `constexpr", "declare the parameter as `NAME: tl.constexpr`"),
    (r"must be a power of 2", "round up with triton.next_power_of_2 and mask the rest"),
    (r"Input shapes should have", "take a block at least that large"),
    (r"Loop-carried variable", "start it before the loop with the type that it gets inside, such as 0.0"),
    (r"cannot reassign constexpr", "start it before the loop with a tensor, such as tl.zeros"),
    (r"equal reduction dimensions", "the columns of the first operand must be as many as the rows of the second"),
    (r"exceeds triton maximum tensor numel", "take a smaller block and a loop"),
)

#: Rows that are left out where no architecture has anything else to say.
_UNREMARKABLE = {
    "shared memory": "0 KB", "tensor cores": "none", "bulk copies": "0", "atomics": "0", "barriers": "0",
}  # fmt: skip


class Remark(msgspec.Struct, frozen=True):
    """One sentence or two about a kernel. `line` counts from 1 in its file; 0 where it concerns no single line."""

    kind: RemarkKind
    text: str
    line: int = 0


def remarks(result: Result) -> list[Remark]:
    """All that is worth saying to a student, most serious first; [] for a kernel without fault."""
    if isinstance(result, CompileProblem):
        return [_problem(result), *(remarks(result.facts) if result.facts else [])]
    found = [_spills(result), *_tensor_cores(result), _tf32(result), _narrow(result), _float64(result), _wide(result)]
    return [remark for remark in found if remark is not None]


def one_table(results: Mapping[int, Result]) -> str:
    """A text table: one column for each architecture, one row for each fact that is not plainly absent, without a line
    break at its end."""
    rows: dict[str, list[str]] = defaultdict(list)
    for result in results.values():
        facts = result.facts if isinstance(result, CompileProblem) else result
        rows["runs"].append("yes" if isinstance(result, CompiledKernel) else f"no: {result.kind.replace('_', ' ')}")
        for name, value in _cells(facts).items():
            rows[name].append(value)
    for name, nothing in _UNREMARKABLE.items():
        if set(rows[name]) <= {nothing, "-"}:
            del rows[name]
    table = [["", *(f"sm_{arch}" for arch in results)], *([name, *cells] for name, cells in rows.items())]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in table
    )


def _cells(facts: CompiledKernel | None) -> dict[str, str]:
    """The rows of one architecture, all "-" where the kernel does not compile."""
    names = (
        "registers a thread", "spilled bytes", "shared memory", "tensor cores", "loads", "stores",
        "bulk copies", "atomics", "barriers", "warps", "occupancy at most",
    )  # fmt: skip
    if facts is None:
        return dict.fromkeys(names, "-")
    values = (
        str(facts.registers_per_thread),
        str(facts.spill_store_bytes + facts.spill_load_bytes),
        _of(facts.shared_memory_bytes, facts.shared_memory_limit_bytes),
        ", ".join(f"{count} {name}" for name, count in facts.tensor_core_instructions.items()) or "none",
        _widths(facts.loads_by_bits),
        _widths(facts.stores_by_bits),
        str(facts.bulk_copies),
        str(facts.atomics),
        str(facts.barriers),
        str(facts.warps),
        f"{facts.occupancy:.0%}",
    )
    return dict(zip(names, values, strict=True))


def _widths(by_bits: dict[int, int]) -> str:
    return ", ".join(f"{count} x {bits} bits" for bits, count in by_bits.items()) or "none"


def _of(size_bytes: int, limit_bytes: int) -> str:
    return f"{kib(size_bytes)} of {kib(limit_bytes)}" if size_bytes else kib(0)


def kib(size_bytes: int) -> str:
    """`1.5 KB`, of 1024 bytes each as CUDA's documentation counts them; `40 bytes` below one."""
    if 0 < size_bytes < 1024:
        return f"{size_bytes} bytes"
    return f"{round(size_bytes / 1024, 1):g} KB"


def _problem(problem: CompileProblem) -> Remark:
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, problem.message)), "")
    if problem.kind == "shared_memory" and problem.facts:
        hint = f"take smaller tiles or fewer stages (num_stages={problem.facts.stages} now)"
    elif problem.kind == "threads":
        hint = "take fewer warps"
    return Remark("problem", _sentences(problem.message, f"Try: {hint}" if hint else ""), problem.line)


def _spills(facts: CompiledKernel) -> Remark | None:
    if not facts.spills:
        return None
    spilled = facts.spill_store_bytes + facts.spill_load_bytes
    advice = f"Try: a smaller tile or more warps (num_warps={facts.warps} now)"
    if 0 < facts.maxnreg < MAX_REGISTERS_PER_THREAD:
        advice = f"maxnreg={facts.maxnreg} leaves a thread no more"
    text = f"{facts.registers_per_thread} registers a thread and {spilled} bytes spilled to and from local memory"
    return Remark("spills", _sentences(text, advice))


def _tensor_cores(facts: CompiledKernel) -> list[Remark]:
    found = []
    for dot in facts.dots:
        if dot.operand == "float32" and dot.precision == "ieee":
            text = "No tensor cores: tl.dot runs on ordinary cores for float32 with input_precision='ieee'"
            advice = "Try: 'tf32x3', nearly as exact, or 'tf32' where 10 bits of mantissa are enough"
            found.append(Remark("no_tensor_cores", _sentences(text, advice), dot.line))
        elif not facts.uses_tensor_cores:
            text = f"No tensor cores on sm_{facts.arch}: Triton {version('triton')} uses none there for {dot.operand}"
            found.append(Remark("no_tensor_cores", _sentences(text), dot.line))
        elif older := _older(facts, dot.m):
            found.append(Remark("older_tensor_cores", older, dot.line))
    return list(dict.fromkeys(found))


def _older(facts: CompiledKernel, rows: int) -> str:
    newer = _NEWER_TENSOR_CORES.get(facts.arch, "")
    if not newer or any(name.startswith(newer) for name in facts.tensor_core_instructions):
        return ""
    text = f"mma.sync, not the faster {newer} of sm_{facts.arch}"
    if rows < _NEWER_ROWS:
        return _sentences(f"{text}: that takes {_NEWER_ROWS} rows at least, and the block has {rows}")
    if newer == "wgmma" and facts.warps < _WARPGROUP:
        return _sentences(f"{text}: that takes four warps together, and num_warps={facts.warps}")
    return _sentences(text)


def _tf32(facts: CompiledKernel) -> Remark | None:
    if not facts.uses_tf32:
        return None
    line = next(dot.line for dot in facts.dots if dot.operand == "float32" and dot.precision == "tf32")
    text = "TF32 is used: tl.dot rounds float32 operands to 10 bits of mantissa, about three decimal digits"
    return Remark("tf32", _sentences(text, "input_precision='ieee' keeps all 23, on ordinary cores"), line)


def _narrow(facts: CompiledKernel) -> Remark | None:
    narrow = [access for access in facts.accesses if access.narrow]
    if not narrow:
        return None
    totals: dict[tuple[str, int], int] = defaultdict(int)
    for access in narrow:
        totals[access.kind.replace("async_copy", "asynchronous copie").rstrip("s"), access.bits] += access.count
    what = ", ".join(f"{count} {kind}{'s' * (count > 1)} of {bits} bits" for (kind, bits), count in totals.items())
    lines = sorted({access.line for access in narrow if access.line})
    where = f" ({_lines(lines)})" if lines else ""
    text = (
        f"{what} a thread{where}; what a thread moves would fill accesses of {max(a.widest_bits for a in narrow)} bits"
    )
    names = facts.narrowed_by if facts.explained else facts.unaligned
    pointers = [name for name in names if name in facts.unaligned_pointers]
    numbers = [name for name in names if name not in facts.unaligned_pointers]
    reasons = []
    if numbers:
        reasons.append(f"{_names(numbers)} not known to divide by 16")
    if pointers:
        reasons.append(f"{_names(pointers)} not at an address that divides by 16 bytes")
    if reasons and facts.explained:
        instead = f"otherwise there would be {facts.accesses_if_aligned} accesses, not {facts.access_count}"
        text = f"{text}: {' and '.join(reasons)}; {instead}"
    elif reasons:
        text = f"{text}. Perhaps because {' and '.join(reasons)}; that was not tried"
    return Remark("narrow_access", _sentences(text), lines[0] if lines else 0)


def _float64(facts: CompiledKernel) -> Remark | None:
    if not facts.float64_lines:
        return None
    slowdown = ARCHITECTURES[facts.arch].float64_slowdown
    text = (
        f"float64 is computed with ({_lines(facts.float64_lines)}): 1/{slowdown} of float32's rate on sm_{facts.arch}"
    )
    return Remark("float64", _sentences(text), facts.float64_lines[0])


def _wide(facts: CompiledKernel) -> Remark | None:
    if not facts.wide_offset_lines:
        return None
    text = f"int64 offsets ({_lines(facts.wide_offset_lines)}): each takes two registers"
    if facts.wide_integers:
        text += f"; {_names(facts.wide_integers)} passed as int64"
    advice = "They are needed only where an offset passes 2147483647"
    return Remark("wide_offsets", _sentences(text, advice), facts.wide_offset_lines[0])


def _lines(lines: list[int] | tuple[int, ...]) -> str:
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"


def _names(names: list[str] | tuple[str, ...]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"


def _sentences(*parts: str) -> str:
    return " ".join(part.rstrip(".") + "." for part in parts if part)
