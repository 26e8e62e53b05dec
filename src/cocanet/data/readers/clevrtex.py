"""CLEVRTex and its test variants: numbered PNG images with palette masks, in folders of a thousand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cocanet.data.readers.base import PairedFiles, parse_split
from cocanet.data.readers.image_files import Box, centre_box
from cocanet.data.readers.input_files import DamagedFile, existing_folder, inside, walk

IMAGE = re.compile(r"CLEVRTEX_[a-z]+_([0-9]{6})\.png")
SIZE = 128


class ClevrTexReader(PairedFiles):
    """A folder `clevrtex_<variant>`, or the one that holds it; the order is that of the image numbers."""

    def __init__(self, path: Path, *, split: str | None = None, size: int | None = None) -> None:
        root = existing_folder(_variant_folder(path))
        _, part = parse_split(split)
        found = [(match[1], name) for name in walk(root) if (match := IMAGE.fullmatch(name.name))]
        images = [name for _, name in sorted(found, key=lambda pair: (int(pair[0]), str(pair[1])))]
        if not images:
            raise DamagedFile(f"{root}: no image named like 0/CLEVRTEX_full_000000.png")
        images = images[_part(len(images), part)]
        if not images:
            raise DamagedFile(f"{root}: too few images for a part {part}")
        super().__init__(root, images, {"name": "clevrtex", "split": split}, size or SIZE)

    def _mask(self, index: int) -> Path:
        name = self._images[index]
        return inside(self._root, name.with_name(f"{name.stem}_flat.png"))

    def _labels(self, mask: Image.Image) -> UInt8[np.ndarray, "h w"]:
        if mask.mode not in ("P", "L", "1"):
            raise ValueError(f"expected a palette or grey mask, found mode {mask.mode}")
        return np.asarray(mask, dtype=np.uint8)

    def _crop(self, shape: tuple[int, ...]) -> Box:
        return centre_box(shape, int(0.8 * min(shape)))


def _variant_folder(path: Path) -> Path:
    """`path` itself, or the only `clevrtex_…` folder in it."""
    inner = sorted(path.glob("clevrtex_*/")) if path.is_dir() else []
    if len(inner) > 1:
        names = ", ".join(folder.name for folder in inner)
        raise DamagedFile(f"{path}: holds {names}; name the one to read")
    return inner[0] if inner else path


def _part(total: int, part: str | None) -> slice:
    """The published order: the first tenth is for test, the second for validation, the others for training."""
    test, val = int(0.1 * total), int(0.2 * total)
    if part is None:
        return slice(None)
    return {"test": slice(0, test), "val": slice(test, val), "train": slice(val, None)}[part]
