"""Images with annotations in a common format: COCO JSON, Pascal VOC segmentation, YOLO segmentation.

Every instance becomes an object. Where instances overlap, the smaller one is in front.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from PIL import Image

from cocanet.config import Fit
from cocanet.data.annotations.polygons import fill
from cocanet.data.annotations.run_lengths import decode_mask
from cocanet.data.readers.base import Reader
from cocanet.data.readers.folder import SIZE, square_sample
from cocanet.data.readers.image_files import read_image, read_picture, readable_suffixes, same_size, segments
from cocanet.data.readers.input_files import DamagedFile, existing_folder, inside, naming, read_bytes, read_lines, walk
from cocanet.data.sample import Sample

VOC_BORDER = 255
"""Pixels between objects that VOC leaves unlabelled."""
COCO_DATA_BYTES = 1 << 31


class AnnotatedReader(Reader):
    """Images of a folder with the instances of each: subclasses list the images and read the instances of one."""

    name: str
    background_labels, has_labels = 1, True

    def __init__(
        self,
        path: Path,
        *,
        images: Path | None = None,
        split: str | None = None,
        size: int | None = None,
        fit: Fit = "stretch",
        skip_damaged: bool = False,
    ) -> None:
        self._size, self._fit, self._path = size or SIZE, fit, path
        self._root, self._images = self._find(path, images, split)
        if not self._images:
            raise DamagedFile(f"{path}: no annotated images")
        left_out: list[str] = []
        if skip_damaged:
            reasons = self.damaged(str(path))
            self._images = [image for index, image in enumerate(self._images) if index not in reasons]
            left_out = list(reasons.values())
        files = "\n".join(map(str, self._images)) + self._fingerprint()
        self.recipe = {
            "name": self.name,
            "folder": path.name,
            "split": split,
            "fit": fit,
            "size": self._size,
            "count": len(self),
            "files": hashlib.sha256(files.encode()).hexdigest()[:16],
            **({"left_out": left_out} if left_out else {}),
        }

    @abstractmethod
    def _find(self, path: Path, images: Path | None, split: str | None) -> tuple[Path, list[Path]]:
        """The folder of the images, and those that are annotated."""

    @abstractmethod
    def _labels(self, image: Path, size: tuple[int, int]) -> Int[np.ndarray, "h w"]:
        """The label map of an image."""

    def _fingerprint(self) -> str:
        """What changes with the annotations."""
        return ""

    def __len__(self) -> int:
        return len(self._images)

    def _read(self, index: int) -> Sample:
        path = inside(self._root, self._images[index])
        # Annotations are those of the stored pixels, whatever the orientation tag says.
        pixels = read_image(path)
        height, width = pixels.shape[:2]
        with naming(path):
            labels = self._labels(self._images[index], (height, width))
            same_size(pixels, labels)
            return square_sample(pixels, Image.fromarray(labels.astype(np.int32)), self._size, self._fit)


class CocoReader(AnnotatedReader):
    """A COCO file of instances: polygons, run lengths or compressed run lengths."""

    name = "coco"

    def _find(self, path: Path, images: Path | None, split: str | None) -> tuple[Path, list[Path]]:
        if split is not None:
            raise ValueError(f"split {split!r}: a COCO file is one split; give the file of that split")
        file = _only_json(path)
        data = read_bytes(file, COCO_DATA_BYTES)
        with naming(file):
            content = json.loads(data)
            self._digest = hashlib.sha256(data).hexdigest()
            entries = {entry["id"]: entry for entry in content["images"]}
            self._instances: dict[str, list[Any]] = {entry["file_name"]: [] for entry in entries.values()}
            hidden = {each["id"] for each in content.get("categories", []) if each.get("name") == "background"}
            for entry in content["annotations"]:
                if entry.get("segmentation") and entry.get("category_id") not in hidden:
                    self._instances[entries[entry["image_id"]]["file_name"]].append(entry["segmentation"])
            names = [Path(name) for name in self._instances]
        root = images or _folder_with(names, file, content.get("info") or {})
        return existing_folder(root), names

    def _fingerprint(self) -> str:
        return self._digest

    def _labels(self, image: Path, size: tuple[int, int]) -> Int[np.ndarray, "h w"]:
        return in_front((_coco_mask(each, size) for each in self._instances[str(image)]), size)


class VocReader(AnnotatedReader):
    """A folder with JPEGImages and SegmentationObject, and the lists of ImageSets/Segmentation."""

    name = "voc"

    def _find(self, path: Path, images: Path | None, split: str | None) -> tuple[Path, list[Path]]:
        root = existing_folder(path)
        self._masks = existing_folder(root / "SegmentationObject")
        folder = existing_folder(images or root / "JPEGImages")
        names = [str(mask.with_suffix("")) for mask in walk(self._masks) if mask.suffix == ".png"]
        if split is not None:
            names = read_lines(root / "ImageSets" / "Segmentation" / f"{split}.txt")
        suffixes = readable_suffixes()
        there = {str(name.with_suffix("")): name for name in walk(folder) if name.suffix.lower() in suffixes}
        missing = [name for name in names if name not in there]
        if missing:
            raise DamagedFile(
                f"{folder}: {len(missing)} of {len(names)} annotated images are not here, the first is {missing[0]}"
            )
        return folder, [there[name] for name in names]

    def _labels(self, image: Path, size: tuple[int, int]) -> Int[np.ndarray, "h w"]:
        labels = segments(read_picture(inside(self._masks, image.with_suffix(".png"))))
        return np.asarray(np.where(labels == VOC_BORDER, 0, labels), dtype=np.int32)


class YoloReader(AnnotatedReader):
    """A folder with images/ and labels/, both perhaps with a folder for each split: a polygon in each line."""

    name = "yolo"

    def _find(self, path: Path, images: Path | None, split: str | None) -> tuple[Path, list[Path]]:
        root = existing_folder(path)
        below = Path(split or ".")
        self._texts = existing_folder(root / "labels" / below)
        folder = existing_folder(images or root / "images" / below)
        suffixes = readable_suffixes()
        return folder, [name for name in walk(folder) if name.suffix.lower() in suffixes]

    def _labels(self, image: Path, size: tuple[int, int]) -> Int[np.ndarray, "h w"]:
        file = self._texts / image.with_suffix(".txt")
        # An image without objects may have no file.
        lines = read_lines(inside(self._texts, image.with_suffix(".txt"))) if file.exists() else []
        with naming(file):
            return in_front((fill([_yolo_polygon(line, size)], size) for line in lines), size)


def in_front(masks: Iterable[Bool[np.ndarray, "h w"]], size: tuple[int, int]) -> Int[np.ndarray, "h w"]:
    """A label map of masks, numbered in their order; smaller masks cover larger ones."""
    found, labels = list(masks), np.zeros(size, dtype=np.int32)
    for index in sorted(range(len(found)), key=lambda index: -int(found[index].sum())):
        if found[index].shape != size:
            height, width = found[index].shape
            raise ValueError(f"a mask of {height}×{width} pixels; expected {size[0]}×{size[1]}")
        labels[found[index]] = index + 1
    return labels


def _yolo_polygon(line: str, size: tuple[int, int]) -> np.ndarray:
    values = np.array([float(word) for word in line.split()[1:]])
    if len(values) < 6 or len(values) % 2:
        raise ValueError(f"{line[:40]!r} is not a polygon: expected a class and at least three corners x y")
    if not np.isfinite(values).all() or values.min() < -1 or values.max() > 2:
        raise ValueError(f"{line[:40]!r} has corners outside of the image; expected 0 to 1")
    return np.asarray(values.reshape(-1, 2) * (size[1], size[0]))


def _coco_mask(segmentation: Any, size: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    if isinstance(segmentation, dict):
        return decode_mask(segmentation)
    masks = [fill([np.array(polygon, dtype=np.float64).reshape(-1, 2)], size) for polygon in segmentation]
    return np.asarray(np.any(masks, axis=0))


def _only_json(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted([*path.glob("*.json"), *path.glob("annotations/*.json")])
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise DamagedFile(f"{path}: expected one file of annotations, .json; there are {names}")
    return found[0]


def _folder_with(names: Sequence[Path], file: Path, info: dict[str, Any]) -> Path:
    """The folder near the annotations that has the first image."""
    above = file.parent, file.parent.parent
    near = [*above, *(folder / "images" for folder in above)]
    near += [folder for parent in (*above, above[1] / "images") for folder in sorted(parent.glob("*/"))]
    if isinstance(info.get("folder"), str):
        near.append(Path(info["folder"]))
    for folder in near:
        if names and (folder / names[0]).is_file():
            return folder
    raise DamagedFile(f"{file}: {names[0] if names else 'no image'} is not near it; --images DIR names its folder")
