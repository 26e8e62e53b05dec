"""Sizes of the pages of a Parquet column, from their headers: how much memory a reader will need.

A file says in its footer how large its columns are, and in front of each page how large that is; only the latter binds.
A header is a Thrift struct in the compact protocol: its fields 2 and 3 are the page's bytes decoded and in the file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_HEADER_BYTES = 2**20
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_DECODED, _STORED = 2, 3
_DEEPEST = 8


class PageHeader(NamedTuple):
    decoded: int
    """Bytes of the page in memory."""
    stored: int
    """Bytes of the page in the file, after the header."""
    length: int
    """Bytes of the header itself."""


def largest_page(file: Any, start: int, stop: int) -> int:
    """Decoded bytes of the largest page among the bytes `start` … `stop` of an open file."""
    largest = 0
    while start < stop:
        file.seek(start)
        header = parse_header(file.read(min(MAX_HEADER_BYTES, stop - start)))
        if header.stored < 0 or header.decoded < 0:
            raise ValueError(f"a page at byte {start} has {header.decoded} bytes, {header.stored} in the file")
        largest = max(largest, header.decoded)
        start += header.length + header.stored
    return largest


def parse_header(data: bytes) -> PageHeader:
    """The header of the page that begins with these bytes."""
    reader, sizes = _Compact(data), dict[int, int]()
    try:
        for field, kind in reader.fields():
            if field in (_DECODED, _STORED) and kind in _INTEGERS:
                sizes[field] = reader.integer()
            else:
                reader.skip(kind, _DEEPEST)
        return PageHeader(sizes[_DECODED], sizes[_STORED], reader.place)
    except (IndexError, KeyError):
        raise ValueError("a page has a damaged header") from None


class _Compact:
    """Reads Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def fields(self) -> Any:
        """Number and type of each field of a struct; the caller reads or skips its value."""
        number = 0
        while (head := self.byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise IndexError

    def integer(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int, depth: int) -> None:
        """Pass over a value."""
        if depth == 0:
            raise IndexError
        if kind in _INTEGERS:
            self.unsigned()
        elif kind in (_BYTE, _DOUBLE, _BINARY):
            size = {_BYTE: 1, _DOUBLE: 8}.get(kind)
            # The length of bytes moves the place before it is added.
            length = self.unsigned() if size is None else size
            self.place += length
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth - 1)
        elif kind in (_LIST, _SET):
            head = self.byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self.unsigned()):
                self._skip_element(head & 15, depth - 1)
        elif kind not in (_TRUE, _FALSE):
            raise IndexError  # page headers have no maps

    def _skip_element(self, kind: int, depth: int) -> None:
        if kind in (_TRUE, _FALSE):
            self.place += 1  # inside of a list, a boolean has a byte of its own
        else:
            self.skip(kind, depth)
        if self.place > len(self.data):
            raise IndexError
