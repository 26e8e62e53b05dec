"""Exported labels for the browser: a file as it is, a folder as a ZIP file that is written as it is sent."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

CHUNK = 2**20


class _Parts(io.RawIOBase):
    """Where a ZIP file is written; it cannot seek, so that what is written can be sent at once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(memoryview(data))  # type: ignore[arg-type]
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def download_name(path: Path) -> str:
    """The name under which a browser saves an export."""
    return f"{path.name}.zip" if path.is_dir() else path.name


def read_export(path: Path) -> Iterator[bytes]:
    """The bytes of a file, or of a ZIP file of a folder."""
    if not path.is_dir():
        with path.open("rb") as file:
            while part := file.read(CHUNK):
                yield part
        return
    parts = _Parts()
    with zipfile.ZipFile(parts, "w", zipfile.ZIP_STORED) as archive:
        for each in sorted(each for each in path.rglob("*") if each.is_file()):
            name = f"{path.name}/{each.relative_to(path).as_posix()}"
            with each.open("rb") as source, archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as target:
                while part := source.read(CHUNK):
                    target.write(part)
                    yield parts.take()
    yield parts.take()
