"""The contract box of an exercise: markdown made from its declaration, so that notebook and judge say the same."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from warpgrade.course import Argument, Exercise, Form, Return

#: How the box names the GPUs that a speed threshold is declared for.
GPU_NAMES = {"h200": "H200 and H100", "a100": "A100", "t4": "T4"}

_WHAT_YOU_WRITE = {
    Form.FUNCTION: "You write a function, with its kernel and its launcher.",
    Form.KERNEL: "You write the kernel; the judge launches it.",
    Form.PLAIN: "You write plain Python; nothing runs on a GPU.",
}


def contract_box(exercise: Exercise) -> str:
    """Markdown of the box that stands before the exercise's solution cell. No trailing newline."""
    lines = [
        f"#### Contract of `{exercise.id}`",
        "",
        f"`{exercise.signature}` — {_points(exercise)}. {_WHAT_YOU_WRITE[exercise.form]}",
        "",
        exercise.summary,
        "",
        "| | what it is | dtype | shape | memory |",
        "|---|---|---|---|---|",
        *(_argument_row(argument) for argument in exercise.arguments),
        *(_return_row(value) for value in exercise.returns),
    ]
    if exercise.promises:
        lines += ["", *(f"- {promise}" for promise in exercise.promises)]
    if exercise.speed:
        shares = ", ".join(
            f"{float(share):.0%} on {GPU_NAMES.get(gpu, gpu)}" for gpu, share in exercise.speed.thresholds.items()
        )
        lines += [
            "",
            f"**Speed** is judged on a GPU, against {exercise.speed.baseline}. Full marks from {shares}; "
            "below that the marks fall in a straight line, to zero at half of it. "
            "Speed counts once every correctness test passes.",
        ]
    return "\n".join(lines)


def _points(exercise: Exercise) -> str:
    total = exercise.correctness_points + exercise.speed_points
    if not exercise.speed:
        return f"{_number(total)} points"
    return (
        f"{_number(total)} points: {_number(exercise.correctness_points)} for correctness, "
        f"{_number(exercise.speed_points)} for speed"
    )


def _number(value: Fraction) -> str:
    return f"{float(value):g}"


def _argument_row(argument: Argument) -> str:
    if argument.kind != "tensor":
        kind = {"constexpr": "int, known at compile time"}.get(argument.kind, argument.kind)
        what = ", ".join(filter(None, (kind, argument.note)))
        return f"| `{argument.name}` | {what} | | | |"
    what = ", ".join(filter(None, ("output" if argument.output else "input", argument.note)))
    memory = "contiguous" if argument.layout == "contiguous" else "any strides"
    return f"| `{argument.name}` | {what} | {_dtypes(argument.dtypes)} | {_shape(argument.shape)} | {memory} |"


def _return_row(value: Return) -> str:
    what = ", ".join(filter(None, ("new tensor" if value.kind == "tensor" else value.kind, value.note)))
    if value.kind != "tensor":
        return f"| returned | {what} | | | |"
    dtype = _dtypes([value.dtype]) if "float" in value.dtype or "int" in value.dtype else _same_as(value.dtype)
    return f"| returned | {what} | {dtype} | {_shape(value.shape)} | contiguous |"


def _dtypes(names: Sequence[str]) -> str:
    return " or ".join(names)


def _same_as(name: str) -> str:
    return f"that of `{name}`" if name else "any"


def _shape(shape: list[str] | str) -> str:
    if isinstance(shape, str):
        return "any" if shape == "..." else _same_as(shape)
    return "any" if shape == ["..."] else f"[{', '.join(shape)}]"
