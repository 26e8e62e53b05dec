"""What a store looks like on disk: its files, its `meta.json`, and how both are written and checked.

    meta.json                  format, recipe, sizes and an entry per shard; rewritten as shards finish
    shard-00000.images.npy     uint8 (n, h, w, 3)
    shard-00000.labels.npy     uint8 (n, h, w)
    shard-00000.factors.npz    per factor the values of all objects in a row, and a count for each image

Every file appears by an atomic rename, so a reader sees it whole or not at all. No pickle is written or read.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cocanet.files import FileEntry, read_json, sync_folder, write_atomically

FORMAT = "cocanet-store"
VERSION = 1
META = "meta.json"
PARTS = ("images.npy", "labels.npy", "factors.npz")


ShardEntry = Mapping[str, FileEntry]


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
        """The recipe's seed; None where nothing was drawn at random."""
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
    """`value` as it will be after a round trip through JSON, so that recipes compare equal."""
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
    # The shards must last before the entry that vouches for them does.
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
    return _parse(content)


def is_store(folder: Path) -> bool:
    """Whether a folder holds a store, finished or not: others have a `meta.json` too."""
    try:
        content = read_json(folder / META)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _parse(content: Mapping[str, Any]) -> StoreMeta:
    # The digest held, so the fields are as `write_meta` left them.
    shards = tuple(
        None if shard is None else {part: FileEntry(**shard[part]) for part in PARTS} for shard in content["shards"]
    )
    fields = ("recipe", "count", "height", "width", "background_labels", "has_labels", "shard_size")
    return StoreMeta(**{field: content[field] for field in fields}, shards=shards)


def check_sizes(folder: Path, meta: StoreMeta) -> None:
    """Every finished shard's files are there, with the bytes they were written with."""
    for shard, entry in enumerate(meta.shards):
        for part, expected in (entry or {}).items():
            path = shard_file(folder, shard, part)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise ValueError(f"{path} is missing from the store") from None
            if size != expected.bytes:
                raise ValueError(f"{path} is damaged: expected {expected.bytes} bytes, found {size}")


def check_hash(path: Path, expected: FileEntry) -> None:
    """The file is what was written, bit for bit."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected.sha256:
        raise ValueError(f"{path} was altered: expected sha256 {expected.sha256[:12]}…, found {found[:12]}…")
