"""Arrays and words in one answer: the length of a JSON header, the header, and the arrays it lists, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

MEDIA = "application/x-cocanet"
_ALIGN = 8


class Message(NamedTuple):
    """What is said, and the arrays that belong to it."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack(message: Message) -> bytes:
    """Arrays begin at multiples of 8 bytes after the header, so that a browser reads them where they lie."""
    places, pieces, at = {}, list[bytes](), 0
    for name, array in message.arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        places[name] = {"type": little.dtype.name, "shape": list(little.shape), "at": at}
        data = little.tobytes()
        pieces += [data, bytes(-len(data) % _ALIGN)]
        at += len(data) + -len(data) % _ALIGN
    header = json.dumps({**message.header, "arrays": places}, allow_nan=False).encode()
    header += b" " * (-(len(header) + 4) % _ALIGN)
    return b"".join([len(header).to_bytes(4, "little"), header, *pieces])


def unpack(data: bytes) -> Message:
    """What `pack` wrote."""
    start = 4 + int.from_bytes(data[:4], "little")
    header: Mapping[str, Any] = json.loads(data[4:start])
    arrays = {}
    for name, place in header["arrays"].items():
        kind, shape = np.dtype(place["type"]), place["shape"]
        flat = np.frombuffer(data, kind, int(np.prod(shape, dtype=int)), start + place["at"])
        arrays[name] = flat.reshape(shape)
    return Message({name: value for name, value in header.items() if name != "arrays"}, arrays)
