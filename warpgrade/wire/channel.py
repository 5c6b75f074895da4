"""Framing over a socketpair, for a peer that may be hostile.

A frame is: 4 bytes, little-endian, the header's length; the header (JSON, see `messages`); and, when the header's
sender has bulk data, one file descriptor of a memfd, attached to the first byte of the frame. A `Share`, which only
the Judge sends, brings the descriptors of the blocks that it shares instead, and its receiver keeps them.

What each rule defends against:

* the length is checked before anything is allocated (a frame of 4 GiB);
* every read and write has one deadline for the whole frame, not one per byte (an answer that drips for ever);
* the memfd must be sealed against shrinking and growing, and is read with `pread` into private memory, never mapped:
  a mapped file that the peer truncates kills the reader with SIGBUS, and one can change between check and use;
* a sender waits while too many descriptors are in flight: they are counted for the whole user, whoever sent them;
* descriptors beyond the one are closed, and their presence is an error (exhausting the reader's descriptors);
* what is no plain file is closed by a thread of its own: closing a TCP socket waits as long as its SO_LINGER says;
* whatever is wrong with what the peer sent raises `WireError`, and only that.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import socket
import stat
import struct
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec

from warpgrade.wire.base import Message
from warpgrade.wire.messages import MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Share

_LENGTH = struct.Struct("<I")
_F_GET_SEALS, _F_ADD_SEALS = 1034, 1033  # linux/fcntl.h; Python names them only from 3.8 on some builds
_SEAL_SHRINK_GROW = 0x2 | 0x4
_MAX_DESCRIPTORS = 4  # room to notice more than the one that is allowed

Incoming = TypeVar("Incoming")


class WireError(Exception):
    """What the peer sent is not a message: too long, malformed, an unsealed payload. The peer's fault, never ours."""


class PeerClosed(WireError):  # noqa: N818 - as TimedOut below
    """The peer closed the connection (usually: it died)."""


class TimedOut(Exception):  # noqa: N818 - it is an outcome, and reads so
    """The deadline passed before a whole frame was moved."""


class Frame(Generic[Incoming]):
    """One received message and its payload (`b""` when it had none), already in private memory.

    `descriptors`: of a `Share`, and the receiver's to close.
    """

    __slots__ = ("descriptors", "message", "payload")

    def __init__(self, message: Incoming, payload: bytearray, descriptors: Sequence[int] = ()) -> None:
        self.message = message
        self.payload = payload
        self.descriptors = tuple(descriptors)


