"""The files about one image: label map, overlay, and vectors with geometry."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Integer
from PIL import Image

from cocanet.files import write_atomically, writing
from cocanet.segment.coco import annotate
from cocanet.segment.drawing import Tile, label_colours, make_tile
from cocanet.segment.paths import KINDS
from cocanet.segment.result import Segmentation


class Encoded(NamedTuple):
    """What is written about one image: its own files, and its part of the files about all images."""

    image: dict[str, Any]
    annotations: list[dict[str, Any]]
    """Not numbered yet, since the numbers depend on what comes before."""
    contents: dict[str, bytes]
    """Its files by their paths below the output folder."""
    tile: Tile | None


def encode_results(name: str, file_name: str, found: Segmentation, *, keep_background: bool, tile: bool) -> Encoded:
    """The files about one image, not yet written, and what the annotation file and the contact sheet need."""
    overlay = found.overlay()
    contents = {"labels": encode_labels(found.labels), "overlays": _jpeg(overlay), "slots": encode_slots(found)}
    places = {kind: f"{kind}/{name}{ending}" for kind, ending in KINDS.items()}
    height, width = found.size
    return Encoded(
        {"file_name": file_name, "width": width, "height": height, **places},
        annotate(found, 0, keep_background),
        {places[kind]: content for kind, content in contents.items()},
        make_tile(file_name, found.image, overlay) if tile else None,
    )


def write(path: Path, content: bytes) -> None:
    """Write a file, and the folders it lies in."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        write_atomically(path, [content])


def encode_labels(labels: Integer[np.ndarray, "h w"]) -> bytes:
    """A PNG of the labels themselves: 8 bits with a palette, or 16 bits if there are more than 255 segments."""
    most = int(labels.max())
    if most > 65535:
        raise ValueError(f"{most + 1} segments do not fit into a label image of 16 bits; try a higher level")
    picture = Image.fromarray(labels.astype(np.uint8 if most < 255 else np.uint16))
    if most < 255:
        picture.putpalette(label_colours(256).tobytes())
    return save_bytes(picture, format="PNG", compress_level=3)


def encode_slots(found: Segmentation) -> bytes:
    """An .npz file in which row s of every array is about label s."""
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
        image_size=np.array(found.size),
    )
    return file.getvalue()


def _jpeg(picture: Image.Image) -> bytes:
    return save_bytes(picture, format="JPEG", quality=90, subsampling=0)


def save_bytes(picture: Image.Image, **options: Any) -> bytes:
    file = BytesIO()
    picture.save(file, **options)
    return file.getvalue()
