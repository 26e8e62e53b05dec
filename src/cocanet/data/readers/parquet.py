"""Images in Parquet files, as Hugging Face data sets have them: a column of bytes, or of structs of bytes and path.

An image is cropped to its central square and resized, as a folder's are; a column of masks, encoded as images are,
makes labels of them. Only bytes are read: a column of another program's own type, which that program might unpickle,
is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cocanet.data.readers.files import MAX_FILE_BYTES, DamagedFile, NoImages, naming, natural_key, regular_size
from cocanet.data.readers.folder import SIZE, square_sample
from cocanet.data.readers.images import decode_image, decode_picture
from cocanet.data.readers.reader import Reader
from cocanet.data.sample import Sample
from cocanet.extras import extra

pa = extra("pyarrow", "parquet", "Parquet files are read")
pq = extra("pyarrow.parquet", "parquet", "Parquet files are read")

ENDING = ".parquet"
MAX_GROUP_BYTES = 1 << 32


class ParquetImages:
    """The images of one file by row number, with one group of rows in memory.

    It may be pickled into any number of workers; each opens the file for itself.
    """

    def __init__(
        self, path: Path | str, column: str | None = None, *, besides: Sequence[str] = (), filesystem: Any = None
    ) -> None:
        self.path, self._filesystem = str(path), filesystem
        self._forget()
        with naming(self.path):
            file = self._file()
            self.column = _image_column(file.schema_arrow, column, besides, self.path)
            groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
            largest = max((group.total_byte_size for group in groups), default=0)
            if largest > MAX_GROUP_BYTES:
                raise ValueError(f"a group of rows has {largest} bytes; at most {MAX_GROUP_BYTES} are read")
            self._ends = np.cumsum([group.num_rows for group in groups], dtype=np.int64)

    def _forget(self) -> None:
        self._opened: Any = None
        self._group: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_group": None}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def encoded(self, row: int) -> bytes:
        """The bytes of an image file."""
        with naming(f"{self.path}: row {row}"):
            group = int(np.searchsorted(self._ends, row, side="right"))
            if self._group is None or self._group[0] != group:
                self._group = None
                read = self._file().read_row_group(group, columns=[self.column])
                self._group = group, read.column(0).combine_chunks()
            first = int(self._ends[group - 1]) if group else 0
            return _bytes_of(self._group[1][row - first].as_py())

    def _file(self) -> Any:
        if self._opened is None:
            if self._filesystem is None:
                regular_size(Path(self.path))
            self._opened = pq.ParquetFile(
                self.path if self._filesystem is None else self._filesystem.open(self.path, "rb")
            )
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
            "files": hashlib.sha256(names.encode()).hexdigest()[:16],
            **({"left_out": left_out} if left_out else {}),
        }

    def __len__(self) -> int:
        return len(self._rows)

    def _leave_out_damaged(self) -> list[str]:
        """Forget the rows that cannot be read; why, a line for each."""
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


def _image_column(schema: Any, asked: str | None, besides: Sequence[str], path: str) -> str:
    """The column that is asked for, or the only one that can be of images, or of several the one called image."""
    if asked is not None:
        if asked not in schema.names:
            raise ValueError(f"no column {asked!r}; there are {', '.join(schema.names)}")
        if not _holds_bytes(schema.field(asked).type):
            kind = schema.field(asked).type
            raise ValueError(f"the column {asked!r} is of type {kind}; expected bytes, or structs of bytes and path")
        return asked
    able = [name for name in schema.names if _holds_bytes(schema.field(name).type) and name not in besides]
    said = [name for name in _said_to_be_images(schema) if name in able] or able
    if not said:
        raise NoImages(f"{path}: no column of images; there are {', '.join(schema.names)}")
    if len(said) > 1 and "image" not in said:
        raise ValueError(f"several columns may be the images, name one: {', '.join(said)}")
    return "image" if "image" in said else said[0]


def _holds_bytes(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _is_binary(field.type) for field in kind)
    return _is_binary(kind)


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _said_to_be_images(schema: Any) -> list[str]:
    """The columns that Hugging Face's own entry in the file calls images."""
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