class Channel(Generic[Incoming]):
    """One end of the wire. `incoming` is the (union) type of the messages that this end accepts."""

    def __init__(self, sock: socket.socket, incoming: Any, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._decoder: msgspec.json.Decoder[Incoming] = msgspec.json.Decoder(incoming, strict=True)
        self._max_payload_bytes = max_payload_bytes

    def __enter__(self) -> Channel[Incoming]:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close this end; the peer then reads `PeerClosed`."""
        self._socket.close()

    # --- sending ------------------------------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        payload: bytes | bytearray | memoryview = b"",
        *,
        timeout_s: float,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send one message, with a payload or with the `descriptors` of a `Share`, which stay the caller's.

        Raises `TimedOut`, `PeerClosed`, ValueError for a message that is ours and too large, or OSError where this
        machine is at fault (no memory for the payload, too many descriptors in flight).
        """
        header = msgspec.json.encode(message)
        if len(header) > MAX_HEADER_BYTES:
            raise ValueError(f"header of {len(header)} bytes; at most {MAX_HEADER_BYTES} may cross")
        if len(payload) > self._max_payload_bytes:
            raise ValueError(f"payload of {len(payload)} bytes; at most {self._max_payload_bytes} may cross")
        deadline = time.monotonic() + timeout_s
        frame = memoryview(_LENGTH.pack(len(header)) + header)
        ancillary: list[tuple[int, int, Any]] = []
        descriptor = -1
        try:
            if len(payload):
                descriptor = _sealed_memfd(payload)
                descriptors = [descriptor]
            if descriptors:
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            while frame:
                self._wait(select.POLLOUT, deadline)
                try:
                    sent = self._socket.sendmsg([frame], ancillary)
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno in (errno.EPIPE, errno.ECONNRESET):
                        raise PeerClosed("the other end closed the connection") from error
                    if error.errno != errno.ETOOMANYREFS or time.monotonic() + 0.01 > deadline:
                        raise
                    time.sleep(0.01)  # nothing can be waited for: they are received, or closed, by others
                    continue
                ancillary = []
                frame = frame[sent:]
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def quiet(self) -> bool:
        """Whether nothing waits to be received: an answer that lies there before the question was made up."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)  # b"" is the peer's end, which the next call reports
        except OSError:  # nothing there, or a broken connection, which the next call reports
            return True

    # --- receiving ----------------------------------------------------------------------------------------------

    def receive(self, *, timeout_s: float) -> Frame[Incoming]:
        """Receive one message and its payload. Raises `TimedOut`, `PeerClosed` or `WireError`, nothing else."""
        deadline = time.monotonic() + timeout_s
        descriptors: list[int] = []
        try:
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline, descriptors))
            if not 0 < length <= MAX_HEADER_BYTES:
                raise WireError(f"a header of {length} bytes was announced; at most {MAX_HEADER_BYTES} may cross")
            header = self._read(length, deadline, descriptors)
            try:
                message = self._decoder.decode(header)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise WireError(f"the header is no message: {str(error)[:200]}") from error
            if isinstance(message, Share):
                if len(descriptors) != len(message.sizes_bytes):
                    raise WireError(f"{len(descriptors)} descriptors came for {len(message.sizes_bytes)} blocks")
                kept, descriptors = descriptors, []
                return Frame(message, bytearray(), kept)
            if len(descriptors) > 1:
                raise WireError(f"{len(descriptors)} descriptors came with one message; at most 1 may")
            payload = self._read_payload(descriptors[0], deadline) if descriptors else bytearray()
            return Frame(message, payload)
        finally:
            for descriptor in descriptors:
                _close(descriptor)

    def _read(self, count: int, deadline: float, descriptors: list[int]) -> bytearray:
        data = bytearray()
        while len(data) < count:
            self._wait(select.POLLIN, deadline)
            try:
                chunk, ancillary, flags, _ = self._socket.recvmsg(
                    count - len(data), socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4)
                )
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno == errno.ECONNRESET:
                    raise PeerClosed("the other end closed the connection") from error
                raise WireError(f"the connection failed: {error}") from error
            for level, kind, block in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    received = array.array("i")
                    received.frombytes(block[: len(block) - len(block) % received.itemsize])
                    descriptors.extend(received)
            if flags & socket.MSG_CTRUNC:
                raise WireError("more descriptors came with one message than may")
            if len(descriptors) > _MAX_DESCRIPTORS:
                raise WireError(f"{len(descriptors)} descriptors came with one message; at most 1 may")
            if not chunk:
                raise PeerClosed("the other end closed the connection")
            data += chunk
        return data

    def _read_payload(self, descriptor: int, deadline: float) -> bytearray:
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise WireError("the payload is not a memory file")
            if fcntl.fcntl(descriptor, _F_GET_SEALS) & _SEAL_SHRINK_GROW != _SEAL_SHRINK_GROW:
                raise WireError("the payload is not sealed against shrinking and growing")
            if status.st_size > self._max_payload_bytes:
                raise WireError(f"a payload of {status.st_size} bytes; at most {self._max_payload_bytes} may cross")
            payload = bytearray(status.st_size)
            view, done = memoryview(payload), 0
            while done < len(payload):
                if time.monotonic() > deadline:
                    raise TimedOut
                count = os.preadv(descriptor, [view[done : done + (1 << 24)]], done)
                if count == 0:
                    raise WireError("the payload is shorter than announced")
                done += count
            return payload
        except (OSError, MemoryError) as error:
            raise WireError(f"the payload could not be read: {error}") from error

    def _wait(self, event: int, deadline: float) -> None:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise TimedOut
        poll = select.poll()
        poll.register(self._socket, event)
        if not poll.poll(remaining_s * 1000):
            raise TimedOut


def _close(descriptor: int) -> None:
    """Close a descriptor that the peer chose, without waiting for whatever its kind waits for."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
    else:
        threading.Thread(target=os.close, args=(descriptor,), name="closing", daemon=True).start()


def _sealed_memfd(payload: bytes | bytearray | memoryview) -> int:
    descriptor = os.memfd_create("warpgrade", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view, done = memoryview(payload), 0
        while done < len(view):
            done += os.write(descriptor, view[done:])
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEAL_SHRINK_GROW)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
