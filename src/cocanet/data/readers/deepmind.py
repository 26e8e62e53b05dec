"""DeepMind's multi-object sets as published: Tetrominoes, Multi-dSprites, ObjectsRoom, CLEVR with masks.

The files do not name their set; the reader recognises it by the sizes and names of the features. Factors keep their
published names and units (in Tetrominoes x is the row and y the column, on the uncropped canvas); row j belongs to
the j-th object.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.base import CLEVR6, PUBLISHED, PUBLISHED_CLEVR6, Reader, contiguous, parse_split, require
from cocanet.data.readers.example import (
    BYTES_LIST,
    Feature,
    parse_example,
    read_bytes_feature,
    read_float_feature,
)
from cocanet.data.readers.image_files import Box, centre_box, crop_sample
from cocanet.data.readers.input_files import existing_folder, naming, natural_key, walk
from cocanet.data.readers.published_labels import compact, repair_labels
from cocanet.data.readers.tfrecord import RecordFile
from cocanet.data.sample import Sample


@dataclass(frozen=True)
class Family:
    """The layout of one published set, and its crop and size in the protocol."""

    name: str
    height: int
    width: int
    channels: int
    background: int
    size: int
    box: Box
    entities_last: bool = False

    def matches(self, image: int, mask: int, names: set[str]) -> bool:
        plane = self.height * self.width
        fits = image == plane * self.channels and mask % plane == 0
        return fits and ("visibility" in names) == (self.name != "objects_room")


FAMILIES = (
    Family("tetrominoes", 35, 35, 3, 1, 32, centre_box((35, 35), 32)),
    Family("multi_dsprites", 64, 64, 3, 1, 64, Box(0, 0, 64, 64), entities_last=True),
    Family("multi_dsprites", 64, 64, 1, 1, 64, Box(0, 0, 64, 64), entities_last=True),
    Family("objects_room", 64, 64, 3, 4, 64, Box(0, 0, 64, 64)),
    Family("clevr_with_masks", 240, 320, 3, 1, 128, Box(29, 64, 221, 256)),
)


class Pixels(NamedTuple):
    """Image and masks of a record as flat bytes."""

    image: UInt8[np.ndarray, " n"]
    mask: UInt8[np.ndarray, " m"]


class DeepMindReader(Reader):
    """One TFRecord file, or a folder of them read in natural order."""

    has_labels = True

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        self._files = [RecordFile(file) for file in _record_files(path)]
        first = self._files[0].read(0)
        with naming(f"{self._files[0].path}: record 0"):
            features = parse_example(first)
            self._family, self._entities = _recognise(_pixels(features), set(features))
        variants = [CLEVR6] if self._family.name == "clevr_with_masks" else []
        variant, part = parse_split(split, variants)
        sizes = PUBLISHED_CLEVR6 if variant else PUBLISHED
        limit = contiguous(sizes, part).stop if part else None
        self._records = self._scan(limit, six=variant == CLEVR6)
        if part:
            with naming(path):
                chosen = require(len(self._records), sizes, part)
            self._records = self._records[chosen.start : chosen.stop]
        self._size = size or self._family.size
        self.background_labels = self._family.background
        self.recipe = {
            "name": "deepmind-tfrecord",
            "file": path.name,
            "set": self._family.name,
            "entities": self._entities,
            "split": split,
            "size": self._size,
            "count": len(self),
        }

    def __len__(self) -> int:
        return len(self._records)

    def _scan(self, limit: int | None, six: bool) -> np.ndarray:
        """Which file and which record each sample is, as two columns."""
        found = []
        left = limit
        for number, file in enumerate(self._files):
            rows = np.asarray(file.scan(left, _at_most_six if six else None), dtype=np.int64)
            found.append(np.stack([np.full_like(rows, number), rows], axis=1))
            left = None if left is None else left - len(rows)
        return np.concatenate(found)

    def _read(self, index: int) -> Sample:
        number, record = (int(value) for value in self._records[index])
        file = self._files[number]
        payload = file.read(record)
        with naming(f"{file.path}: record {record}"):
            return self._sample(parse_example(payload))

    def _sample(self, features: dict[str, Feature]) -> Sample:
        family, pixels = self._family, _pixels(features)
        if _recognise(pixels, set(features)) != (family, self._entities):
            raise ValueError(f"not a {family.name} record of {self._entities} entities like the first one")
        image = pixels.image.reshape(family.height, family.width, family.channels)
        if family.channels == 1:
            image = np.repeat(image if image.max() > 1 else image * np.uint8(255), 3, axis=2)
        labels = self._labels(pixels.mask)
        factors: dict[str, np.ndarray] = {}
        if family.name == "objects_room":
            labels = repair_labels(labels, self._entities)
        else:
            factors = _factors(features, self._entities)
            labels, factors = compact(labels, factors["visibility"], factors)
        return crop_sample(image, labels, family.box, self._size, factors)

    def _labels(self, stored: UInt8[np.ndarray, " n"]) -> UInt8[np.ndarray, "h w"]:
        """The plane that covers each pixel; background where none does."""
        family = self._family
        if not ((stored == 0) | (stored == 255)).all():
            raise ValueError("a mask holds values other than 0 and 255")
        if family.entities_last:
            planes = stored.reshape(family.height, family.width, self._entities).transpose(2, 0, 1)
        else:
            planes = stored.reshape(self._entities, family.height, family.width)
        return np.asarray(planes.argmax(axis=0), dtype=np.uint8)


def _record_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    root = existing_folder(path)
    files = [root / name for name in walk(root) if ".tfrecord" in name.name.lower()]
    if not files:
        raise ValueError(f"{path}: no .tfrecords file in this folder")
    return sorted(files, key=natural_key)


def _pixels(features: dict[str, Feature]) -> Pixels:
    missing = {"image", "mask"} - set(features)
    if missing:
        raise ValueError(f"no feature named {', '.join(sorted(missing))}: not a multi-object record")
    return Pixels(read_bytes_feature(features["image"]), read_bytes_feature(features["mask"]))


def _recognise(pixels: Pixels, names: set[str]) -> tuple[Family, int]:
    """The family and the number of entities (background included) of a record."""
    image, mask = pixels.image.size, pixels.mask.size
    for family in FAMILIES:
        entities = mask // (family.height * family.width)
        if family.matches(image, mask, names) and 1 <= entities <= 32:
            return family, entities
    raise ValueError(f"an image of {image} and a mask of {mask} bytes belong to no published set")


def _factors(features: dict[str, Feature], entities: int) -> dict[str, np.ndarray]:
    factors = {}
    for name, feature in sorted(features.items()):
        if name in ("image", "mask"):
            continue
        values = read_bytes_feature(feature) if feature.kind == BYTES_LIST else read_float_feature(feature)
        if values.size == 0 or values.size % entities:
            raise ValueError(f"{name} has {values.size} values for {entities} entities")
        factors[name] = values if values.size == entities else values.reshape(entities, -1)
    return factors


def _at_most_six(payload: bytes) -> bool:
    """CLEVR6: six objects or fewer; the background is counted as visible too."""
    return int((read_float_feature(parse_example(payload)["visibility"]) > 0).sum()) - 1 <= 6
