"""A user's own images: every picture under a folder, with masks from a second folder where there are any.

An image is turned upright by its orientation tag, made 8-bit RGB (transparency laid on white), cropped to its
central square and resized. A mask has one value or colour for each object and 0, black or transparent for the
background; it belongs to the image of the same relative path without the ending, or else of the same file
name.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image

from cocanet.data.readers.files import DamagedFile, existing_folder, inside, naming, walk
from cocanet.data.readers.images import (
    centre_box,
    read_image,
    read_picture,
    readable_suffixes,
    resize_image,
    same_size,
    segments,
)
from cocanet.data.readers.reader import Reader
from cocanet.data.sample import Sample

SIZE = 128


class FolderReader(Reader):
    """Images in natural order of their paths. A folder with `images/` and `masks/` in it needs no `masks`."""

    def __init__(
        self, path: Path, *, size: int | None = None, masks: Path | None = None, skip_damaged: bool = False
    ) -> None:
        root = existing_folder(path)
        if masks is None and (root / "images").is_dir() and (root / "masks").is_dir():
            root, masks = existing_folder(root / "images"), root / "masks"
        self._root = root
        self._mask_root = existing_folder(masks) if masks else None
        self._images = [name for name in _pictures(root) if not self._is_mask(root / name)]
        if not self._images:
            raise DamagedFile(f"{path}: no images in this folder")
        self._masks = _match(self._images, self._mask_root) if self._mask_root else []
        self.has_labels = self._mask_root is not None
        self.background_labels = 1 if self.has_labels else 0
        self._size = size or SIZE
        left_out = self._leave_out_damaged() if skip_damaged else []
        self.recipe = {
            "name": "folder",
            "folder": path.name,
            "masks": masks.name if masks else None,
            "size": self._size,
            "count": len(self),
            "files": self._fingerprint(),
            **({"left_out": left_out} if left_out else {}),
        }

    def __len__(self) -> int:
        return len(self._images)

    def _leave_out_damaged(self) -> list[str]:
        """Forget the images that cannot be read, or their masks; why, a line for each."""
        reasons = self.damaged(str(self._root))
        self._images = [name for index, name in enumerate(self._images) if index not in reasons]
        self._masks = [name for index, name in enumerate(self._masks) if index not in reasons]
        return list(reasons.values())

    def _fingerprint(self) -> str:
        """A hash of the names and lengths of all files: another folder of that name is not continued with."""
        roots = [(self._root, self._images), *([(self._mask_root, self._masks)] if self._mask_root else [])]
        files = (f"{name} {inside(root, name).stat().st_size}" for root, names in roots for name in names)
        return hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]

    def _is_mask(self, path: Path) -> bool:
        return self._mask_root not in (None, self._root) and path.is_relative_to(str(self._mask_root))

    def _read(self, index: int) -> Sample:
        image = read_image(inside(self._root, self._images[index]), upright=True)
        if not self._mask_root:
            return square_sample(image, None, self._size)
        mask = inside(self._mask_root, self._masks[index])
        picture = read_picture(mask, upright=True)
        with naming(mask):
            return square_sample(image, picture, self._size)


def square_sample(image: UInt8[np.ndarray, "h w 3"], mask: Image.Image | None, size: int) -> Sample:
    """The central square of an image at a size, and of its mask; all is label 0 without one."""
    top, left, bottom, right = centre_box(image.shape, min(image.shape[:2]))
    labels = np.zeros((size, size), dtype=np.uint8)
    if mask is not None:
        if mask.format == "JPEG":
            raise ValueError("JPEG blurs the values of a mask; save it as PNG")
        values = segments(mask)
        same_size(image, values)
        labels = number_segments(values[top:bottom, left:right], size)
    return Sample(resize_image(image[top:bottom, left:right], size), labels, {})


def number_segments(values: Integer[np.ndarray, "n n"], size: int) -> UInt8[np.ndarray, "size size"]:
    """Resize to the nearest pixel, keep 0 and number the other values 1, 2, … in increasing order."""
    resized = Image.fromarray(values.astype(np.int32)).resize((size, size), Image.Resampling.NEAREST)
    found, numbers = np.unique(np.asarray(resized), return_inverse=True)
    if len(found) > 256 or (found[0] != 0 and len(found) > 255):
        raise ValueError(f"{len(found)} different values; a mask has one for each object, at most 255")
    return np.asarray(numbers.reshape(size, size) + (found[0] != 0), dtype=np.uint8)


def _pictures(root: Path) -> list[Path]:
    suffixes = readable_suffixes()
    return [name for name in walk(root) if name.suffix.lower() in suffixes]


def _match(images: list[Path], mask_root: Path) -> list[Path]:
    """The mask of every image, by relative path or else by file name; none or several is a mistake."""
    by_path: dict[str, list[Path]] = {}
    by_stem: dict[str, list[Path]] = {}
    for mask in _pictures(mask_root):
        by_path.setdefault(str(mask.with_suffix("")), []).append(mask)
        by_stem.setdefault(mask.stem, []).append(mask)
    matches = [by_path.get(str(image.with_suffix(""))) or by_stem.get(image.stem, []) for image in images]
    missing = [image for image, masks in zip(images, matches, strict=True) if not masks]
    if missing:
        count = f"{len(missing)} of {len(images)} images"
        raise DamagedFile(f"{mask_root}: {count} have no mask here, the first is {missing[0]}")
    for image, masks in zip(images, matches, strict=True):
        if len(masks) > 1:
            raise DamagedFile(f"{mask_root}: {image} has several masks: {masks[0]}, {masks[1]}")
    return [masks[0] for masks in matches]
