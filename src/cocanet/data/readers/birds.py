"""Caltech-UCSD Birds (CUB-200-2011) with the split of the unsupervised segmentation papers.

Every image is cropped to a square around the bird's box, one and a half times as wide as its longer side,
clipped at the border and stretched to 128 × 128. The labels of an image without a segmentation are
`UNLABELLED` everywhere, so that it can train a model but enters no score.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cocanet.data.readers.base import PARTS, Reader, parse_split
from cocanet.data.readers.image_files import Box, crop_sample, read_image, read_picture, same_size
from cocanet.data.readers.input_files import DamagedFile, existing_folder, inside, naming, read_lines
from cocanet.data.sample import Sample
from cocanet.labels import UNLABELLED

IMAGES, BOXES, SPLIT = "images.txt", "bounding_boxes.txt", "train_val_test_split.txt"
SIZE = 128
THRESHOLD = 127


class Bird(NamedTuple):
    """One line of each list. The box is left, top, width and height in pixels."""

    name: str
    box: tuple[float, ...]
    segmented: bool


class BirdsReader(Reader):
    """The published folder: three lists, `images/` and `segmentations/`; ordered like `images.txt`."""

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        self._root = existing_folder(path)
        _, part = parse_split(split)
        self._birds = self._listed(part)
        if not self._birds:
            raise DamagedFile(f"{self._root / IMAGES}: lists no image of this split")
        segmented = sum(bird.segmented for bird in self._birds)
        self.has_labels = segmented > 0
        self.background_labels = 1 if self.has_labels else 0
        self._size = size or SIZE
        self.recipe = {
            "name": "birds",
            "folder": self._root.name,
            "split": split,
            "size": self._size,
            "count": len(self),
            "segmented": segmented,
        }

    def __len__(self) -> int:
        return len(self._birds)

    def is_segmented(self, index: int) -> bool:
        """Whether an image has a true mask."""
        return self._birds[index].segmented

    def _listed(self, part: str | None) -> list[Bird]:
        names, boxes = self._table(IMAGES, 1), self._table(BOXES, 4)
        parts = self._table(SPLIT, 1) if part else {}
        birds = []
        for key, (name,) in names.items():
            with naming(f"{self._root / IMAGES}: image {key}"):
                if part and key not in parts:
                    raise ValueError(f"not in {SPLIT}")
                if part and parts[key] != [str(PARTS.index(part))]:
                    continue
                if key not in boxes:
                    raise ValueError(f"not in {BOXES}")
                inside(self._root / "images", name)
                segmented = inside(self._root / "segmentations", _mask_name(name)).exists()
                birds.append(Bird(name, _box(boxes[key]), segmented))
        return birds

    def _table(self, name: str, columns: int) -> dict[str, list[str]]:
        """The values of each line by the number it starts with."""
        path = inside(self._root, name)
        table: dict[str, list[str]] = {}
        for number, line in enumerate(read_lines(path), start=1):
            key, *values = line.split()
            with naming(f"{path}: line {number}"):
                if len(values) != columns or not key.isdecimal():
                    raise ValueError(f"expected a number and {columns} more, found {line[:60]!r}")
                if key in table:
                    raise ValueError(f"image {key} is listed twice")
            table[key] = values
        return table

    def _read(self, index: int) -> Sample:
        bird = self._birds[index]
        path = inside(self._root / "images", bird.name)
        image = read_image(path)
        labels = np.full(image.shape[:2], UNLABELLED if self.has_labels else 0, dtype=np.uint8)
        if bird.segmented:
            mask = inside(self._root / "segmentations", _mask_name(bird.name))
            picture = read_picture(mask)
            with naming(mask):
                labels = (np.asarray(picture.convert("L")) > THRESHOLD).astype(np.uint8)
                same_size(image, labels)
        with naming(path):
            box = self._crop(index, labels.shape)
        return crop_sample(image, labels, box, self._size)

    def _crop(self, index: int, shape: tuple[int, ...]) -> Box:
        """The crop of an image of this height and width."""
        return bird_box(self._birds[index].box, shape)


def bird_box(box: tuple[float, ...], shape: tuple[int, ...]) -> Box:
    """The crop around a bird's box (left, top, width, height) in an image of this height and width."""
    height, width = shape
    x, y, wide, high = box
    half = int(0.75 * max(wide, high))
    across, down = int(x + wide / 2), int(y + high / 2)
    top, bottom = max(0, down - half), min(height, down + half)
    left, right = max(0, across - half), min(width, across + half)
    if top >= bottom or left >= right:
        raise ValueError(f"its box {box} lies outside the {width}×{height} pixels")
    return Box(top, left, bottom, right)


def _mask_name(name: str) -> str:
    return str(Path(name).with_suffix(".png"))


def _box(values: list[str]) -> tuple[float, ...]:
    box = tuple(float(value) for value in values)
    if not all(math.isfinite(value) and abs(value) < 1e6 for value in box) or min(box[2:]) <= 0:
        raise ValueError(f"not a box: {' '.join(values)[:60]}")
    return box
