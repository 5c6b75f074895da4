"""A measurement on the simulated GPU, in one call."""

from __future__ import annotations

import random
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.judge.speed import runners
from tests.judge.speed.lock_holders import Holder
from warpgrade.judge.speed.message import Defences, TimedMessage
from warpgrade.judge.speed.protocol import Threshold, measure
from warpgrade.judge.speed.simulated import SimulatedDevice
from warpgrade.judge.speed.workload import sized

THRESHOLD = Threshold(0.8, "h200", "a copy")


@pytest.fixture
def measured():
    """`measured(behave, efficiency)`: the reading of a candidate; `device`, `defences` and the baseline may be others.

    The baseline moves the same bytes at the speed of a copy, so a candidate's true share is its efficiency.
    """

    def run(
        behave: Any = runners.honest,
        efficiency: float = 0.9,
        *,
        device: SimulatedDevice | None = None,
        defences: Defences | None = None,
        threshold: Threshold = THRESHOLD,
        baseline: Any = runners.honest,
        candidate: Any = runners.Running,
        seed: int = 1,
    ) -> Any:
        device = device or SimulatedDevice(seed=seed)
        message = TimedMessage(
            device, *sized(device.facts, runners.add_at), defences=defences, drawn=random.Random(seed)
        )

        def start(role: str, message: TimedMessage) -> runners.Running:
            if role == "candidate":
                return candidate(device, message, behave, efficiency)
            return runners.Running(device, message, baseline if role == "baseline" else runners.trivial)

        return measure(device, message, start, threshold, defences=defences)

    return run


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Many small tensors: threads only get in one another's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# --- the lock ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Holder]]:
    started: list[Holder] = []

    def run(*arguments: Any, at: Path = folder, **changes: Any) -> Holder:
        started.append(Holder(at, *arguments, **changes))
        return started[-1]

    yield run
    for holder in started:
        holder.kill()


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A place that other users reach: pytest's own folders are for its user alone."""
    place = Path(tempfile.mkdtemp(prefix="warpgrade-test-"))
    place.chmod(0o777 | stat.S_ISVTX)
    yield place
    shutil.rmtree(place)
