"""Numeric arrays of a MATLAB 5 file, enough for lists of image numbers.

SciPy reads these files too, but a damaged file can crash its compiled reader and Python with it. This reader checks
every length against the bytes of the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from jaxtyping import Num

HEADER = 128
MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MAX_INFLATED = 1 << 24


class Element(NamedTuple):
    kind: int
    content: bytes


def read_mat5(data: bytes) -> dict[str, Num[np.ndarray, " ..."]]:
    """The numeric arrays by name; other variables are passed over."""
    if not data.startswith(b"MATLAB 5.0 MAT-file") or data[124:128] not in (b"\x00\x01IM", b"\x01\x00MI"):
        raise ValueError("not a MATLAB 5 file")
    order = "<" if data[126:128] == b"IM" else ">"
    arrays = {}
    for element in _elements(data[HEADER:], order):
        if element.kind == COMPRESSED:
            element = next(_elements(_inflate(element.content), order), element)
        if element.kind == MATRIX:
            name, array = _matrix(element.content, order)
            if array is not None:
                arrays[name] = array
    return arrays


def _elements(data: bytes, order: str) -> Iterator[Element]:
    at = 0
    while at < len(data):
        kind, size = _words(data[at : at + 8], order)
        if kind >> 16:  # a small element keeps its content in the second half of the tag
            kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            if size > 4:
                raise ValueError(f"a small element of {size} bytes")
        else:
            start = at + 8
            end = start + size + (-size % 8 if kind != COMPRESSED else 0)
        if start + size > len(data):
            raise ValueError("cut off within an array")
        yield Element(kind, data[start : start + size])
        at = end


def _words(tag: bytes, order: str) -> tuple[int, int]:
    if len(tag) < 8:
        raise ValueError("cut off between arrays")
    endian = "little" if order == "<" else "big"
    return int.from_bytes(tag[:4], endian), int.from_bytes(tag[4:], endian)  # type: ignore[arg-type]


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, MAX_INFLATED)
    if not inflater.eof:
        raise ValueError("cut off within a compressed array, or too large")
    return plain


def _matrix(data: bytes, order: str) -> tuple[str, np.ndarray | None]:
    parts = list(islice(_elements(data, order), 4))  # flags, shape, name, values
    if len(parts) < 4 or len(parts[0].content) != 8 or parts[3].kind not in TYPES:
        return "", None
    shape = np.frombuffer(parts[1].content, f"{order}i4").tolist()
    values = np.frombuffer(parts[3].content, order + TYPES[parts[3].kind])
    if min(shape, default=-1) < 0 or int(np.prod(shape, dtype=object)) != values.size:
        raise ValueError(f"{values.size} values for an array of shape {shape}")
    return parts[2].content.decode("latin-1"), values.reshape(shape, order="F")
