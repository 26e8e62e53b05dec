"""The checksum of a safetensors file, in its own header: of the other metadata, the tensors' index and their bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cocanet.files import parse_json

MAX_HEADER_BYTES = 2**24
CHECKSUM = "sha256"
_METADATA, _LENGTH = "__metadata__", 8


def with_checksum(content: bytes) -> list[bytes | memoryview]:
    """The pieces of a safetensors file with a checksum in its metadata."""
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header, tensors = json.loads(content[_LENGTH:end]), memoryview(content)[end:]
    digest = _digest_of_header(header)
    digest.update(tensors)
    header[_METADATA] = {**header.get(_METADATA, {}), CHECKSUM: digest.hexdigest()}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return [len(text).to_bytes(_LENGTH, "little"), text, tensors]


def check_file(path: Path) -> Mapping[str, str]:
    """The metadata of a safetensors file; ValueError if it has a checksum that its content does not have."""
    with path.open("rb") as file:
        header = _read_header(file, path)
        _check_length(file, header, path)
        metadata = header.get(_METADATA, {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError(f"{path} is damaged: its metadata is not a dictionary of strings")
        if CHECKSUM in metadata:
            digest = _digest_of_header(header)
            while piece := file.read(2**20):
                digest.update(piece)
            if digest.hexdigest() != metadata[CHECKSUM]:
                raise ValueError(f"{path} is damaged: its content does not match its own sha256")
    return metadata


def _read_header(file: BinaryIO, path: Path) -> dict[str, Any]:
    length = int.from_bytes(file.read(_LENGTH), "little")
    text = file.read(length) if length <= MAX_HEADER_BYTES else b""
    if len(text) != length or not length:
        raise ValueError(f"{path} is truncated, or not a safetensors file: its header has {length:,} bytes")
    header = parse_json(text, str(path))
    if not isinstance(header, dict):
        raise ValueError(f"{path} is not a safetensors file: its header is {type(header).__name__}")
    return header


def _check_length(file: BinaryIO, header: Mapping[str, Any], path: Path) -> None:
    """The tensors end where the file does, or earlier: what else is wrong with the index, safetensors finds."""
    begin, size = file.tell(), path.stat().st_size
    places = [entry.get("data_offsets") for entry in header.values() if isinstance(entry, dict)]
    ends = [place[1] for place in places if isinstance(place, list) and len(place) == 2 and isinstance(place[1], int)]
    expected = begin + max(ends, default=0)
    if size < expected:
        raise ValueError(f"{path} is truncated, or not a safetensors file: {size:,} bytes; expected {expected:,}")


def _digest_of_header(header: Mapping[str, Any]) -> Any:
    metadata = {name: value for name, value in header.get(_METADATA, {}).items() if name != CHECKSUM}
    plain = {**header, _METADATA: metadata}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
