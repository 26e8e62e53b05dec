"""Oxford Flowers-102 with the split of the unsupervised segmentation papers.

They train on the part that its authors call test, since it is the largest: train = `tstid`, val = `valid`, test =
`trnid`. Images are stretched to 128 × 128. So are the masks, bilinearly and with a threshold of one half. The
background of the published segmentations is blue: a pixel is background where red or green is 0 or blue is 254.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cocanet.data.readers.base import Reader, parse_split
from cocanet.data.readers.image_files import read_image, resize_image, same_size
from cocanet.data.readers.input_files import DamagedFile, existing_folder, inside, naming, read_bytes, walk
from cocanet.data.readers.mat5 import read_mat5
from cocanet.data.sample import Sample

IMAGE = re.compile(r"image_([0-9]{5})\.jpg")
VARIABLES = {"train": "tstid", "val": "valid", "test": "trnid"}
SETID = "setid.mat"
MAX_MAT_BYTES = 1 << 20
MAX_IMAGES = 100_000
SIZE = 128


class FlowersReader(Reader):
    """The folder that holds `jpg/`, `setid.mat` and, for masks, `segmim/`; the order is that of the numbers.

    Without a split, every image on disk.
    """

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        self._root = existing_folder(path)
        _, part = parse_split(split)
        if not (self._root / "jpg").is_dir():
            raise DamagedFile(f"{path}: no folder jpg in it")
        self._numbers = self._listed(part) if part else self._on_disk()
        if not self._numbers:
            raise DamagedFile(f"{path}: no image named like jpg/image_00001.jpg")
        self.has_labels = (self._root / "segmim").is_dir()
        self.background_labels = 1 if self.has_labels else 0
        self._size = size or SIZE
        self.recipe = {
            "name": "flowers",
            "folder": self._root.name,
            "split": split,
            "size": self._size,
            "count": len(self),
        }

    def __len__(self) -> int:
        return len(self._numbers)

    def _on_disk(self) -> list[int]:
        names = walk(inside(self._root, "jpg"))
        return sorted(int(match[1]) for name in names if (match := IMAGE.fullmatch(str(name))))

    def _listed(self, part: str) -> list[int]:
        path, name = inside(self._root, SETID), VARIABLES[part]
        data = read_bytes(path, MAX_MAT_BYTES)
        with naming(path):
            lists = read_mat5(data)
            if name not in lists:
                raise ValueError(f"no list {name} of image numbers in it")
            numbers = lists[name].ravel()
            if not np.isin(numbers, np.arange(MAX_IMAGES)).all():
                raise ValueError(f"{name} holds values that are no image numbers")
            if len(np.unique(numbers)) != len(numbers):
                raise ValueError(f"{name} lists an image twice")
        return [int(number) for number in np.sort(numbers)]

    def _read(self, index: int) -> Sample:
        number = self._numbers[index]
        image = read_image(inside(self._root, f"jpg/image_{number:05d}.jpg"))
        labels = np.zeros((self._size, self._size), dtype=np.uint8)
        if self.has_labels:
            mask = inside(self._root, f"segmim/segmim_{number:05d}.jpg")
            segmentation = read_image(mask)
            with naming(mask):
                same_size(image, segmentation)
                labels = flower_labels(segmentation, self._size)
        return Sample(resize_image(image, self._size), labels, {})


def flower_labels(segmentation: UInt8[np.ndarray, "h w 3"], size: int) -> UInt8[np.ndarray, "size size"]:
    """1 on the flower of a published segmentation."""
    red, green, blue = np.moveaxis(segmentation, 2, 0)
    flower = ~((red == 0) | (green == 0) | (blue == 254))
    grey = Image.fromarray(flower.astype(np.uint8) * 255).resize((size, size), Image.Resampling.BILINEAR)
    return (np.asarray(grey) > 127).astype(np.uint8)
