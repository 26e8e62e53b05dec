"""Labels as COCO annotations, label maps in PNG files, or a store for training and evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.folder import number_segments
from cocanet.data.readers.image_files import centre_box, resize_image
from cocanet.data.sample import Sample
from cocanet.data.store_writer import write_store
from cocanet.explore.labels import LabelDocument
from cocanet.files import writing
from cocanet.predict.coco import AnnotationFile, encode_mask
from cocanet.predict.inputs import output_names
from cocanet.predict.shapes import find_runs, measure_shapes
from cocanet.predict.writers import encode_labels, write
from cocanet.words import plural

LabelFormat = Literal["coco", "png", "store"]
UNNAMED = "object"


class LabelledImage(NamedTuple):
    name: str
    document: LabelDocument
    read: Callable[[], UInt8[np.ndarray, "h w 3"]]


class ExportedLabels(NamedTuple):
    """Where the labels were written, and a summary in words."""

    path: Path
    summary: str


def export_labels(kind: LabelFormat, images: Sequence[LabelledImage], folder: Path, size: int) -> ExportedLabels:
    """Write the labels of images below a folder; `size` is the side of a store's images in pixels."""
    if not images:
        raise ValueError("there are no labels to export yet; merge, name or keep something first")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if kind == "coco":
        return _export_coco(images, folder / "objects.json")
    if kind == "png":
        return _export_maps(images, folder / "masks")
    return _export_store(images, _free_path(folder / "store"), size)


def _export_coco(images: Sequence[LabelledImage], path: Path) -> ExportedLabels:
    names = sorted({segment.category or UNNAMED for image in images for segment in image.document.objects})
    categories = [{"id": number, "name": name, "supercategory": UNNAMED} for number, name in enumerate(names, 1)]
    numbers = {name: number for number, name in enumerate(names, 1)}
    with AnnotationFile(path, {"description": "labelled with coca explore"}, categories) as file:
        for number, image in enumerate(images, 1):
            height, width = image.document.size
            entry = {"id": number, "file_name": image.name, "width": width, "height": height}
            if image.document.state.refined:
                entry["refined"] = True
            file.add(entry, _annotate(image.document, number, numbers))
    return ExportedLabels(path, f"{plural(file.count, 'object')} in {plural(len(images), 'image')}")


def _annotate(document: LabelDocument, image_id: int, numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    labels = document.labels()
    present, ordered = np.unique(labels, return_inverse=True)
    shapes = measure_shapes(find_runs(ordered.reshape(labels.shape)), len(present))
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
        for place, label in enumerate(present.tolist())
        if label > 0
    ]


def _export_maps(images: Sequence[LabelledImage], folder: Path) -> ExportedLabels:
    for image, name in zip(images, output_names(Path(image.name) for image in images), strict=True):
        write(folder / f"{name}.png", encode_labels(image.document.labels()))
    return ExportedLabels(folder, f"{plural(len(images), 'label map')}, 0 for the background")


class _LabelledSource:
    """Labelled images as a store expects them: central squares of one size, as `coca import folder` makes them."""

    background_labels, has_labels = 1, True

    def __init__(self, images: Sequence[LabelledImage], size: int) -> None:
        self._images, self._size = images, size
        names = "\n".join(f"{image.name} {image.document.revision}" for image in images)
        self.recipe = {
            "name": "folder",
            "folder": "labelled with coca explore",
            "masks": "labels",
            "fit": "crop",
            "size": size,
            "count": len(images),
            "files": hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16],
        }
        if refined := sum(image.document.state.refined for image in images):
            self.recipe["refined"] = refined

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Sample:
        image = self._images[index]
        pixels, labels = image.read(), image.document.labels()
        top, left, bottom, right = centre_box(pixels.shape, min(pixels.shape[:2]))
        square = np.ascontiguousarray(pixels[top:bottom, left:right])
        numbered = number_segments(labels[top:bottom, left:right], self._size)
        return Sample(resize_image(square, self._size), numbered, {})


def _export_store(images: Sequence[LabelledImage], folder: Path, size: int) -> ExportedLabels:
    store = write_store(_LabelledSource(images, size), folder)
    return ExportedLabels(folder, f"{plural(len(store), 'image')} of {size}×{size} pixels with labels")


def _free_path(folder: Path) -> Path:
    """The folder, with a number where it exists already."""
    number, free = 2, folder
    while free.exists():
        free, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return free
