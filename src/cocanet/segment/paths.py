"""Which images to segment, files or those that `sources` knows, and what to call what is written about each."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.files import NoImages, natural_key
from cocanet.data.readers.images import read_image, readable_suffixes
from cocanet.data.store import Store
from cocanet.data.store_format import META, is_store
from cocanet.segment.sources import PARQUET, Images, StoredImages, is_url, open_parquet, open_url

KINDS = {"labels": ".png", "overlays": ".jpg", "slots": ".npz"}
"""Folders of the output, and the ending of the files in them."""


class Failure(NamedTuple):
    """Something that could not be read, and why."""

    path: Path
    reason: str


class Inputs(NamedTuple):
    """Files in the order they were asked for, and the folder that holds all of them."""

    root: Path
    files: list[Path]
    """Image 123 of a store goes by the name of STORE/000123.png, which is no file."""
    failures: list[Failure]
    """Folders that could not be looked into."""
    sources: Mapping[Path, Images]
    """Images that are not files, by where they are said to lie."""

    def relative(self, path: Path) -> Path:
        return path.relative_to(self.root)

    def read(self, path: Path, most_pixels: int | None = None) -> UInt8[np.ndarray, "h w 3"]:
        """The pixels of a file or of an image that is none; a file of more than `most_pixels` is refused."""
        return read_pixels(path, self.sources, most_pixels)


def read_pixels(
    path: Path, sources: Mapping[Path, Images], most_pixels: int | None = None
) -> UInt8[np.ndarray, "h w 3"]:
    """The pixels of a file, or of an image of one of the sources."""
    place = next((folder for folder in path.parents if folder in sources), None) if sources else None
    if place is None:
        return read_image(path, upright=True, most_pixels=most_pixels)
    return sources[place].read(path.relative_to(place), most_pixels)


@dataclass(frozen=True)
class _Search:
    """What was met on the way."""

    failures: list[Failure] = field(default_factory=list)
    sources: dict[Path, Images] = field(default_factory=dict)

    def add(self, place: Path, images: Images) -> list[Path]:
        """The paths that the images go by."""
        self.sources[place] = images
        return [place / name for name in images.names()]


def find_images(given: Sequence[str | Path], out: Path) -> Inputs:
    """Files as they are, the images of folders, stores, Parquet files and URLs, and what patterns match.

    What an earlier run wrote to `out` is not taken for images. Something that is not there is the user's mistake.
    """
    if not given:
        raise ValueError("no images were given; expected files, folders or patterns")
    written = tuple(f"{_absolute(out / name)}{os.sep}" for name in (*KINDS, "sheet.png"))
    roots, files, search = [], list[Path](), _Search()
    for path in map(str, given):
        if is_url(path):
            for place, found in open_url(path):
                roots.append(place)
                files += search.add(place, found)
        elif os.path.isdir(path):
            roots.append(_absolute(path))
            files += _walk(roots[-1], search)
        elif path.lower().endswith(PARQUET) and os.path.exists(path):
            roots.append(_absolute(path))
            files += search.add(roots[-1], open_parquet(roots[-1]))
        elif os.path.exists(path):
            roots.append(_absolute(path).parent)
            files.append(_absolute(path))
        else:
            roots.append(_fixed_part(path))
            files += _matches(path, search)
    unique = dict.fromkeys(files)
    images = [file for file in unique if not f"{file}{os.sep}".startswith(written)]
    if not images and not search.failures:
        raise ValueError(f"no images in {', '.join(map(str, given))}")
    return Inputs(Path(os.path.commonpath(roots)), images, search.failures, search.sources)


def output_names(relative: Iterable[Path]) -> list[str]:
    """A name for what is written about each file: its path without the ending.

    Where that is taken, as by a.png for a.jpg, the ending stays on, and if need be a number is added. Names differ in
    more than case, for disks that do not tell it apart.
    """
    relative = list(relative)
    taken = {str(folder).casefold() for path in relative for folder in path.parents}
    names = []
    for path in relative:
        name = next(name for name in _candidates(path) if taken.isdisjoint(_occupied(name)))
        taken |= _occupied(name)
        names.append(name)
    return names


def _candidates(path: Path) -> Iterator[str]:
    yield path.with_suffix("").as_posix()
    yield path.as_posix()
    number = 2
    while True:
        yield f"{path.as_posix()}-{number}"
        number += 1


def _occupied(name: str) -> set[str]:
    return {f"{name}{ending}".casefold() for ending in KINDS.values()}


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(path))


def _walk(root: Path, search: _Search) -> list[Path]:
    """Every visible image file, or image of a store or Parquet file, under a folder; links to folders are not followed.

    Files are in natural order. What lies in a store's folder is the store's.
    """
    suffixes, found = readable_suffixes(), list[Path]()

    def refused(error: OSError) -> None:
        search.failures.append(Failure(Path(error.filename), error.strerror or "cannot be opened"))

    for folder, names, files in os.walk(root, onerror=refused):
        if META in files and is_store(Path(folder)):
            names.clear()
            found += search.add(Path(folder), StoredImages(Store(Path(folder), verify=False)))
            continue
        names[:] = [name for name in names if not name.startswith(".")]
        visible = (Path(folder, name) for name in files if not name.startswith("."))
        for file in visible:
            if file.suffix.lower() == PARQUET:
                found += _in_parquet(file, search)
            elif file.suffix.lower() in suffixes:
                found.append(file)
    return sorted(found, key=natural_key)


def _in_parquet(file: Path, search: _Search) -> list[Path]:
    """A file without images is passed over, as any other; why one of images is not read is said at the end."""
    try:
        return search.add(file, open_parquet(file))
    except NoImages:
        return []
    except ValueError as error:
        search.failures.append(Failure(file, str(error).removeprefix(f"{file}: ")))
        return []


def _matches(pattern: str, search: _Search) -> list[Path]:
    if not glob.has_magic(pattern):
        raise ValueError(
            f"{pattern} is not there; expected an image, a folder, a store or a pattern such as 'photos/*.jpg'"
        )
    matches = sorted(map(_absolute, glob.glob(pattern, recursive=True)), key=natural_key)
    if not matches:
        raise ValueError(f"no file matches {pattern}")
    files: list[Path] = []
    for match in matches:
        if match.is_dir():
            files += _walk(match, search)
        else:
            files += _in_parquet(match, search) if match.suffix.lower() == PARQUET else [match]
    return files


def _fixed_part(pattern: str) -> Path:
    """The folder before the first wildcard."""
    parts = Path(pattern).parts
    wild = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return _absolute(Path(*parts[:wild]))
