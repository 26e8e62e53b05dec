"""Images in Parquet files, as Hugging Face data sets have them: a column of bytes, or of structs of bytes and path.

Images are cropped to their central square and resized, as those of a folder are. A column of masks, encoded as
images, gives the labels. Only bytes are read: a column of an extension type, which might be unpickled, is refused.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cocanet.data.readers.base import Reader
from cocanet.data.readers.folder import SIZE, square_sample
from cocanet.data.readers.image_files import decode_image, decode_picture
from cocanet.data.readers.input_files import DamagedFile, NoImages, naming, natural_key, regular_size
from cocanet.data.readers.parquet_pages import largest_page
from cocanet.data.sample import Sample
from cocanet.extras import extra
from cocanet.limits import MAX_DECODED_BYTES, MAX_FILE_BYTES

pa = extra("pyarrow", "parquet", "Parquet files are read")
pq = extra("pyarrow.parquet", "parquet", "Parquet files are read")

ENDING = ".parquet"
MAX_ROWS = 2**24
"""Of a file; published ones have thousands."""
BATCH, BATCH_BYTES = 64, 2**26
"""Rows in memory; fewer, down to one, where pages are large."""


class ParquetImages:
    """The images of one file by row number, with a few rows in memory: fast forwards, slower backwards.

    It may be pickled into any number of workers, each of which opens the file for itself. Threads can share it.
    """

    def __init__(
        self, path: Path | str, column: str | None = None, *, besides: Sequence[str] = (), filesystem: Any = None
    ) -> None:
        self.path, self._filesystem = str(path), filesystem
        self._forget()
        with naming(self.path):
            file = self._file()
            self.column = _image_column(file.schema_arrow, column, besides, self.path)
            rows = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            if min(rows, default=0) < 0 or sum(rows) > MAX_ROWS:
                raise ValueError(f"{sum(rows):,} rows; expected at most {MAX_ROWS:,}")
            self._ends = np.cumsum(rows, dtype=np.int64)

    def _forget(self) -> None:
        self._opened: Any = None
        self._batches: Iterator[Any] = iter(())
        self._group = -1
        self._first, self._rows = 0, list[Any]()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("path", "column", "_filesystem", "_ends")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def encoded(self, row: int) -> bytes:
        """The bytes of an image file."""
        with naming(f"{self.path}: row {row}"), self._lock:
            group = int(np.searchsorted(self._ends, row, side="right"))
            row -= int(self._ends[group - 1]) if group else 0
            if group != self._group or row < self._first:
                self._open_group(group)
            while row >= self._first + len(self._rows):
                self._first, self._rows = self._first + len(self._rows), []
                batch = next(self._batches, None)
                if batch is None:
                    raise ValueError("the file has fewer rows than it says")
                self._rows = batch.column(0)
            return _bytes_of(self._rows[row - self._first].as_py())

    def _open_group(self, group: int) -> None:
        """Begin with the first rows of a group. A value is at most as large as the largest page."""
        self._group, self._first, self._rows = -1, 0, []
        page = max((self._largest_page(chunk) for chunk in self._chunks(group)), default=0)
        if page > MAX_DECODED_BYTES:
            raise ValueError(f"a page has {page:,} bytes; expected at most {MAX_DECODED_BYTES:,}")
        rows = max(1, min(BATCH, BATCH_BYTES // max(1, page)))
        options = {"row_groups": [group], "columns": [self.column], "use_threads": False}
        self._batches = self._file().iter_batches(rows, **options)
        self._group = group

    def _chunks(self, group: int) -> Iterator[Any]:
        """The column's parts in a group: bytes, and perhaps paths."""
        found = self._file().metadata.row_group(group)
        for number in range(found.num_columns):
            chunk = found.column(number)
            if f"{chunk.path_in_schema}.".startswith(f"{self.column}."):
                yield chunk

    def _largest_page(self, chunk: Any) -> int:
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            start = min(start, chunk.dictionary_page_offset)
        with self._bytes() as file:
            return largest_page(file, start, start + chunk.total_compressed_size)

    def _bytes(self) -> Any:
        return Path(self.path).open("rb") if self._filesystem is None else self._filesystem.open(self.path, "rb")

    def _file(self) -> Any:
        if self._opened is None:
            if self._filesystem is None:
                regular_size(Path(self.path))
            source = self.path if self._filesystem is None else self._bytes()
            self._opened = pq.ParquetFile(source, pre_buffer=False, buffer_size=2**16)
        return self._opened


