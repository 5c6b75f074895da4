"""The cell that the attacks on the wire have above theirs: what it takes to speak to the judge past our own code."""

import json
import os
import socket
import struct
from pathlib import Path


def wire():
    """The socket to the judge: the only one that is open here."""
    for path in Path("/proc/self/fd").iterdir():
        try:
            if str(path.readlink()).startswith("socket:"):
                found = socket.socket(fileno=os.dup(int(path.name)))
                found.setblocking(True)
                return found
        except OSError:
            pass


def frame(header):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<I", len(data)) + data


def returned(shape, operations=(), launches=1, offset=0, dtype="float32"):
    strides = [1] * len(shape)
    tensor = {"type": "tensor", "dtype": dtype, "shape": shape, "strides": strides, "offset_bytes": offset}
    return {
        "type": "returned", "value": tensor, "arguments_offset_bytes": offset,
        "torch_operations": list(operations), "kernel_launches": launches,
    }  # fmt: skip
