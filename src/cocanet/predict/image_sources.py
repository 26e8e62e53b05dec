"""Images that are not local files: images in a store, in a Parquet file, or behind a URL that fsspec opens.

Each has the path of a file that does not exist. Image 123 of a store or of a Parquet file is STORE/000123.png, and
s3://photos/a.jpg is /s3:/photos/a.jpg. All sources can be pickled for workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.image_files import decode_image, readable_suffixes
from cocanet.data.readers.input_files import naming, natural_key
from cocanet.data.store import Store
from cocanet.extras import extra

PARQUET = ".parquet"


@runtime_checkable
class ImageSource(Protocol):
    """Images by relative path."""

    def names(self) -> list[Path]: ...

    def read(self, name: Path) -> UInt8[np.ndarray, "h w 3"]: ...


@dataclass(frozen=True)
class StoreSource:
    """Images of a store."""

    store: Store

    def names(self) -> list[Path]:
        return _numbered(len(self.store))

    def read(self, name: Path) -> UInt8[np.ndarray, "h w 3"]:
        images, _ = self.store.gather(np.array([int(name.stem)]))
        return np.asarray(images[0])


@dataclass(frozen=True)
class ParquetSource:
    """Images of a Parquet file, local or remote."""

    images: Any

    def names(self) -> list[Path]:
        return _numbered(len(self.images))

    def read(self, name: Path) -> UInt8[np.ndarray, "h w 3"]:
        row = int(name.stem)
        origin = f"{self.images.path}: row {row}"
        return decode_image(self.images.encoded(row), origin, upright=True)


@dataclass(frozen=True)
class RemoteSource:
    """Files of an fsspec file system, by their paths there."""

    filesystem: Any
    paths: dict[Path, str]

    def names(self) -> list[Path]:
        return list(self.paths)

    def read(self, name: Path) -> UInt8[np.ndarray, "h w 3"]:
        path = self.paths[name]
        with naming(path):
            data = self.filesystem.cat_file(path)
        return decode_image(data, path, upright=True)


def open_parquet(path: Path | str, filesystem: Any = None) -> ParquetSource:
    """The images of a Parquet file; ValueError if it has no column of images."""
    from cocanet.data.readers.parquet import ParquetImages

    return ParquetSource(ParquetImages(path, filesystem=filesystem))


def is_url(given: str) -> bool:
    return "://" in given


def open_url(url: str) -> Iterator[tuple[Path, ImageSource]]:
    """Sources of images at the URL of a file, a folder or a pattern, each with its local name."""
    fsspec = extra("fsspec.core", "ray", "URLs are read")
    with naming(url):
        filesystem, path = fsspec.url_to_fs(url)
        folder, files = _files_at(filesystem, path)
    root, images, suffixes = _local_root(url) / folder.strip("/"), dict[Path, str](), readable_suffixes()
    for file in sorted(files, key=lambda file: natural_key(Path(file))):
        relative = Path(file.removeprefix(folder).lstrip("/"))
        if any(part.startswith(".") for part in relative.parts):
            continue
        if relative.suffix.lower() == PARQUET:
            yield root / relative, open_parquet(file, filesystem)
        elif relative.suffix.lower() in suffixes or file == path:
            images[relative] = file
    if images:
        yield root, RemoteSource(filesystem, images)


def _files_at(filesystem: Any, path: str) -> tuple[str, list[str]]:
    """Files below a folder, matches of a pattern, or one file; with the folder that holds them."""
    if has_magic(path):
        parts = path.split("/")
        wild = next(place for place, part in enumerate(parts) if has_magic(part))
        return "/".join(parts[:wild]), [file for file in filesystem.glob(path) if filesystem.isfile(file)]
    if filesystem.isdir(path):
        return path, list(filesystem.find(path))
    if not filesystem.exists(path):
        raise ValueError("no such file or folder")
    return path.rpartition("/")[0], [path]


def _local_root(url: str) -> Path:
    """`/s3:` for s3://…, `/zip:/photos.zip` for zip://…::photos.zip."""
    first, *chained = url.split("::")
    return Path("/", f"{first.partition('://')[0]}:", *(part.rpartition("://")[2].strip("/") for part in chained))


def _numbered(count: int) -> list[Path]:
    return [Path(f"{index:06d}.png") for index in range(count)]
