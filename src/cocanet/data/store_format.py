"""The files of a store, and how they are written and checked.

    meta.json                  format, recipe, sizes and an entry per shard; rewritten as shards finish
    shard-00000.images.npy     uint8 (n, h, w, 3)
    shard-00000.labels.npy     uint8 (n, h, w)
    shard-00000.factors.npz    per factor the values of all objects in one array, and a count for each image

Every file appears by an atomic rename, so a reader sees it whole or not at all. No pickle is written or read.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from cocanet.config.serialization import from_dict
from cocanet.files import FileEntry, read_json, sync_folder, write_atomically
from cocanet.limits import MAX_DECODED_BYTES, check_image_size

FORMAT = "cocanet-store"
VERSION = 1
META = "meta.json"
PARTS = ("images.npy", "labels.npy", "factors.npz")
_PIXEL_BYTES = {"images.npy": 3, "labels.npy": 1, "factors.npz": 0}
ShardEntry = Mapping[str, FileEntry]
Factors = Mapping[str, np.ndarray]
# The count of an image that lacks a factor which others have.
_MISSING = -1


@dataclass(frozen=True)
class StoreMeta:
    """The contents of `meta.json`. A shard that is not finished yet is None."""

    recipe: Mapping[str, Any]
    count: int
    height: int
    width: int
    background_labels: int
    has_labels: bool
    shard_size: int
    shards: tuple[ShardEntry | None, ...]

    @property
    def seed(self) -> int | None:
        """The recipe's seed; None where nothing is random."""
        return self.recipe.get("seed")

    @property
    def complete(self) -> bool:
        return None not in self.shards

    @property
    def finished(self) -> int:
        """Samples in finished shards."""
        return sum(self.samples_in(i) for i, shard in enumerate(self.shards) if shard is not None)

    def samples_in(self, shard: int) -> int:
        """How many samples shard number `shard` holds; only the last may be short."""
        return min(self.shard_size, self.count - shard * self.shard_size)


def shard_file(folder: Path, shard: int, part: str) -> Path:
    return folder / f"shard-{shard:05d}.{part}"


def npy_pieces(array: np.ndarray) -> list[bytes | memoryview]:
    """A .npy file of a C-ordered array without a copy of its data."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return [header.getvalue(), array.reshape(-1).data]


def plain_json(value: Any) -> Any:
    """`value` after a round trip through JSON, so that recipes compare equal."""
    try:
        return json.loads(json.dumps(value, sort_keys=True))
    except TypeError as error:
        raise ValueError(f"a recipe must be plain JSON: {error}") from None


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_meta(folder: Path, meta: StoreMeta) -> None:
    head = {"format": FORMAT, "version": VERSION, "seed": meta.seed, "complete": meta.complete}
    content = plain_json(head | asdict(meta))
    content["sha256"] = _digest(content)
    # The shards must be durable before the entry that refers to them.
    sync_folder(folder)
    write_atomically(folder / META, [json.dumps(content, indent=1).encode(), b"\n"])
    sync_folder(folder)


def read_meta(folder: Path) -> StoreMeta:
    """The checked `meta.json` of a store, finished or not."""
    path = folder / META
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise ValueError(f"{folder} is not a store: {META} is missing") from None
    except NotADirectoryError:
        raise ValueError(f"{folder} is not a store but a file") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'{path} does not describe a store: expected "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise ValueError(f"{path} has format version {content.get('version')!r}, expected {VERSION}")
    recorded = content.pop("sha256", None)
    if recorded != _digest(content):
        raise ValueError(f"{path} was altered: its contents do not match its own sha256")
    return _parse(content, path)


def is_store(folder: Path) -> bool:
    """Whether a folder holds a store, finished or not. Other programs have a `meta.json` too."""
    try:
        content = read_json(folder / META)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _parse(content: Mapping[str, Any], path: Path) -> StoreMeta:
    """The fields, of the right types and sizes: anyone can compute a digest."""
    names = {field.name for field in fields(StoreMeta)}
    meta = from_dict(StoreMeta, {name: content[name] for name in names if name in content}, str(path))
    with damaged(path):
        check_image_size(meta.width, meta.height)
    wanted = -(-meta.count // meta.shard_size) if meta.shard_size > 0 else 0
    if min(meta.count, meta.height, meta.width) < 1 or len(meta.shards) != wanted or meta.background_labels < 0:
        raise ValueError(
            f"{path} is damaged: {meta.count} images of {meta.width}×{meta.height} pixels, {meta.shard_size} in each "
            f"of {len(meta.shards)} shards"
        )
    for shard, entry in enumerate(meta.shards):
        if entry is not None and set(entry) != set(PARTS):
            raise ValueError(f"{path} is damaged: shard {shard} has {', '.join(entry)}; expected {', '.join(PARTS)}")
    return meta


def check_sizes(folder: Path, meta: StoreMeta) -> None:
    """Check that every finished shard's files exist and have their recorded sizes."""
    for shard, entry in enumerate(meta.shards):
        pixels = meta.samples_in(shard) * meta.height * meta.width
        for part, expected in (entry or {}).items():
            path = shard_file(folder, shard, part)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise ValueError(f"{path} is missing from the store") from None
            if size != expected.bytes or size < pixels * _PIXEL_BYTES[part]:
                least = max(expected.bytes, pixels * _PIXEL_BYTES[part])
                raise ValueError(f"{path} is damaged: expected {least} bytes, found {size}")


