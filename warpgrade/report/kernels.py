"""What students are told about each kernel beside the tests: the memory that it moved, and what the compiler made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from warpgrade.judge.verdict import KernelReport
from warpgrade.model.traffic import SECTOR_BYTES, Traffic
from warpgrade.report.facts import kib, one_table, remarks
from warpgrade.report.printable import one_line, word
from warpgrade.wire.messages import ArgumentTraffic

#: Below, a remark is made. Neighbouring lanes that read neighbouring elements fill their sectors but for the first and
#: last of a row; a stride of two elements leaves half of each unused, a whole row between lanes all but one element.
_WASTEFUL_SHARE = 0.5
#: Of sectors; a vector of ten elements fills none, and wastes nothing worth a sentence.
_FEW_SECTORS = 64


def kernel_lines(kernels: Iterable[KernelReport]) -> list[str]:
    """The report of the kernels of an exercise, a line each, indented by two; [] without any."""
    return [f"  {line}" for kernel in kernels for line in _one(_harmless(kernel))]


def _harmless(kernel: KernelReport) -> KernelReport:
    """Each string of it on one line: a Worker sends what it likes, and so does the compiler of a submission's names."""
    clean = msgspec.convert(_each(msgspec.to_builtins(kernel)), KernelReport)
    traffic = {word(name): moved for name, moved in clean.traffic.items()}
    return msgspec.structs.replace(clean, name=word(clean.name), traffic=traffic)


def _each(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {_each(key): _each(item) for key, item in value.items()}
    return [_each(item) for item in value] if isinstance(value, (list, tuple)) else value


def _one(kernel: KernelReport) -> list[str]:
    by_arch = {result.arch: result for result in kernel.compiled}
    said: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    for arch, result in by_arch.items():
        cell = result.cell or getattr(getattr(result, "facts", None), "cell", 0)
        for remark in remarks(result):
            said[cell, remark.line, remark.text].append(arch)
    return [
        f"kernel {kernel.name}, in the largest public test:",
        *(f"  {line}" for line in traffic_lines(kernel.traffic)),
        *(f"  {line}" for line in one_table(by_arch).splitlines()),
        *(
            f"  {_where(cell, line, archs, all_of=len(by_arch))}{text}"
            for (cell, line, text), archs in said.items()
        ),
    ]  # fmt: skip


def _where(cell: int, line: int, archs: list[int], *, all_of: int) -> str:
    parts = [f"cell {cell}, line {line}"] if cell and line else []
    parts += [" and ".join(f"sm_{arch}" for arch in archs)] if len(archs) < all_of else []
    return f"{', '.join(parts)}: " if parts else ""


def traffic_lines(traffic: Mapping[str, ArgumentTraffic | Traffic]) -> list[str]:
    """How much memory each argument moved, and whether it was worth it: a line for all loads of one, one for stores."""
    lines = []
    for name, moved in traffic.items():
        for verb, useful_bytes, sectors in (
            ("loaded from", moved.bytes_loaded, moved.sectors_loaded),
            ("stored to", moved.bytes_stored, moved.sectors_stored),
        ):
            if not sectors:
                continue
            share = useful_bytes / (SECTOR_BYTES * sectors)
            lines.append(
                f"{kib(useful_bytes)} {verb} {name} in {sectors} sectors of {SECTOR_BYTES} bytes: {share:.0%} used"
            )
            if share <= _WASTEFUL_SHARE and sectors > _FEW_SECTORS:
                lines[-1] += ". Do neighbouring lanes touch neighbouring elements?"
    return lines
