"""A Worker as a Runner of timed messages."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from warpgrade.judge.remote import RemoteSubmission
from warpgrade.judge.speed.device import Device
from warpgrade.judge.speed.message import TimedMessage
from warpgrade.wire.messages import Launch, Run
from warpgrade.wire.tensors import scalar_to_leaf


class MovingRunner:
    """Implements `Runner`: a Worker without a submission that copies so many bytes for each launch, whatever is asked.

    The baseline "copy", and with `times=1` and a few bytes the no-op. Raises as `RemoteSubmission.move`.
    """

    def __init__(self, remote: RemoteSubmission, size_bytes: int, times: int | None = None) -> None:
        self._remote = remote
        self._size_bytes = size_bytes
        self._times = times

    def run(self, launches: Sequence[Launch]) -> None:
        """See `Runner.run`."""
        self._remote.move(self._size_bytes, self._times or len(launches))

    def close(self) -> None:
        """See `Runner.close`."""
        self._remote.close()


class RemoteRunner:
    """Implements `Runner`: the submission in a Worker of its own, which is started, loaded and shown the blocks.

    Raises Failure for whatever the submission does, SandboxUnavailable where no Worker can be had.
    """

    def __init__(self, device: Device, message: TimedMessage, remote: RemoteSubmission) -> None:
        self.remote = remote
        self._workload = message.workload
        self._first = True
        blocks = [message.inputs, message.outputs]
        remote.share([device.descriptor(block) for block in blocks], [block.numel() for block in blocks])

    def run(self, launches: Sequence[Launch]) -> None:
        """See `Runner.run`."""
        workload = self._workload
        scalars = {name: scalar_to_leaf(value) for name, value in workload.scalars.items()}
        message = Run(
            function=workload.function,
            signature=list(workload.signature),
            scalars={name: leaf for name, leaf in scalars.items() if leaf is not None},
            launches=list(launches),
            grid=list(workload.grid) if workload.grid is not None else None,
            seed=secrets.randbits(32),
        )
        self.remote.run(message, first=self._first)
        self._first = False

    def close(self) -> None:
        """See `Runner.close`."""
        self.remote.close()
