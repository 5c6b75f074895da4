"""How far grading is, on stderr: a bar with the time left while judging, then one while recording."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from warpgrade.judge.verdict import ExerciseVerdict


class GradingProgress:
    """Give `expect` to what knows the totals, `judged` and `recorded` as the callbacks of `pipeline.grade_class`."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console,
        )  # fmt: skip
        self._judging = self._progress.add_task("judging  ", total=None, note="")
        self._recording = self._progress.add_task("recording", total=None, note="", visible=False)
        self._faults = 0

    def __enter__(self) -> GradingProgress:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def expect(self, exercises: int, students: int) -> None:
        """How many (submission, exercise) pairs and how many students there are."""
        self._progress.update(self._judging, total=exercises)
        self._progress.update(self._recording, total=students)

    def judged(self, verdict: ExerciseVerdict) -> None:
        """One exercise of one submission has its verdict."""
        self._faults += verdict.faulty
        note = f"{self._faults} not decided" if self._faults else ""
        self._progress.update(self._judging, advance=1, note=note)

    def recorded(self, student: str) -> None:
        """One student is in the gradebook."""
        self._progress.update(self._recording, advance=1, visible=True)
