"""Images that are not files of their own: those of a store, of a Parquet file, or of what fsspec reaches.

Each goes by the path of a file that is not there: image 123 of a store or of a Parquet file is STORE/000123.png, and
s3://photos/a.jpg is /s3:/photos/a.jpg. All of them can be pickled into workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.files import naming, natural_key
from cocanet.data.readers.images import decode_image, readable_suffixes
from cocanet.data.store import Store
from cocanet.extras import extra

PARQUET = ".parquet"


@runtime_checkable
class Images(Protocol):
    """Images by the path that each goes by, relative to where they lie."""

    def names(self) -> list[Path]: ...

    def read(self, name: Path, most_pixels: int | None = None) -> UInt8[np.ndarray, "h w 3"]: ...


@dataclass(frozen=True)
class StoredImages:
    """Those of a store."""

    store: Store

    def names(self) -> list[Path]:
        return _numbered(len(self.store))

    def read(self, name: Path, most_pixels: int | None = None) -> UInt8[np.ndarray, "h w 3"]:
        images, _ = self.store.gather(np.array([int(name.stem)]))
        return np.asarray(images[0])


@dataclass(frozen=True)
class EncodedImages:
    """Those of a Parquet file, here or elsewhere."""

    images: Any

    def names(self) -> list[Path]:
        return _numbered(len(self.images))

    def read(self, name: Path, most_pixels: int | None = None) -> UInt8[np.ndarray, "h w 3"]:
        row = int(name.stem)
        where = f"{self.images.path}: row {row}"
        return decode_image(self.images.encoded(row), where, upright=True, most_pixels=most_pixels)


@dataclass(frozen=True)
class RemoteImages:
    """Files that fsspec reaches, by their paths there."""

    filesystem: Any
    paths: dict[Path, str]

    def names(self) -> list[Path]:
        return list(self.paths)

    def read(self, name: Path, most_pixels: int | None = None) -> UInt8[np.ndarray, "h w 3"]:
        path = self.paths[name]
        with naming(path):
            data = self.filesystem.cat_file(path)
        return decode_image(data, path, upright=True, most_pixels=most_pixels)


def open_parquet(path: Path | str, filesystem: Any = None) -> EncodedImages:
    """The images of a Parquet file; ValueError where it has no column of images."""
    from cocanet.data.readers.parquet import ParquetImages

    return EncodedImages(ParquetImages(path, filesystem=filesystem))


def is_url(given: str) -> bool:
    return "://" in given


def open_url(url: str) -> Iterator[tuple[Path, Images]]:
    """What a URL of a file, a folder or a pattern names: the images, and where each lot of them is said to lie."""
    fsspec = extra("fsspec.core", "ray", "URLs are read")
    with naming(url):
        filesystem, path = fsspec.url_to_fs(url)
        folder, files = _files_at(filesystem, path)
    place, pictures, suffixes = _place(url) / folder.strip("/"), dict[Path, str](), readable_suffixes()
    for file in sorted(files, key=lambda file: natural_key(Path(file))):
        relative = Path(file.removeprefix(folder).lstrip("/"))
        if any(part.startswith(".") for part in relative.parts):
            continue
        if relative.suffix.lower() == PARQUET:
            yield place / relative, open_parquet(file, filesystem)
        elif relative.suffix.lower() in suffixes or file == path:
            pictures[relative] = file
    if pictures:
        yield place, RemoteImages(filesystem, pictures)


def _files_at(filesystem: Any, path: str) -> tuple[str, list[str]]:
    """A folder and the files below it, what matches a pattern, or one file; with the folder they lie in."""
    if has_magic(path):
        parts = path.split("/")
        wild = next(place for place, part in enumerate(parts) if has_magic(part))
        return "/".join(parts[:wild]), [file for file in filesystem.glob(path) if filesystem.isfile(file)]
    if filesystem.isdir(path):
        return path, list(filesystem.find(path))
    if not filesystem.exists(path):
        raise ValueError("no such file or folder")
    return path.rpartition("/")[0], [path]


def _place(url: str) -> Path:
    """`/s3:` for s3://…, `/zip:/photos.zip` for zip://…::photos.zip."""
    first, *chained = url.split("::")
    return Path("/", f"{first.partition('://')[0]}:", *(part.rpartition("://")[2].strip("/") for part in chained))


def _numbered(count: int) -> list[Path]:
    return [Path(f"{index:06d}.png") for index in range(count)]
