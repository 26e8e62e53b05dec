"""A segmentation as rows of a table, one for each segment: plain values, for whatever writes or returns them."""

from __future__ import annotations

from typing import Any

from cocanet.segment.batches import Item
from cocanet.segment.coco import annotate
from cocanet.segment.result import Segmentation


def segment_rows(found: Segmentation) -> list[dict[str, Any]]:
    """One row a segment, the background first."""
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
            "mask": mask["segmentation"],
            "vector": vector,
        }
        for segment, mask, vector in zip(found.segments, masks, found.slots, strict=True)
    ]


def encode_rows(item: Item, found: Segmentation) -> list[dict[str, Any]]:
    """The rows of one image (an `Encode`)."""
    height, width = found.size
    image = {"image": item.number, "file_name": item.file_name, "height": height, "width": width}
    return [{**image, **row} for row in segment_rows(found)]
