"""TFRecord files without TensorFlow: the framing, gzip around it, and records by index.

A record is its length (8 bytes), the masked CRC-32C of the length (4), the payload, and the masked CRC-32C of the
payload (4). A gzip stream can only be read forwards. So the decompressor's state is kept at some positions, and an
index behind the cursor continues from the nearest one; reading in order costs nothing extra. No file stays open and
positions are explicit, so a reader may be forked or pickled at any moment.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cocanet.data.readers.crc32c import crc32c, masked
from cocanet.data.readers.input_files import naming, regular_size

MAX_RECORD_BYTES = 1 << 26  # a CLEVR record, the largest published one, has 3.3 MB
PIECE = 1 << 18
MARKS = 64
FIRST_SPACING = 1 << 23
BOMB_BYTES = 1 << 26
BOMB_RATIO = 900  # deflate cannot exceed 1032; the published sets stay under 200


class Mark(NamedTuple):
    """A place in a file to continue from."""

    record: int
    produced: int
    position: int
    inflater: Any
    pending: bytes
    buffer: bytes


class Inflated:
    """The bytes of a plain or gzip file, forwards, never more than a piece or one request in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        regular_size(path)
        with naming(path), path.open("rb") as file:
            self.gzip = file.read(2) == b"\x1f\x8b"
        self.restore(Mark(0, 0, 0, self._new(), b"", b""))

    def _new(self) -> Any:
        return zlib.decompressobj(wbits=31) if self.gzip else None

    def restore(self, mark: Mark) -> None:
        self.produced, self.position, self.pending = mark.produced, mark.position, mark.pending
        self.inflater: Any = mark.inflater.copy() if mark.inflater else None
        self.buffer, self.offset = mark.buffer, 0

    def mark(self, record: int) -> Mark:
        inflater = self.inflater.copy() if self.inflater else None
        return Mark(record, self.produced, self.position, inflater, self.pending, self.buffer[self.offset :])

    def read(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end of the file."""
        taken = self.buffer[self.offset : self.offset + count]
        self.offset += len(taken)
        if len(taken) == count:
            return taken
        pieces, missing = [taken], count - len(taken)
        while missing and self._fill():
            taken = self.buffer[:missing]
            self.offset = len(taken)
            pieces.append(taken)
            missing -= len(taken)
        return b"".join(pieces)

    def skip(self, count: int) -> int:
        """Pass over `count` bytes; how many there were."""
        left = count
        while True:
            step = min(left, len(self.buffer) - self.offset)
            self.offset += step
            left -= step
            if not left or not self._fill():
                return count - left

    def _fill(self) -> bool:
        """Refill the empty buffer; False at the end."""
        self.offset, self.buffer = 0, b""
        while not self.buffer:
            data = self.pending or self._file_bytes()
            self.pending = b""
            if not data:
                if self.inflater and not self.inflater.eof:
                    raise ValueError("the gzip stream is cut off")
                return False
            self.buffer = self._inflate(data) if self.inflater else data
        self.produced += len(self.buffer)
        if self.produced > BOMB_BYTES and self.produced > BOMB_RATIO * self.position:
            raise ValueError(f"inflates over {BOMB_RATIO} times: a decompression bomb, refused")
        return True

    def _inflate(self, data: bytes) -> bytes:
        if self.inflater.eof:  # another gzip member may follow
            self.inflater = self._new()
        data = self.inflater.decompress(data, PIECE)
        self.pending = self.inflater.unused_data if self.inflater.eof else self.inflater.unconsumed_tail
        return data

    def _file_bytes(self) -> bytes:
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.position)
            data = file.read(PIECE)
        self.position += len(data)
        return data


class RecordFile:
    """The records of one file by index, checked against their checksums."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = Inflated(path)
        self._cursor = 0
        self._spacing = FIRST_SPACING
        self._marks = [self._stream.mark(0)]

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]

    def read(self, index: int) -> bytes:
        """The payload of record `index`."""
        try:
            self._seek(index)
            return self._next()
        except ValueError:
            self._lose_place()
            raise

    def scan(self, limit: int | None, keep: Callable[[bytes], bool] | None = None) -> list[int] | range:
        """The indices of the first `limit` records (of those that `keep` accepts), found in one pass."""
        try:
            return self._scan(limit, keep)
        except ValueError:
            self._lose_place()
            raise

    def _scan(self, limit: int | None, keep: Callable[[bytes], bool] | None) -> list[int] | range:
        kept: list[int] = []
        count = 0
        self._seek(0)
        while limit is None or (len(kept) if keep else count) < limit:
            length = self._length()
            if length is None:
                break
            if keep is None:
                self._pass(length)
            else:
                where, payload = self._where(), self._payload(length)
                with naming(where):
                    if keep(payload):
                        kept.append(count)
            count += 1
        return kept if keep else range(count)

    def _lose_place(self) -> None:
        """After a failure the stream stands within a record; the next read starts from a mark."""
        self._cursor = sys.maxsize

    def _seek(self, index: int) -> None:
        nearest = max((mark for mark in self._marks if mark.record <= index), key=lambda mark: mark.record)
        if index < self._cursor or nearest.record > self._cursor:
            self._stream.restore(nearest)
            self._cursor = nearest.record
        while self._cursor < index:
            length = self._length()
            if length is None:
                raise ValueError(f"{self.path}: record {index}: the file ends after {self._cursor} records")
            self._pass(length)

    def _next(self) -> bytes:
        length = self._length()
        if length is None:
            raise ValueError(f"{self.path}: record {self._cursor}: the file ends before it")
        return self._payload(length)

    def _where(self) -> str:
        return f"{self.path}: record {self._cursor}"

    def _length(self) -> int | None:
        """The length of the record at the cursor, None at the end of the file."""
        with naming(self._where()):
            header = self._stream.read(12)
            if not header:
                return None
            if len(header) < 12:
                raise ValueError("the file is cut off")
            if masked(crc32c(header[:8])) != int.from_bytes(header[8:], "little"):
                raise ValueError("the checksum of its length is wrong")
            length = int.from_bytes(header[:8], "little")
            if length > MAX_RECORD_BYTES:
                raise ValueError(f"claims {length} bytes; at most {MAX_RECORD_BYTES} are read")
            return length

    def _payload(self, length: int) -> bytes:
        with naming(self._where()):
            data = self._stream.read(length + 4)
            if len(data) < length + 4:
                raise ValueError("the file is cut off")
            payload = data[:length]
            if masked(crc32c(payload)) != int.from_bytes(data[length:], "little"):
                raise ValueError("the checksum of its content is wrong")
        self._advance()
        return payload

    def _pass(self, length: int) -> None:
        with naming(self._where()):
            if self._stream.skip(length + 4) < length + 4:
                raise ValueError("the file is cut off")
        self._advance()

    def _advance(self) -> None:
        self._cursor += 1
        if self._stream.produced < self._marks[-1].produced + self._spacing:
            return
        self._marks.append(self._stream.mark(self._cursor))
        if len(self._marks) > MARKS:
            self._marks = self._marks[::2]
            self._spacing *= 2
