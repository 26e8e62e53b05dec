"""Labels for others: COCO annotations, label maps as PNG files, or a store to train on and to score with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.folder import number_segments
from cocanet.data.readers.images import centre_box, resize_image
from cocanet.data.sample import Sample
from cocanet.data.store_writer import write_store
from cocanet.explore.document import Document
from cocanet.files import writing
from cocanet.segment.coco import AnnotationFile, encode_mask
from cocanet.segment.shapes import find_runs, measure_shapes
from cocanet.segment.writers import encode_labels, write
from cocanet.words import plural

Kind = Literal["coco", "png", "store"]
UNNAMED = "object"


class Labelled(NamedTuple):
    """An image with its labels."""

    name: str
    document: Document
    read: Callable[[], UInt8[np.ndarray, "h w 3"]]


class Exported(NamedTuple):
    """What was written, in words."""

    path: Path
    said: str


def export(kind: Kind, images: Sequence[Labelled], folder: Path, size: int) -> Exported:
    """Write the labels of some images below a folder; `size` is a store's side in pixels."""
    if not images:
        raise ValueError("there are no labels to export yet; merge, name or keep something first")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if kind == "coco":
        return _export_coco(images, folder / "objects.json")
    if kind == "png":
        return _export_maps(images, folder / "masks")
    return _export_store(images, _free(folder / "store"), size)


def _export_coco(images: Sequence[Labelled], path: Path) -> Exported:
    names = sorted({thing.category or UNNAMED for image in images for thing in image.document.objects})
    categories = [{"id": number, "name": name, "supercategory": UNNAMED} for number, name in enumerate(names, 1)]
    numbers = {name: number for number, name in enumerate(names, 1)}
    with AnnotationFile(path, {"description": "labelled with coca explore"}, categories) as file:
        for number, image in enumerate(images, 1):
            height, width = image.document.size
            entry = {"id": number, "file_name": image.name, "width": width, "height": height}
            file.add(entry, _annotate(image.document, number, numbers))
    return Exported(path, f"{plural(file.count, 'object')} in {plural(len(images), 'image')}")


def _annotate(document: Document, image_id: int, numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    labels = document.labels()
    there, ordered = np.unique(labels, return_inverse=True)
    shapes = measure_shapes(find_runs(ordered.reshape(labels.shape)), len(there))
    return [
        {
            "image_id": image_id,
            "category_id": numbers[document.objects[label - 1].category or UNNAMED],
            "segmentation": encode_mask(labels == label),
            "bbox": shapes.box[place].tolist(),
            "area": int(shapes.area[place]),
            "iscrowd": 0,
            "label": label,
        }
        for place, label in enumerate(there.tolist())
        if label > 0
    ]


def _export_maps(images: Sequence[Labelled], folder: Path) -> Exported:
    for image in images:
        write(folder / f"{image.name}.png", encode_labels(image.document.labels()))
    return Exported(folder, f"{plural(len(images), 'label map')}, 0 for the background")


class _Source:
    """Labelled images as a store takes them: the central square, at one size, as `coca import folder` makes them."""

    background_labels, has_labels = 1, True

    def __init__(self, images: Sequence[Labelled], size: int) -> None:
        self._images, self._size = images, size
        names = "\n".join(f"{image.name} {image.document.revision}" for image in images)
        self.recipe = {
            "name": "folder",
            "folder": "labelled with coca explore",
            "masks": "labels",
            "size": size,
            "count": len(images),
            "files": hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16],
        }

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Sample:
        image = self._images[index]
        pixels, labels = image.read(), image.document.labels()
        top, left, bottom, right = centre_box(pixels.shape, min(pixels.shape[:2]))
        square = np.ascontiguousarray(pixels[top:bottom, left:right])
        numbered = number_segments(labels[top:bottom, left:right], self._size)
        return Sample(resize_image(square, self._size), numbered, {})


def _export_store(images: Sequence[Labelled], folder: Path, size: int) -> Exported:
    store = write_store(_Source(images, size), folder)
    return Exported(folder, f"{plural(len(store), 'image')} of {size}×{size} pixels with labels")


def _free(folder: Path) -> Path:
    """The folder, or one with a number where it is taken."""
    number, free = 2, folder
    while free.exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free
