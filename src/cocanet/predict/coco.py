"""COCO annotations: masks as compressed run lengths, boxes and areas."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np
from jaxtyping import Bool

from cocanet.data.annotations.run_lengths import compress
from cocanet.files import temporary_name, writing
from cocanet.predict.prediction import Segmentation
from cocanet.predict.shapes import Runs, find_runs

CATEGORIES = (
    {"id": 1, "name": "object", "supercategory": "object"},
    {"id": 2, "name": "background", "supercategory": "background"},
)


def encode_mask(mask: Bool[np.ndarray, "h w"]) -> dict[str, Any]:
    """A mask in COCO's compressed form, `{"size": [h, w], "counts": text}`."""
    runs = find_runs(mask.astype(np.uint8))
    inside = Runs(*(field[runs.label == 1] for field in runs))
    return _encode(inside, mask.shape)


def annotate(found: Segmentation, image_id: int, keep_background: bool) -> list[dict[str, Any]]:
    """One annotation for each segment; the background only with `keep_background`.

    `label` is the segment's value in the label map. Pixels without an annotation have label 0.
    """
    runs, entries = found.runs, []
    by_label = np.argsort(runs.label, kind="stable")
    ends = np.cumsum(np.bincount(runs.label, minlength=len(found.segments)))
    for segment, part in zip(found.segments, np.split(by_label, ends[:-1]), strict=True):
        if segment.background and not keep_background:
            continue
        entries.append(
            {
                "image_id": image_id,
                "category_id": 2 if segment.background else 1,
                "segmentation": _encode(Runs(*(field[part] for field in runs)), found.size),
                "bbox": list(segment.box),
                "area": segment.area,
                "score": round(segment.score, 4),
                "iscrowd": 0,
                "label": segment.label,
                "slot": segment.slot,
                "background": segment.background,
            }
        )
    return entries


class AnnotationFile:
    """Writes a COCO file one image at a time; the file appears at the end, and not after an error.

    Nothing stays in memory: the image entries, which follow the annotations, wait in a temporary file.
    """

    def __init__(
        self, path: Path, info: Mapping[str, Any], categories: Sequence[Mapping[str, Any]] = CATEGORIES
    ) -> None:
        self.path, self.info, self.categories = path, dict(info), list(categories)
        self.images = self.count = 0
        self._temporary = temporary_name(path)

    def __enter__(self) -> AnnotationFile:
        with writing(self.path):
            self._file: TextIO = self._temporary.open("w", encoding="utf-8")
            self._images: TextIO = tempfile.TemporaryFile("w+", encoding="utf-8", dir=self.path.parent)
        self._file.write('{"annotations": [')
        return self

    def add(self, image: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
        """Append an image and its annotations, and number the annotations."""
        with writing(self.path):
            for entry in found:
                self.count += 1
                self._file.write(",\n" if self.count > 1 else "\n")
                self._file.write(json.dumps({**entry, "id": self.count}))
            self._images.write((", " if self.images else "") + json.dumps(image))
        self.images += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with writing(self.path), self._images, self._file:
                if kind is None:
                    self._file.write('\n],\n"images": [')
                    self._images.seek(0)
                    shutil.copyfileobj(self._images, self._file)
                    tail = {"categories": self.categories, "info": self.info}
                    self._file.write("], " + json.dumps(tail)[1:] + "\n")
                    self._file.flush()
                    os.fsync(self._file.fileno())
            if kind is None:
                with writing(self.path):
                    self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


def _encode(runs: Runs, size: tuple[int, ...]) -> dict[str, Any]:
    height, width = size
    starts = runs.column * height + runs.first
    ends = starts + runs.length
    joined = ends[:-1] == starts[1:]
    starts, ends = starts[np.append(True, ~joined)[: len(starts)]], ends[np.append(~joined, True)[: len(ends)]]
    edges = np.stack((starts, ends), 1).ravel()
    counts = np.diff(edges, prepend=0, append=height * width)
    if len(counts) > 1 and counts[-1] == 0:
        counts = counts[:-1]
    return {"size": [height, width], "counts": compress(counts)}
