"""What all readers share: the source itself, published splits, and folders of images with one mask file each.

A split is written `PART` or `VARIANT/PART`, with PART one of train, val and test: `train`, `clevr6/test`,
`ccs_all/val`. A variant alone (`clevr6`) is all of it. Without a split, a reader reads every sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cocanet.data.readers.image_files import Box, crop_sample, read_image, read_picture, same_size
from cocanet.data.readers.input_files import DamagedFile, inside, naming
from cocanet.data.sample import Sample

PARTS = ("train", "val", "test")
CLEVR6 = "clevr6"
"""The variant of CLEVR whose images have at most six objects."""


class Reader(ABC):
    """A `Source` over published files: subclasses set the three attributes, count their samples and read one."""

    recipe: Mapping[str, Any]
    background_labels: int
    has_labels: bool

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _read(self, index: int) -> Sample: ...

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self._read(index)

    def damaged(self, where: str) -> dict[int, str]:
        """The samples that cannot be read, each with the reason; DamagedFile if no sample can be read."""
        reasons: dict[int, str] = {}
        for index in range(len(self)):
            try:
                self._read(index)
            except DamagedFile as error:
                reasons[index] = str(error)
        if len(reasons) == len(self):
            raise DamagedFile(f"{where}: none of the {len(self)} images can be read; the first: {reasons[0]}")
        return reasons


class PairedFiles(Reader):
    """Image files of a folder, each with a mask file beside it; `has_labels` is False where the masks are missing."""

    def __init__(self, root: Path, images: list[Path], recipe: Mapping[str, Any], size: int) -> None:
        self._root, self._images, self._size = root, images, size
        self.has_labels = self._mask(0).exists()
        self.background_labels = 1 if self.has_labels else 0
        self.recipe = {**recipe, "folder": root.name, "size": size, "count": len(self)}

    def __len__(self) -> int:
        return len(self._images)

    @abstractmethod
    def _mask(self, index: int) -> Path: ...

    @abstractmethod
    def _labels(self, mask: Image.Image) -> UInt8[np.ndarray, "h w"]: ...

    @abstractmethod
    def _crop(self, shape: tuple[int, ...]) -> Box: ...

    def _read(self, index: int) -> Sample:
        path = inside(self._root, self._images[index])
        image = read_image(path)
        labels = np.zeros(image.shape[:2], dtype=np.uint8)
        if self.has_labels:
            mask = self._mask(index)
            picture = read_picture(mask)
            with naming(mask):
                labels = self._labels(picture)
                same_size(image, labels)
        with naming(path):
            return crop_sample(image, labels, self._crop(labels.shape), self._size)


class PublishedSplit(NamedTuple):
    variant: str | None
    part: str | None


class Sizes(NamedTuple):
    """Published sizes of contiguous parts, in the order of the file."""

    train: int
    val: int
    test: int


PUBLISHED = Sizes(90_000, 5_000, 5_000)
PUBLISHED_CLEVR6 = Sizes(49_483, 2_000, 2_000)


def parse_split(split: str | None, variants: Sequence[str] = ()) -> PublishedSplit:
    """The variant and the part that `split` names; ValueError lists the choices if it names none."""
    if split is None:
        return PublishedSplit(None, None)
    variant, _, part = split.rpartition("/")
    if not variant and part in variants:
        return PublishedSplit(part, None)
    if part not in PARTS or (variant and variant not in variants):
        choices = [*PARTS, *(f"{name}/{part}" for name in variants for part in PARTS)]
        raise ValueError(f"split {split!r}: expected one of {', '.join(choices)}")
    return PublishedSplit(variant or None, part)


def contiguous(sizes: Sizes, part: str) -> range:
    """Train first, then val, then test, without shuffling (the object-centric library's protocol)."""
    start = {"train": 0, "val": sizes.train, "test": sizes.train + sizes.val}[part]
    return range(start, start + getattr(sizes, part))


def require(total: int, sizes: Sizes, part: str) -> range:
    """The contiguous part; ValueError if the file is too short to be the published one."""
    chosen = contiguous(sizes, part)
    if chosen.stop > total:
        published = f"{sizes.train}/{sizes.val}/{sizes.test}"
        raise ValueError(
            f"the {part} part of the published {published} ends at {chosen.stop}, but there are {total} "
            "samples; leave the split out to read them all"
        )
    return chosen
