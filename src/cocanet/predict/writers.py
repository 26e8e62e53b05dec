"""Results of one image as bytes and rows: label map, overlay, slot vectors, COCO annotations, table rows."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Integer
from PIL import Image

from cocanet.files import write_atomically, writing
from cocanet.predict.annotations import annotation_files
from cocanet.predict.batches import Item
from cocanet.predict.coco import annotate
from cocanet.predict.drawing import Tile, label_colours, make_tile
from cocanet.predict.inputs import KINDS
from cocanet.predict.prediction import Segmentation
from cocanet.predict.segment_settings import OutputSettings
from cocanet.words import readable


class EncodedFiles(NamedTuple):
    """The files of one image, and its part of the files about all images."""

    image: dict[str, Any]
    """Its entry in the annotation file, without a number."""
    annotations: list[dict[str, Any]]
    """Its annotations, without numbers."""
    contents: dict[str, bytes]
    """Its files by path in the output folder."""
    tile: Tile | None


@dataclass(frozen=True)
class EncodeFiles:
    """Encodes a label map, an overlay, slot vectors and annotations of each image."""

    output: OutputSettings

    def __call__(self, item: Item, found: Segmentation) -> EncodedFiles:
        overlay, (height, width) = found.overlay(), found.size
        contents = {
            "labels": encode_labels(found.labels),
            "overlays": save_bytes(overlay, format="JPEG", quality=90, subsampling=0),
            "slots": encode_slots(found),
        }
        further = annotation_files(found, item.name, item.file_name, self.output.also)
        paths = {kind: f"{kind}/{item.name}{suffix}" for kind, suffix in KINDS.items()}
        return EncodedFiles(
            {"file_name": item.file_name, "width": width, "height": height, **paths},
            annotate(found, 0, self.output.keep_background),
            {paths[kind]: content for kind, content in contents.items()} | further,
            make_tile(item.file_name, found.image, overlay) if item.number < self.output.sheet else None,
        )


def encode_rows(item: Item, found: Segmentation) -> list[dict[str, Any]]:
    """The rows of one image in a table, one for each segment (an `Encode`)."""
    height, width = found.size
    image = {"image": item.number, "file_name": readable(item.file_name), "height": height, "width": width}
    return [{**image, **row} for row in segment_rows(found)]


def segment_rows(found: Segmentation) -> list[dict[str, Any]]:
    """One row for each segment, the background first."""
    masks = annotate(found, 0, keep_background=True)
    return [
        {
            "label": segment.label,
            "slot": segment.slot,
            "background": segment.background,
            "area": segment.area,
            "box": list(segment.box),
            "centre": list(segment.centre),
            "compactness": segment.compactness,
            "confidence": segment.confidence,
            "score": segment.score,
            "mask": mask["segmentation"],
            "vector": vector,
        }
        for segment, mask, vector in zip(found.segments, masks, found.slots, strict=True)
    ]


def write(path: Path, content: bytes) -> None:
    """Write a file, and create its folder."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        write_atomically(path, [content])


def encode_labels(labels: Integer[np.ndarray, "h w"]) -> bytes:
    """A PNG of the labels themselves: 8 bits with a palette, or 16 bits for more than 255 segments."""
    most = int(labels.max())
    if most > 65535:
        raise ValueError(f"{most + 1} segments do not fit into a label image of 16 bits; try a higher level")
    picture = Image.fromarray(labels.astype(np.uint8 if most < 255 else np.uint16))
    if most < 255:
        picture.putpalette(label_colours(256).tobytes())
    return save_bytes(picture, format="PNG", compress_level=3)


def encode_slots(found: Segmentation) -> bytes:
    """An .npz file; row s of every array belongs to label s."""
    file, shapes = BytesIO(), found.shapes
    np.savez(
        file,
        slots=found.slots,
        slot=found.numbers,
        area=shapes.area,
        box=shapes.box,
        centre=shapes.centre,
        inertia=shapes.inertia,
        compactness=shapes.compactness,
        confidence=found.confidence,
        score=found.scores,
        image_size=np.array(found.size),
    )
    return file.getvalue()


def save_bytes(picture: Image.Image, **options: Any) -> bytes:
    file = BytesIO()
    picture.save(file, **options)
    return file.getvalue()
