"""CLEVRTex and its test variants: numbered PNG images with palette masks, in folders of a thousand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cocanet.data.readers.files import DamagedFile, existing_folder, inside, naming, walk
from cocanet.data.readers.images import (
    centre_box,
    crop_sample,
    index_mask,
    read_image,
    read_picture,
    same_size,
)
from cocanet.data.readers.reader import Reader
from cocanet.data.readers.splits import parse_split
from cocanet.data.sample import Sample

IMAGE = re.compile(r"CLEVRTEX_[a-z]+_([0-9]{6})\.png")
SIZE = 128


class ClevrTexReader(Reader):
    """A folder `clevrtex_<variant>`, or the one that holds it; the order is that of the image numbers."""

    background_labels = 1

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        self._root = existing_folder(_variant_folder(path))
        _, part = parse_split(split)
        found = [(match[1], name) for name in walk(self._root) if (match := IMAGE.fullmatch(name.name))]
        self._images = [name for _, name in sorted(found, key=lambda pair: (int(pair[0]), str(pair[1])))]
        if not self._images:
            raise DamagedFile(f"{self._root}: no image named like 0/CLEVRTEX_full_000000.png")
        self._images = self._images[_part(len(self._images), part)]
        if not self._images:
            raise DamagedFile(f"{self._root}: too few images for a part {part}")
        self.has_labels = self._mask(0).exists()
        self._size = size or SIZE
        self.recipe = {
            "name": "clevrtex",
            "folder": self._root.name,
            "split": split,
            "size": self._size,
            "count": len(self),
        }
        if not self.has_labels:
            self.background_labels = 0

    def __len__(self) -> int:
        return len(self._images)

    def _mask(self, index: int) -> Path:
        name = self._images[index]
        return inside(self._root, name.with_name(f"{name.stem}_flat.png"))

    def _read(self, index: int) -> Sample:
        path = inside(self._root, self._images[index])
        image = read_image(path)
        labels = np.zeros(image.shape[:2], dtype=np.uint8)
        if self.has_labels:
            picture = read_picture(self._mask(index))
            with naming(self._mask(index)):
                labels = index_mask(picture)
                same_size(image, labels)
        box = centre_box(labels.shape, int(0.8 * min(labels.shape)))
        return crop_sample(image, labels, box, self._size)


def _variant_folder(path: Path) -> Path:
    """`path` itself, or the only `clevrtex_…` folder in it."""
    inner = sorted(path.glob("clevrtex_*/")) if path.is_dir() else []
    if len(inner) > 1:
        names = ", ".join(folder.name for folder in inner)
        raise DamagedFile(f"{path}: holds {names}; name the one to read")
    return inner[0] if inner else path


def _part(total: int, part: str | None) -> slice:
    """The published order: the first tenth is for test, the next for validation, the rest for training."""
    test, val = int(0.1 * total), int(0.2 * total)
    if part is None:
        return slice(None)
    return {"test": slice(0, test), "val": slice(test, val), "train": slice(val, None)}[part]
