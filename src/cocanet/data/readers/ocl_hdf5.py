"""The six HDF5 files of the object-centric library, on which the paper's code trains.

Only the arrays are read. The `-metadata.npy` beside them is a pickle, which could run code; nothing in it is needed.
An HDF5 file can refer to other files, or declare arrays that it does not hold. Such files are refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.base import CLEVR6, PUBLISHED, PUBLISHED_CLEVR6, Reader, Sizes, parse_split, require
from cocanet.data.readers.image_files import centre_box, crop_sample
from cocanet.data.readers.input_files import DamagedFile, naming, regular_size
from cocanet.data.readers.published_labels import compact, repair_labels
from cocanet.data.sample import Sample

MAX_CHUNK_BYTES = 1 << 28
CACHE_BYTES = 1 << 26
FILTERS = {"1", "2", "3", "4", "32000"}  # deflate, shuffle, fletcher32, szip, lzf: those that h5py ships
NOT_FACTORS = {"image", "mask", "visibility", "num_actual_objects"}


class Layout(NamedTuple):
    """One of the six files."""

    stored: int
    size: int
    background: int
    entities: int
    sizes: Sizes = PUBLISHED


SETS = {
    "tetrominoes": Layout(35, 32, 1, 4),
    "multidsprites_colored_on_grayscale": Layout(64, 64, 1, 6),
    "objects_room_train": Layout(64, 64, 4, 7),
    "shapestacks": Layout(64, 64, 1, 7),
    "clevr_10": Layout(128, 128, 1, 11),
    "clevrtex": Layout(128, 128, 1, 11, Sizes(40_000, 5_000, 5_000)),
}


class OclReader(Reader):
    """One file, recognised by its published name (`clevr_10-full.hdf5`, …)."""

    has_labels = True

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        self.path = _hdf5_file(path)
        regular_size(self.path)
        self._name = self.path.stem.split("-")[0]
        if self._name not in SETS:
            names = ", ".join(f"{name}-full.hdf5" for name in SETS)
            raise DamagedFile(f"{self.path}: the file's name names the set, one of {names}")
        self._set = SETS[self._name]
        self._opened: tuple[int, Any] | None = None
        variant, part = parse_split(split, [CLEVR6] if self._name == "clevr_10" else [])
        with naming(self.path):
            self._factors = _check(self._file(), self.path, self._set)
            self._records = self._choose(variant, part)
        self._size = size or self._set.size
        self.background_labels = self._set.background
        self.recipe = {
            "name": "ocl-hdf5",
            "file": self.path.name,
            "split": split,
            "size": self._size,
            "count": len(self),
        }

    def __len__(self) -> int:
        return len(self._records)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _file(self) -> Any:
        """The open file; each process opens its own, since HDF5 handles do not survive a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), h5py.File(self.path, "r", rdcc_nbytes=CACHE_BYTES)
        return self._opened[1]

    def _choose(self, variant: str | None, part: str | None) -> np.ndarray:
        total = self._file()["image"].shape[0]
        records = np.arange(total)
        if variant == CLEVR6:
            counts = _array(self._file(), "num_actual_objects", self.path)
            records = np.flatnonzero(counts[:].reshape(total, -1)[:, 0] <= 6)
        if part:
            chosen = require(len(records), PUBLISHED_CLEVR6 if variant else self._set.sizes, part)
            records = records[chosen.start : chosen.stop]
        return records

    def _read(self, index: int) -> Sample:
        record = int(self._records[index])
        with naming(f"{self.path}: record {record}"):
            file = self._file()
            image = np.ascontiguousarray(file["image"][record])
            labels = _labels(file["mask"][record])
            factors = {name: np.asarray(file[name][record]) for name in self._factors}
            if self._set.background > 1:
                labels, factors = repair_labels(labels, self._set.entities), {}
            else:
                visibility = np.asarray(file["visibility"][record]).reshape(-1)
                labels, factors = compact(labels, visibility, factors)
            box = centre_box(labels.shape, min(self._set.size, len(labels)))
            return crop_sample(image, labels, box, self._size, factors)


