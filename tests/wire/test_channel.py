"""Framing against a hostile peer: only WireError, PeerClosed and TimedOut, in time, without leaks."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpgrade.wire import Channel, PeerClosed, TimedOut, WireError
from warpgrade.wire.channel import Frame
from warpgrade.wire.messages import (
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    JudgeMessage,
    Raised,
    Ready,
    Share,
    Unsafe,
    WorkerMessage,
)

READY = msgspec.json.encode(Ready())
UNSAFE = msgspec.json.encode(Unsafe(["3"]))
F_ADD_SEALS, SEALS = 1033, 0x2 | 0x4

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def ends() -> Iterator[tuple[Channel[Any], socket.socket]]:
    """Our channel, and the peer's raw socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, WorkerMessage), theirs


def framed(header: bytes) -> bytes:
    return struct.pack("<I", len(header)) + header


def receive_after(data: bytes, *, close: bool = True, descriptors: list[int] | None = None) -> Frame[Any]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            sent = theirs.sendmsg([data], ancillary) if data else 0
            theirs.send(data[sent:])
        if close:
            theirs.close()
        return Channel(ours, WorkerMessage).receive(timeout_s=5.0)


def memory_file(size: int, seals: int = SEALS) -> int:
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    if seals:
        fcntl.fcntl(descriptor, F_ADD_SEALS, seals)
    return descriptor


def refused(descriptor: int) -> str:
    """Send a right message with this descriptor, which must be refused; the reason."""
    try:
        with pytest.raises(WireError) as caught:
            receive_after(framed(READY), descriptors=[descriptor])
        return str(caught.value)
    finally:
        os.close(descriptor)


# --- bytes ----------------------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        receive_after(data)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_mutated_frame_is_read_or_refused(data: st.DataObject) -> None:
    frame = bytearray(framed(READY))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(len(frame) - 1, 0)))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
        if kind == "flip" and frame:
            frame[place] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del frame[place:]
        elif kind == "insert":
            frame[place:place] = data.draw(st.binary(min_size=1, max_size=5))
        elif frame:
            del frame[place]
    with contextlib.suppress(WireError):
        assert isinstance(receive_after(bytes(frame)).message, WorkerMessage)


@pytest.mark.parametrize("length", range(len(framed(READY))))
def test_every_truncation_is_the_peers_end(length: int) -> None:
    with pytest.raises(PeerClosed):
        receive_after(framed(READY)[:length])


@settings(max_examples=120, deadline=None)
@given(json_values)
def test_json_that_is_no_message_is_refused(value: Any) -> None:
    with pytest.raises(WireError):
        receive_after(framed(json.dumps(value).encode("utf-8", "surrogatepass")))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_message_with_any_part_replaced_is_read_or_refused(data: st.DataObject) -> None:
    returned = {
        "type": "returned",
        "value": {"type": "tuple", "items": [{"type": "tensor", "dtype": "int8", "shape": [2], "strides": [1],
                                              "offset_bytes": 0}, {"type": "float", "hex": "0x1.0p+0"}]},
        "arguments_offset_bytes": 0, "torch_operations": ["add"], "kernel_launches": 1,
    }  # fmt: skip
    place: Any = returned
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(json_values)
        break
    with contextlib.suppress(WireError):
        receive_after(framed(json.dumps(returned).encode("utf-8", "surrogatepass")))