def check_hash(path: Path, expected: FileEntry) -> None:
    """Check that the file is bit for bit as it was written."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected.sha256:
        raise ValueError(f"{path} was altered: expected sha256 {expected.sha256[:12]}…, found {found[:12]}…")


def pack_factors(images: Sequence[Factors]) -> bytes:
    """The .npz of the factors of a shard. An image may lack a factor that others have."""
    names = sorted({name for factors in images for name in factors})
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        present = [np.asarray(factors[name]) for factors in images if name in factors]
        counts = [len(factors[name]) if name in factors else _MISSING for factors in images]
        if any(values.dtype.kind not in "biufUS" for values in present):
            raise ValueError(f"factor {name!r} must hold numbers or fixed-width strings, not {present[0].dtype}")
        try:
            arrays[f"values/{name}"] = np.concatenate(present)
        except (ValueError, TypeError) as error:
            raise ValueError(f"factor {name!r} changes its shape from image to image: {error}") from None
        arrays[f"counts/{name}"] = np.array(counts, dtype=np.int32)
    buffer = io.BytesIO()
    # `savez` gives every member the same fixed date, so equal factors make equal bytes.
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn every error of a decoder into one line that names the file: zip and NumPy raise many kinds."""
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"{path} is missing from the store") from None
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{path} is damaged: {reason[0]}") from None


class ShardFactors:
    """The factors of one shard, read whole: they are small compared to the images."""

    def __init__(self, path: Path, count: int) -> None:
        self._values: dict[str, np.ndarray] = {}
        self._ends: dict[str, np.ndarray] = {}
        self._counts: dict[str, np.ndarray] = {}
        with damaged(path), zipfile.ZipFile(path) as archive:
            needed = sum(member.file_size for member in archive.infolist())
            if needed > MAX_DECODED_BYTES:
                raise ValueError(f"its arrays take {needed:,} bytes; expected at most {MAX_DECODED_BYTES:,}")
        with damaged(path), np.load(path, allow_pickle=False) as arrays:
            for key in arrays.files:
                kind, _, name = key.partition("/")
                (self._values if kind == "values" else self._counts)[name] = arrays[key]
        for name, counts in self._counts.items():
            with damaged(path):
                if counts.ndim != 1 or counts.dtype.kind != "i" or len(counts) != count:
                    raise ValueError(f"factor {name!r} has counts {counts.dtype} {counts.shape} for {count} images")
                self._ends[name] = np.cumsum(np.maximum(counts, 0))
                if name not in self._values or self._ends[name][-1] != len(self._values[name]):
                    raise ValueError(f"factor {name!r} does not fit {count} images")

    def __getitem__(self, image: int) -> dict[str, np.ndarray]:
        return {
            name: self._values[name][self._ends[name][image] - counts[image] : self._ends[name][image]].copy()
            for name, counts in self._counts.items()
            if counts[image] != _MISSING
        }
