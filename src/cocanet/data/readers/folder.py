"""A user's own images: every image file under a folder, with masks beside them or in a second folder.

An image is rotated by its orientation tag, converted to 8-bit RGB (transparency on white), and brought to a square. A
mask has one value or colour for each object; 0, black and transparent are background. It belongs to the image of the
same relative path without the suffix, or else of the same file name; `_mask`, `-mask` or `.mask` may end its name.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image

from cocanet.config import Fit
from cocanet.data.readers.base import Reader
from cocanet.data.readers.image_files import (
    centre_box,
    read_image,
    read_picture,
    readable_suffixes,
    resize_image,
    same_size,
    segments,
)
from cocanet.data.readers.input_files import DamagedFile, existing_folder, inside, naming, walk
from cocanet.data.sample import Sample

SIZE = 128
MASK_ENDINGS = ("_mask", "-mask", ".mask")
MASK_FOLDERS = ("masks", "mask", "segmentations", "segmentation", "SegmentationObject", "SegmentationClass", "labels")
LOOKED_AT, MOST_VALUES = 8, 64
"""Files that show whether a folder holds masks, and the values of a mask at most."""


class FolderReader(Reader):
    """Images in natural order of their paths. A folder with `images/` and `masks/` in it needs no `masks`."""

    def __init__(
        self,
        path: Path,
        *,
        size: int | None = None,
        masks: Path | None = None,
        fit: Fit = "stretch",
        skip_damaged: bool = False,
    ) -> None:
        root = existing_folder(path)
        if masks is None and (root / "images").is_dir() and (root / "masks").is_dir():
            root, masks = existing_folder(root / "images"), root / "masks"
        self._root, self._fit = root, fit
        if masks is None and any(is_beside(name, _names(root)) for name in _pictures(root)):
            masks = root
        self._mask_root = existing_folder(masks) if masks else None
        self._images = [name for name in _pictures(root) if not self._is_mask(name)]
        if not self._images:
            raise DamagedFile(f"{path}: no images in this folder")
        if masks is None:
            refuse_masks(path, root, self._images)
        self._masks = _match(self._images, self._mask_root, self._root) if self._mask_root else []
        self.has_labels = self._mask_root is not None
        self.background_labels = 1 if self.has_labels else 0
        self._size = size or SIZE
        left_out = self._leave_out_damaged() if skip_damaged else []
        self.recipe = {
            "name": "folder",
            "folder": path.name,
            "masks": masks.name if masks else None,
            "fit": fit,
            "size": self._size,
            "count": len(self),
            "files": self._fingerprint(),
            **({"left_out": left_out} if left_out else {}),
        }

    def __len__(self) -> int:
        return len(self._images)

    def _leave_out_damaged(self) -> list[str]:
        """Drop images that cannot be read, or whose masks cannot; the reasons, one line each."""
        reasons = self.damaged(str(self._root))
        self._images = [name for index, name in enumerate(self._images) if index not in reasons]
        self._masks = [name for index, name in enumerate(self._masks) if index not in reasons]
        return list(reasons.values())

    def _fingerprint(self) -> str:
        """A hash of the names and sizes of all files, so that another folder of that name is not taken for this one."""
        roots = [(self._root, self._images), *([(self._mask_root, self._masks)] if self._mask_root else [])]
        files = (f"{name} {inside(root, name).stat().st_size}" for root, names in roots for name in names)
        return hashlib.sha256("\n".join(files).encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def _is_mask(self, name: Path) -> bool:
        if self._mask_root == self._root:
            return without_ending(name.stem) != name.stem
        return self._mask_root is not None and (self._root / name).is_relative_to(str(self._mask_root))

    def _read(self, index: int) -> Sample:
        image = read_image(inside(self._root, self._images[index]), upright=True)
        if not self._mask_root:
            return square_sample(image, None, self._size, self._fit)
        mask = inside(self._mask_root, self._masks[index])
        picture = read_picture(mask, upright=True)
        with naming(mask):
            return square_sample(image, picture, self._size, self._fit)


def square_sample(
    image: UInt8[np.ndarray, "h w 3"], mask: Image.Image | None, size: int, fit: Fit = "stretch"
) -> Sample:
    """Bring an image and its mask to a square of `size` pixels; what pads a mask is background."""
    if mask is None:
        values = np.zeros(image.shape[:2], dtype=np.int64)
    else:
        if mask.format == "JPEG":
            raise ValueError("JPEG blurs the values of a mask; save it as PNG")
        values = segments(mask)
        same_size(image, values)
    if fit == "crop":
        top, left, bottom, right = centre_box(image.shape, min(image.shape[:2]))
        image, values = image[top:bottom, left:right], values[top:bottom, left:right]
    elif fit == "pad":
        missing = [max(image.shape[:2]) - side for side in image.shape[:2]]
        around = [(each // 2, each - each // 2) for each in missing]
        image, values = np.pad(image, (*around, (0, 0)), mode="edge"), np.pad(values, around)
    labels = number_segments(values, size) if mask is not None else np.zeros((size, size), dtype=np.uint8)
    return Sample(resize_image(np.ascontiguousarray(image), size), labels, {})


def number_segments(values: Integer[np.ndarray, "h w"], size: int) -> UInt8[np.ndarray, "size size"]:
    """Resize to the nearest pixel, keep 0 and number the other values 1, 2, … in increasing order."""
    resized = Image.fromarray(values.astype(np.int32)).resize((size, size), Image.Resampling.NEAREST)
    found, numbers = np.unique(np.asarray(resized), return_inverse=True)
    if len(found) > 256 or (found[0] != 0 and len(found) > 255):
        raise ValueError(f"{len(found)} different values; a mask has one for each object, at most 255")
    return np.asarray(numbers.reshape(size, size) + (found[0] != 0), dtype=np.uint8)


def _pictures(root: Path) -> list[Path]:
    suffixes = readable_suffixes()
    return [name for name in walk(root) if name.suffix.lower() in suffixes]


def _match(images: list[Path], mask_root: Path, root: Path) -> list[Path]:
    """The mask of every image, by relative path or else by file name; none or several is a mistake."""
    by_path: dict[str, list[Path]] = {}
    by_name: dict[str, list[Path]] = {}
    own = set(images) if mask_root == root else set()
    for mask in (name for name in _pictures(mask_root) if name not in own):
        stem = without_ending(mask.stem)
        by_path.setdefault(str(mask.with_name(stem)), []).append(mask)
        by_name.setdefault(stem, []).append(mask)
    matches = [_masks_of(image, by_path, by_name) for image in images]
    missing = [image for image, masks in zip(images, matches, strict=True) if not masks]
    if missing:
        count, first = f"{len(missing)} of {len(images)} images", missing[0]
        names = ", ".join(f"{first.stem}{ending}.png" for ending in ("", *MASK_ENDINGS))
        raise DamagedFile(f"{mask_root}: {count} have no mask here, the first is {first}; expected one of {names}")
    for image, masks in zip(images, matches, strict=True):
        if len(masks) > 1:
            raise DamagedFile(f"{mask_root}: {image} has several masks: {masks[0]}, {masks[1]}")
    return [masks[0] for masks in matches]


def _masks_of(image: Path, by_path: dict[str, list[Path]], by_name: dict[str, list[Path]]) -> list[Path]:
    """A mask may be called after the image with or without its suffix; a.jpg.png is that of a.jpg beside an a.png."""
    stem = str(image.with_suffix(""))
    return by_path.get(str(image)) or by_path.get(stem) or by_name.get(image.stem) or by_name.get(image.name, [])


def without_ending(stem: str) -> str:
    """A file name without an ending that marks a mask."""
    return next((stem.removesuffix(ending) for ending in MASK_ENDINGS if stem.endswith(ending)), stem)


def is_beside(name: Path, names: set[Path]) -> bool:
    """Whether a picture is the mask of one beside it."""
    stem = without_ending(name.stem)
    return stem != name.stem and name.with_name(stem) in names


def _names(root: Path) -> set[Path]:
    return {name.with_suffix("") for name in _pictures(root)}


def refuse_masks(path: Path, root: Path, pictures: list[Path]) -> None:
    """ValueError if some of a folder's pictures are masks, with the command that was meant."""
    for name in dict.fromkeys(picture.parts[0] for picture in pictures if len(picture.parts) > 1):
        if name in MASK_FOLDERS or _look_like_masks(root, [each for each in pictures if each.parts[0] == name]):
            others = {each.parts[0] for each in pictures if len(each.parts) > 1} - {name}
            images = path / others.pop() if len(others) == 1 else path
            raise DamagedFile(
                f"{path / name}: holds masks, not photographs; "
                f"`coca import folder {images} --masks {path / name} --out STORE` reads both"
            )
    if _look_like_masks(root, pictures):
        raise DamagedFile(
            f"{path}: holds masks, not photographs; "
            f"`coca import folder PHOTOGRAPHS --masks {path} --out STORE` reads both"
        )


def _look_like_masks(root: Path, pictures: list[Path]) -> bool:
    """Whether the first pictures have one channel and few values."""
    found = list[int]()
    for name in pictures[:LOOKED_AT]:
        try:
            path = inside(root, name)
            if not path.is_file():  # a pipe would never end
                continue
            with Image.open(path) as picture:
                one_channel = picture.mode in ("1", "P", "L") or picture.mode.startswith("I")
                found.append(len(np.unique(np.asarray(picture))) if one_channel else MOST_VALUES + 1)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            continue
    return 1 < max(found, default=0) <= MOST_VALUES