HOSTILE_HEADERS = {
    "unknown field": b'{"type":"ready","python":"3","torch":"2","triton":"3","numpy":"2","marks":10}',
    "missing field": b'{"type":"ready","python":"3"}',
    "unknown tag": b'{"type":"passed"}',
    "a message of the other direction": b'{"type":"load","cells":[],"statement_limit_s":1.0}',
    "no object": b"[]",
    "not JSON": b"\x80\x04\x95pickle",
    "not UTF-8": UNSAFE.replace(b'"3"', b'"\xff\xfe"'),
    "lone surrogate": UNSAFE.replace(b'"3"', b'"\\ud800"'),
    "NaN": b'{"type":"returned","value":{"type":"none"},"arguments_offset_bytes":NaN,"torch_operations":[],'
    b'"kernel_launches":0}',
    "number beyond 2**53": b'{"type":"returned","value":{"type":"none"},"arguments_offset_bytes":9007199254740993,'
    b'"torch_operations":[],"kernel_launches":0}',
    "negative count": b'{"type":"returned","value":{"type":"none"},"arguments_offset_bytes":-1,"torch_operations":[],'
    b'"kernel_launches":0}',
    "number of a thousand digits": b'{"type":"returned","value":{"type":"none"},"arguments_offset_bytes":' + b"9" * 1000
    + b',"torch_operations":[],"kernel_launches":0}',
    "deep lists": b"[" * 30000 + b"]" * 30000,
    "deep objects": b'{"a":' * 10000 + b"1" + b"}" * 10000,
    "deep value": b'{"type":"returned","value":' + b'{"type":"tuple","items":[' * 2000 + b"]}" * 2000 + b"}",
    "tuple in a tuple": b'{"type":"returned","value":{"type":"tuple","items":[{"type":"tuple","items":[]}]},'
    b'"arguments_offset_bytes":0,"torch_operations":[],"kernel_launches":0}',
    "too many dimensions": b'{"type":"returned","value":{"type":"tensor","dtype":"int8","shape":[1,1,1,1,1,1,1,1,1],'
    b'"strides":[1,1,1,1,1,1,1,1,1],"offset_bytes":0},"arguments_offset_bytes":0,"torch_operations":[],"kernel_launches":0}',
    "text after the message": READY + b"{}",
    "a name of a megabyte's kind": UNSAFE.replace(b'"3"', b'"' + b"x" * 60000 + b'"'),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_HEADERS)
def test_a_hostile_header_is_refused(name: str) -> None:
    with pytest.raises(WireError) as caught:
        receive_after(framed(HOSTILE_HEADERS[name]))
    assert not isinstance(caught.value, PeerClosed)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("length", [0, MAX_HEADER_BYTES + 1, 2**31, 2**32 - 1])
def test_an_announced_length_is_checked_before_anything_is_allocated(length: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="announced"):
            receive_after(struct.pack("<I", length), close=False)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


# --- time -----------------------------------------------------------------------------------------------------------


def test_an_answer_that_drips_has_one_deadline(ends: tuple[Channel[Any], socket.socket]) -> None:
    channel, theirs = ends
    stop = threading.Event()

    def drip() -> None:
        for byte in framed(b" " * 60000):
            if stop.wait(0.01):
                return
            with contextlib.suppress(OSError):
                theirs.send(bytes([byte]))

    thread = threading.Thread(target=drip)
    thread.start()
    started = time.monotonic()
    try:
        with pytest.raises(TimedOut):
            channel.receive(timeout_s=0.3)
        assert time.monotonic() - started < 5.0
    finally:
        stop.set()
        thread.join()


def test_silence_times_out(ends: tuple[Channel[Any], socket.socket]) -> None:
    with pytest.raises(TimedOut):
        ends[0].receive(timeout_s=0.05)


def test_sending_to_a_peer_that_never_reads_times_out(ends: tuple[Channel[Any], socket.socket]) -> None:
    big = Unsafe(["x" * 400])

    def fill() -> None:
        for _ in range(10**6):
            ends[0].send(big, timeout_s=0.2)

    with pytest.raises(TimedOut):
        fill()


