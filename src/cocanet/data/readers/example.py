"""The protocol-buffer message `tf.train.Example`: a dictionary of lists of bytes or floats.

Images are stored as lists of one-byte strings, each written as its tag, its length and the byte. Such lists are read
as one strided view.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
BYTES_LIST, FLOAT_LIST = 1, 2
MAX_FEATURES = 64
MAX_FLOAT_BYTES = 1 << 16
TAG = (1 << 3) | LENGTH  # field 1 as bytes: a list's value


class Field(NamedTuple):
    """One field of a message: its number, and its content where it is a string of bytes."""

    number: int
    wire: int
    content: memoryview


class Feature(NamedTuple):
    kind: int
    content: memoryview


def parse_example(payload: bytes) -> dict[str, Feature]:
    """The features of one example by name, not yet decoded."""
    features: dict[str, Feature] = {}
    for group in _strings(memoryview(payload), 1):
        for entry in _strings(group, 1):
            if len(features) >= MAX_FEATURES:
                raise ValueError(f"more than {MAX_FEATURES} features")
            name, value = "", memoryview(b"")
            for field in _fields(entry):
                if field.wire == LENGTH and field.number == 1:
                    name = bytes(field.content).decode("utf-8")
                elif field.wire == LENGTH and field.number == 2:
                    value = field.content
            content = next(_fields(value), None)
            features[name] = Feature(content.number, content.content) if content else Feature(0, value)
    return features


def read_bytes_feature(feature: Feature) -> UInt8[np.ndarray, " n"]:
    """The bytes of a list of one-byte strings, or of one longer string."""
    if feature.kind != BYTES_LIST:
        raise ValueError(f"expected a list of bytes, found list kind {feature.kind}")
    data = np.frombuffer(feature.content, dtype=np.uint8)
    if data.size % 3 == 0 and (data[::3] == TAG).all() and (data[1::3] == 1).all():
        return data[2::3]
    text = next(_fields(feature.content), None)
    if text is None or text.number != 1 or text.wire != LENGTH:
        raise ValueError("expected one-byte strings or a single string")
    if _header_bytes(text.content.nbytes) + text.content.nbytes != data.size:
        raise ValueError("expected one-byte strings or a single string, found several longer ones")
    return np.frombuffer(text.content, dtype=np.uint8)


def read_float_feature(feature: Feature) -> Float32[np.ndarray, " n"]:
    """The floats of a list, packed or not."""
    if feature.kind != FLOAT_LIST:
        raise ValueError(f"expected a list of floats, found list kind {feature.kind}")
    if len(feature.content) > MAX_FLOAT_BYTES:
        raise ValueError(f"{len(feature.content)} bytes of floats; at most {MAX_FLOAT_BYTES} are read")
    parts = [bytes(field.content) for field in _fields(feature.content) if field.wire in (LENGTH, FOUR_BYTES)]
    data = b"".join(parts)
    if len(data) % 4:
        raise ValueError("a list of floats ends within a float")
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


def _header_bytes(length: int) -> int:
    """How many bytes a string's tag and length take."""
    return 1 + max(1, -(-length.bit_length() // 7))


def _strings(data: memoryview, number: int) -> Iterator[memoryview]:
    return (field.content for field in _fields(data) if field.number == number and field.wire == LENGTH)


def _fields(data: memoryview) -> Iterator[Field]:
    at, end = 0, len(data)
    while at < end:
        key, start = _varint(data, at)
        wire = key & 7
        if wire == LENGTH:
            length, start = _varint(data, start)
            at = start + length
        elif wire == VARINT:
            _, at = _varint(data, start)
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            at = start + (8 if wire == EIGHT_BYTES else 4)
        else:
            raise ValueError(f"wire type {wire} is no part of an example")
        if at > end:
            raise ValueError("a field runs over the end of its message")
        yield Field(key >> 3, wire, data[start:at])


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A variable-length integer and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a variable-length integer does not end")