def _hdf5_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob("*.hdf5"))
    if len(files) != 1:
        raise DamagedFile(f"{path}: holds {len(files)} .hdf5 files; name the one to read")
    return files[0]


def _labels(stored: np.ndarray) -> UInt8[np.ndarray, "h w"]:
    values = stored[..., 0]
    if values.min() < 0 or values.max() > 255:
        raise ValueError(f"labels from {values.min()} to {values.max()}")
    return np.ascontiguousarray(values, dtype=np.uint8)


def _check(file: Any, path: Path, published: Layout) -> list[str]:
    """Refuse a file whose arrays are not what the set's are; the names of the object factors."""
    image, mask = _array(file, "image", path), _array(file, "mask", path)
    count, side = image.shape[0], image.shape[1] if image.ndim > 1 else 0
    if side not in (published.stored, published.size) or image.shape != (count, side, side, 3):
        raise ValueError(f"image has shape {image.shape}; expected (N, {published.stored}, …, 3)")
    if image.dtype != np.uint8:
        raise ValueError(f"image has type {image.dtype}; expected uint8")
    if mask.shape != (count, side, side, 1) or mask.dtype.kind not in "ui":
        raise ValueError(f"mask has shape {mask.shape}, type {mask.dtype}; expected labels for {image.shape}")
    if count == 0:
        raise ValueError("holds no images")
    for name in ("visibility", "num_actual_objects"):
        array = _array(file, name, path)
        rows = published.entities if name == "visibility" else 1
        if array.dtype.kind not in "uifb" or array.shape not in ((count, rows), (count, rows, 1)):
            raise ValueError(f"{name} has shape {array.shape}; expected ({count}, {rows})")
    others = sorted({name for name in file if isinstance(name, str)} - NOT_FACTORS)  # bytes if not UTF-8
    return [name for name in others if _is_factor(_array(file, name, path), count, published)]


def _is_factor(array: Any, count: int, published: Layout) -> bool:
    numeric = array.dtype.kind in "uifb" and array.ndim in (2, 3)
    return bool(numeric and array.shape[:2] == (count, published.entities) and array.size <= count * 4096)


def _array(file: Any, name: str, path: Path) -> Any:
    """A data set that lies in this file, and wholly so."""
    link = file.get(name, getlink=True)
    if link is None:
        raise ValueError(f"no array named {name!r}")
    if not isinstance(link, h5py.HardLink):
        raise ValueError(f"{name!r} is a link to somewhere else, refused")
    array = file[name]
    if not isinstance(array, h5py.Dataset):
        raise ValueError(f"{name!r} is not an array")
    if array.is_virtual or array.external:
        raise ValueError(f"{name!r} lies in another file, refused")
    foreign = set(array._filters) - {"gzip", "shuffle", "fletcher32", "szip", "lzf"} - FILTERS
    if foreign:
        raise ValueError(f"{name!r} is compressed with unknown filters {sorted(foreign)}")
    _check_stored(array, name, path)
    return array


def _check_stored(array: Any, name: str, path: Path) -> None:
    claimed = f"{name!r} claims the shape {array.shape}"
    if array.chunks is None:
        if array.id.get_storage_size() != array.nbytes or array.nbytes > path.stat().st_size:
            raise ValueError(f"{claimed}, which this file does not hold")
        return
    if int(np.prod(array.chunks, dtype=object)) * array.dtype.itemsize > MAX_CHUNK_BYTES:
        raise ValueError(f"{name!r} has pieces of {array.chunks}, over {MAX_CHUNK_BYTES} bytes")
    if array.id.get_storage_size() > path.stat().st_size:
        raise ValueError(f"{claimed}, which this file does not hold")
    pieces = 1
    for length, step in zip(array.shape, array.chunks, strict=True):
        pieces *= -(-length // step)
    stored = array.id.get_num_chunks()
    if stored != pieces:
        raise ValueError(f"{claimed}, but {stored} of its {pieces} pieces are in this file")