class ParquetReader(Reader):
    """A file, or those of a folder in natural order. `masks` is the column of the masks."""

    def __init__(
        self,
        path: Path,
        *,
        split: str | None = None,
        size: int | None = None,
        column: str | None = None,
        masks: str | None = None,
        skip_damaged: bool = False,
    ) -> None:
        files = _parquet_files(path, split)
        self._images = [ParquetImages(file, column, besides=[masks] if masks else []) for file in files]
        self._masks = [ParquetImages(file, masks) for file in files] if masks else None
        self._ends = np.cumsum([len(images) for images in self._images])
        self._rows = np.arange(self._ends[-1])
        if not len(self._rows):
            raise DamagedFile(f"{path}: holds no rows")
        self.has_labels = masks is not None
        self.background_labels = 1 if masks else 0
        self._size = size or SIZE
        left_out = self._leave_out_damaged() if skip_damaged else []
        names = "\n".join(f"{file.name} {file.stat().st_size}" for file in files)
        self.recipe = {
            "name": "parquet",
            "folder": path.name,
            "split": split,
            "column": self._images[0].column,
            "masks": masks,
            "size": self._size,
            "count": len(self),
            "files": hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16],
            **({"left_out": left_out} if left_out else {}),
        }

    def __len__(self) -> int:
        return len(self._rows)

    def _leave_out_damaged(self) -> list[str]:
        """Drop the rows that cannot be read; the reasons, one line each."""
        reasons = self.damaged(str(self._images[0].path))
        self._rows = np.delete(self._rows, list(reasons))
        return list(reasons.values())

    def _read(self, index: int) -> Sample:
        file = int(np.searchsorted(self._ends, self._rows[index], side="right"))
        row = int(self._rows[index] - (self._ends[file - 1] if file else 0))
        where = f"{self._images[file].path}: row {row}"
        image = decode_image(self._images[file].encoded(row), where, upright=True)
        if self._masks is None:
            return square_sample(image, None, self._size)
        picture = decode_picture(self._masks[file].encoded(row), where, upright=True)
        with naming(where):
            return square_sample(image, picture, self._size)


def _parquet_files(path: Path, split: str | None) -> list[Path]:
    """Those of a split begin with its name, `train-00000-of-00004.parquet`, or lie in a folder of that name."""
    if not path.exists():
        raise DamagedFile(f"{path}: no such file or folder")
    found = [path]
    if path.is_dir():
        hidden = (".", "_")
        everything = (file.relative_to(path) for file in path.rglob(f"*{ENDING}"))
        visible = [file for file in everything if not any(part.startswith(hidden) for part in file.parts)]
        found = [path / file for file in sorted(visible, key=natural_key)]
        if not found:
            raise DamagedFile(f"{path}: no {ENDING} files in this folder")
    if split is None:
        return found
    chosen = [file for file in found if split in (_split_name(file), file.parent.name)]
    if not chosen:
        there = ", ".join(dict.fromkeys(_split_name(file) for file in found))
        raise ValueError(f"split {split!r}: no file of {path} begins with it; there are {there}")
    return chosen


def _split_name(file: Path) -> str:
    return file.stem.split("-")[0]


def _image_column(schema: Any, name: str | None, besides: Sequence[str], path: str) -> str:
    """The named column, or the only one that can hold images, or of several the one called image."""
    if name is not None:
        if name not in schema.names:
            raise ValueError(f"no column {name!r}; there are {', '.join(schema.names)}")
        if not _holds_bytes(schema.field(name).type):
            kind = schema.field(name).type
            raise ValueError(f"the column {name!r} is of type {kind}; expected bytes, or structs of bytes and path")
        return name
    able = [column for column in schema.names if _holds_bytes(schema.field(column).type) and column not in besides]
    found = [column for column in _declared_images(schema) if column in able] or able
    if not found:
        raise NoImages(f"{path}: no column of images; there are {', '.join(schema.names)}")
    if len(found) > 1 and "image" not in found:
        raise ValueError(f"several columns may be the images, name one: {', '.join(found)}")
    return "image" if "image" in found else found[0]


def _holds_bytes(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _is_binary(field.type) for field in kind)
    return _is_binary(kind)


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _declared_images(schema: Any) -> list[str]:
    """The columns that Hugging Face's metadata in the file declares as images."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return [name for name, feature in features.items() if feature.get("_type") == "Image"]
    except (KeyError, ValueError, TypeError, AttributeError):
        return []


def _bytes_of(value: Any) -> bytes:
    data = value.get("bytes") if isinstance(value, dict) else value
    if data is None:
        path = value.get("path") if isinstance(value, dict) else None
        raise ValueError(f"no bytes, only the path {path!r}" if path else "empty")
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{len(data)} bytes; at most {MAX_FILE_BYTES} are read")
    return bytes(data)
