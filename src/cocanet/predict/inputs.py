"""Which images to segment, and the names of their output files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.image_files import read_image, readable_suffixes
from cocanet.data.readers.input_files import NoImages, natural_key
from cocanet.data.store import Store
from cocanet.data.store_format import META, is_store
from cocanet.files import is_output
from cocanet.predict.image_sources import PARQUET, ImageSource, StoreSource, is_url, open_parquet, open_url

KINDS = {"labels": ".png", "overlays": ".jpg", "slots": ".npz"}
"""Folders of the output, and the suffix of the files in them."""
FURTHER = ("voc", "yolo", "label-studio")
"""Folders of further annotations."""


class ReadFailure(NamedTuple):
    """A file or folder that could not be read, and why."""

    path: Path
    reason: str


class Inputs(NamedTuple):
    """Images in the order of the request."""

    root: Path
    """The folder that holds all of them."""
    files: list[Path]
    """Image 123 of a store has the path STORE/000123.png, which is not a file."""
    failures: list[ReadFailure]
    """Folders and Parquet files that could not be opened."""
    sources: Mapping[Path, ImageSource]
    """Sources of images that are not files, by their folder."""

    def relative(self, path: Path) -> Path:
        return path.relative_to(self.root)

    def read(self, path: Path) -> UInt8[np.ndarray, "h w 3"]:
        """The pixels of an input."""
        return read_input(path, self.sources)


def read_input(path: Path, sources: Mapping[Path, ImageSource]) -> UInt8[np.ndarray, "h w 3"]:
    """The pixels of a file, or of an image of one of the sources."""
    root = next((folder for folder in path.parents if folder in sources), None) if sources else None
    if root is None:
        return read_image(path, upright=True)
    return sources[root].read(path.relative_to(root))


@dataclass(frozen=True)
class _Search:
    """Sources and failures of a search for images."""

    failures: list[ReadFailure] = field(default_factory=list)
    sources: dict[Path, ImageSource] = field(default_factory=dict)

    def add(self, root: Path, source: ImageSource) -> list[Path]:
        """The paths of the source's images."""
        self.sources[root] = source
        return [root / name for name in source.names()]


def find_images(given: Sequence[str | Path], out: Path) -> Inputs:
    """Files, the images of folders, stores, Parquet files and URLs, and the matches of patterns.

    Results of an earlier run in `out` are not inputs. ValueError if a path does not exist or there are no images.
    """
    if not given:
        raise ValueError("no images were given; expected files, folders or patterns")
    written = tuple(f"{_absolute(out / name)}{os.sep}" for name in (*KINDS, *FURTHER, "sheet.png"))
    roots, files, search = [], list[Path](), _Search()
    for path in map(str, given):
        if is_url(path):
            for root, source in open_url(path):
                roots.append(root)
                files += search.add(root, source)
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
    """A unique name for the results of each file: its path without the suffix.

    If that name is taken, as by a.png for a.jpg, the suffix stays, and if needed a number is added. Names differ in
    more than case, for file systems that ignore case.
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
    return {f"{name}{suffix}".casefold() for suffix in KINDS.values()}


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(path))


def _walk(root: Path, search: _Search) -> list[Path]:
    """Every visible image below a folder, in natural order; links to folders are not followed.

    A store's folder and a Parquet file count as their images. Folders that cocanet wrote are skipped.
    """
    suffixes, found = readable_suffixes(), list[Path]()

    def refused(error: OSError) -> None:
        search.failures.append(ReadFailure(Path(error.filename), error.strerror or "cannot be opened"))

    for folder, names, files in os.walk(root, onerror=refused):
        if META in files and is_store(Path(folder)):
            names.clear()
            found += search.add(Path(folder), StoreSource(Store(Path(folder), verify=False)))
            continue
        names[:] = [name for name in names if not name.startswith(".") and not is_output(Path(folder, name))]
        for file in (Path(folder, name) for name in files if not name.startswith(".")):
            if file.suffix.lower() == PARQUET:
                found += _in_parquet(file, search)
            elif file.suffix.lower() in suffixes:
                found.append(file)
    return sorted(found, key=natural_key)


def _in_parquet(file: Path, search: _Search) -> list[Path]:
    """The images of a Parquet file that was not named itself: without images it is skipped, as other files are."""
    try:
        return search.add(file, open_parquet(file))
    except NoImages:
        return []
    except ValueError as error:
        search.failures.append(ReadFailure(file, str(error).removeprefix(f"{file}: ")))
        return []


def _matches(pattern: str, search: _Search) -> list[Path]:
    if not glob.has_magic(pattern):
        raise ValueError(
            f"{pattern} is not there; expected an image, a folder, a store or a pattern such as 'photos/*.jpg'"
        )
    root, found = _fixed_part(pattern), map(_absolute, glob.glob(pattern, recursive=True))
    matches = sorted((match for match in found if not _is_written(match, root)), key=natural_key)
    if not matches:
        raise ValueError(f"no file matches {pattern}")
    files: list[Path] = []
    for match in matches:
        if match.is_dir():
            files += _walk(match, search)
        else:
            files += _in_parquet(match, search) if match.suffix.lower() == PARQUET else [match]
    return files


def _is_written(match: Path, root: Path) -> bool:
    """Whether a match of a pattern lies in a folder, below the pattern's own, that cocanet wrote."""
    return any(is_output(folder) for folder in (match, *match.parents) if folder != root and root in folder.parents)


def _fixed_part(pattern: str) -> Path:
    """The folder before the first wildcard."""
    parts = Path(pattern).parts
    wild = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return _absolute(Path(*parts[:wild]))