def test_a_socket_that_lingers_does_not_hold_the_reader(no_leaks: None) -> None:
    """Closing a TCP socket with unsent data waits for its SO_LINGER, which its maker chose: here 15 s."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        sender = socket.create_connection(listener.getsockname())
        receiver = stack.enter_context(listener.accept()[0])
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 15))
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.send(b"x" * 65536)
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        stack.enter_context(theirs)
        rights = array.array("i", [sender.fileno()])
        theirs.sendmsg([framed(READY)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        sender.close()
        started = time.monotonic()
        with pytest.raises(WireError, match="not a memory file"):
            Channel(ours, WorkerMessage).receive(timeout_s=1.0)
        assert time.monotonic() - started < 5.0
        receiver.close()  # resets the connection, and so ends the wait of the thread that closes


def test_a_closed_peer_is_noticed_when_sending(ends: tuple[Channel[Any], socket.socket]) -> None:
    ends[1].close()
    with pytest.raises(PeerClosed):
        ends[0].send(Ready(), timeout_s=1.0)


def test_quiet_tells_a_waiting_answer_from_silence_and_from_the_end(ends: tuple[Channel[Any], socket.socket]) -> None:
    channel, theirs = ends
    assert channel.quiet()
    theirs.send(b"x")
    assert not channel.quiet()
    theirs.close()
    assert not channel.quiet(), "what was said before the end still waits"
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        assert Channel(ours, WorkerMessage).quiet()


# --- descriptors ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_leaks")
class TestPayload:
    def test_is_moved_whole(self, ends: tuple[Channel[Any], socket.socket]) -> None:
        data = os.urandom(3 << 20)
        Channel(ends[1], WorkerMessage).send(Ready(), data, timeout_s=5.0)
        frame = ends[0].receive(timeout_s=5.0)
        assert frame.payload == data
        assert frame.message == Ready()

    def test_an_unsealed_file_is_refused(self) -> None:
        assert "sealed" in refused(memory_file(100, seals=0))

    @pytest.mark.parametrize("seals", [0x2, 0x4])
    def test_half_sealed_is_not_sealed(self, seals: int) -> None:
        assert "sealed" in refused(memory_file(100, seals=seals))

    def test_a_file_that_was_shrunk_while_unsealed_is_refused(self) -> None:
        descriptor = memory_file(1 << 20, seals=0)
        os.ftruncate(descriptor, 10)
        assert "sealed" in refused(descriptor)

    def test_a_sparse_file_of_100_gigabytes_allocates_nothing(self) -> None:
        tracemalloc.start()
        try:
            assert "at most" in refused(memory_file(100 * 2**30))
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()

    def test_one_byte_more_than_allowed_is_refused(self) -> None:
        assert "at most" in refused(memory_file(MAX_PAYLOAD_BYTES + 1))

    def test_reading_ends_at_the_deadline(self) -> None:
        ours, theirs = socket.socketpair()
        descriptor = memory_file(MAX_PAYLOAD_BYTES)
        with ours, theirs:
            rights = array.array("i", [descriptor])
            theirs.sendmsg([framed(READY)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            os.close(descriptor)
            with pytest.raises(TimedOut):
                Channel(ours, WorkerMessage).receive(timeout_s=0.01)

    def test_a_pipe_is_refused(self) -> None:
        reader, writer = os.pipe()
        os.close(writer)
        assert "memory file" in refused(reader)

    @pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/proc/self/ns/net", "/"])
    def test_a_device_or_a_folder_is_refused(self, path: str) -> None:
        assert refused(os.open(path, os.O_RDONLY))

    def test_a_regular_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "data"
        path.write_bytes(b"x" * 100)
        assert refused(os.open(path, os.O_RDONLY))

    def test_a_socket_is_refused(self) -> None:
        one, other = socket.socketpair()
        other.close()
        assert "memory file" in refused(one.detach())

    def test_an_unreadable_memory_file_is_refused(self) -> None:
        descriptor = memory_file(100)
        path_only = os.open(f"/proc/self/fd/{descriptor}", os.O_PATH)
        os.close(descriptor)
        assert refused(path_only)

    @pytest.mark.parametrize("count", [2, 4, 5, 50, 200])
    def test_more_than_one_descriptor_is_refused(self, count: int) -> None:
        descriptors = [memory_file(4) for _ in range(count)]
        try:
            with pytest.raises(WireError, match="descriptors"):
                receive_after(framed(READY), descriptors=descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def test_one_descriptor_with_each_byte_is_refused(self, ends: tuple[Channel[Any], socket.socket]) -> None:
        descriptor = memory_file(4)
        for byte in framed(READY):
            rights = array.array("i", [descriptor])
            ends[1].sendmsg([bytes([byte])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(descriptor)
        with pytest.raises(WireError, match="descriptors"):
            ends[0].receive(timeout_s=5.0)

    def test_a_descriptor_with_a_malformed_header_is_closed(self) -> None:
        descriptor = memory_file(4)
        with pytest.raises(WireError):
            receive_after(framed(b"nonsense"), descriptors=[descriptor])
        os.close(descriptor)

    @settings(max_examples=60, deadline=None)
    @given(st.binary(max_size=60), st.integers(0, 3))
    def test_random_bytes_with_descriptors_leave_none_open(self, data: bytes, count: int) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        descriptors = [memory_file(4) for _ in range(count)]
        with pytest.raises(WireError):
            receive_after(b"\0" + data, descriptors=descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        assert len(list(Path("/proc/self/fd").iterdir())) == before


class _Crowded(socket.socket):
    """A user with too many descriptors in flight, for the first `refusals` messages that carry one."""

    refusals = 3

    def sendmsg(self, buffers: Any, ancillary: Any = (), *more: Any) -> int:
        if ancillary and self.refusals:
            self.refusals -= 1
            raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")
        return super().sendmsg(buffers, ancillary, *more)


def test_descriptors_of_others_in_flight_delay_a_message_and_do_not_end_it() -> None:
    ours, theirs = socket.socketpair()
    with Channel(_Crowded(fileno=ours.detach()), WorkerMessage) as sender, Channel(theirs, WorkerMessage) as receiver:
        sender.send(Ready(), b"payload", timeout_s=5.0)
        assert receiver.receive(timeout_s=5.0).payload == b"payload"


def test_descriptors_of_others_in_flight_for_ever_are_not_the_peers_fault() -> None:
    ours, theirs = socket.socketpair()
    crowded = _Crowded(fileno=ours.detach())
    crowded.refusals = 10**9
    with theirs, Channel(crowded, WorkerMessage) as sender, pytest.raises(OSError, match="Too many references"):
        sender.send(Ready(), b"payload", timeout_s=0.2)


# --- our own mistakes -----------------------------------------------------------------------------------------------


def test_a_message_of_ours_that_is_too_long_is_our_mistake(ends: tuple[Channel[Any], socket.socket]) -> None:
    with pytest.raises(ValueError, match="header"):
        ends[0].send(Unsafe(["x" * MAX_HEADER_BYTES]), timeout_s=1.0)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ValueError, match="payload"):
        Channel(ours, WorkerMessage, max_payload_bytes=10).send(Ready(), b"x" * 11, timeout_s=1.0)


def test_a_frame_is_read_from_pieces(ends: tuple[Channel[Any], socket.socket]) -> None:
    frame = framed(READY) + framed(
        b'{"type":"raised","problem":{"type":"problem","exception":"E","text":""},"during":"call"}'
    )
    feeder = threading.Thread(target=lambda: [ends[1].send(frame[i : i + 7]) for i in range(0, len(frame), 7)])
    feeder.start()
    assert isinstance(ends[0].receive(timeout_s=5.0).message, Ready)
    assert isinstance(ends[0].receive(timeout_s=5.0).message, Raised)
    feeder.join()


# --- shared blocks -------------------------------------------------------------------------------------------------


@pytest.fixture
def files() -> Iterator[list[int]]:
    descriptors = [os.memfd_create(f"block {number}") for number in range(3)]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def worker_end() -> tuple[Channel[Any], Channel[Any]]:
    """The Judge's channel, and the Worker's."""
    ours, theirs = socket.socketpair()
    return Channel(ours, WorkerMessage), Channel(theirs, JudgeMessage)


def test_a_share_brings_its_blocks_in_their_order(files: list[int]) -> None:
    judge, worker = worker_end()
    with judge, worker:
        judge.send(Share([10, 20]), timeout_s=5.0, descriptors=files[:2])
        frame = worker.receive(timeout_s=5.0)
        assert (frame.message, len(frame.payload)) == (Share([10, 20]), 0)
        assert [os.fstat(d).st_ino for d in frame.descriptors] == [os.fstat(d).st_ino for d in files[:2]]
        for descriptor in frame.descriptors:
            os.close(descriptor)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_share_with_another_number_of_blocks_is_none(files: list[int], count: int, no_leaks: None) -> None:
    judge, worker = worker_end()
    with judge, worker:
        judge.send(Share([10, 20]), timeout_s=5.0, descriptors=files[:count])
        with pytest.raises(WireError, match="descriptors came for 2 blocks"):
            worker.receive(timeout_s=5.0)


def test_the_judge_takes_no_share(files: list[int], no_leaks: None) -> None:
    """A Worker must not choose what the Judge keeps open."""
    judge, worker = worker_end()
    with judge, worker:
        worker.send(Share([10, 20]), timeout_s=5.0, descriptors=files[:2])
        with pytest.raises(WireError):
            judge.receive(timeout_s=5.0)
