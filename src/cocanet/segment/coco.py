"""COCO annotations: masks as compressed run lengths, boxes and areas.

A mask is read column after column as lengths of runs, first of pixels outside, then inside, then outside again. The
lengths become text: from the fourth on as the difference to the length two before, in groups of five bits, lowest
first, each a character from "0" on whose sixth bit says that more follow.
"""

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
from jaxtyping import Bool, Int

from cocanet.files import writing
from cocanet.segment.result import Segmentation
from cocanet.segment.shapes import Runs, find_runs

CATEGORIES = (
    {"id": 1, "name": "object", "supercategory": "object"},
    {"id": 2, "name": "background", "supercategory": "background"},
)

_GROUP, _SIGN, _MORE, _ZERO = 5, 0x10, 0x20, ord("0")


def encode_mask(mask: Bool[np.ndarray, "h w"]) -> dict[str, Any]:
    """One mask in COCO's compressed form, `{"size": [h, w], "counts": text}`."""
    runs = find_runs(mask.astype(np.uint8))
    inside = Runs(*(field[runs.label == 1] for field in runs))
    return _encode(inside, mask.shape)


def decode_mask(mask: Mapping[str, Any]) -> Bool[np.ndarray, "h w"]:
    """The mask that `encode_mask` wrote; ValueError if the runs do not fill it."""
    height, width = mask["size"]
    counts = expand(mask["counts"])
    if (counts < 0).any() or counts.sum() != height * width:
        raise ValueError(f"the runs of a mask have {int(counts.sum())} pixels; expected {height}×{width}")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T


def annotate(found: Segmentation, image_id: int, keep_background: bool) -> list[dict[str, Any]]:
    """One annotation a segment, the background only if asked for.

    `label` is the segment's value in the label map: 0 where there is no annotation, so the map can be made again.
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
                "score": round(segment.confidence, 4),
                "iscrowd": 0,
                "label": segment.label,
                "slot": segment.slot,
                "background": segment.background,
            }
        )
    return entries


class AnnotationFile:
    """Writes a COCO file as results come in; it is put in place when all are there, and not after an error.

    Nothing stays in memory: the images, which come after the annotations, wait in a file of their own.
    """

    def __init__(
        self, path: Path, info: Mapping[str, Any], categories: Sequence[Mapping[str, Any]] = CATEGORIES
    ) -> None:
        self.path, self.info, self.categories = path, dict(info), list(categories)
        self.images = self.count = 0
        self._temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> AnnotationFile:
        with writing(self.path):
            self._file: TextIO = self._temporary.open("w", encoding="utf-8")
            self._images: TextIO = tempfile.TemporaryFile("w+", encoding="utf-8", dir=self.path.parent)
        self._file.write('{"annotations": [')
        return self

    def add(self, image: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
        """Append an image and its annotations, whose numbers are given here."""
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
                    rest = {"categories": self.categories, "info": self.info}
                    self._file.write("], " + json.dumps(rest)[1:] + "\n")
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


def compress(counts: Int[np.ndarray, " n"]) -> str:
    """Run lengths as COCO's text, all of them at once, one group of five bits after the other."""
    rest = counts.astype(np.int64)
    rest[3:] -= counts[1:-2]
    groups, there = [], []
    more = np.ones(len(rest), dtype=bool)
    while more.any():
        there.append(more)
        group = rest & (_SIGN | (_SIGN - 1))
        rest = rest >> _GROUP
        more = more & np.where(group & _SIGN, rest != -1, rest != 0)
        groups.append(group + np.where(more, _MORE, 0) + _ZERO)
    text = np.stack(groups, 1)[np.stack(there, 1)]
    return bytes(text.astype(np.uint8)).decode("ascii")


def expand(text: str) -> Int[np.ndarray, " n"]:
    """Run lengths from COCO's text, as `compress` wrote them."""
    codes = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - _ZERO
    if len(codes) == 0 or (codes < 0).any() or (codes >= 2 * _MORE).any() or codes[-1] & _MORE:
        raise ValueError(f"{text[:20]!r} is no text of COCO's run lengths")
    last = (codes & _MORE) == 0
    number = np.cumsum(last) - last
    first = np.flatnonzero(np.append(True, last[:-1]))
    place = np.arange(len(codes)) - first[number]
    if place.max() > 11:
        raise ValueError(f"{text[:20]!r} is no text of COCO's run lengths")
    groups = codes & (_MORE - 1)
    values = np.zeros(int(last.sum()), np.int64)
    np.add.at(values, number, groups << (_GROUP * place))
    negative = (groups[last] & _SIGN) != 0
    values -= negative.astype(np.int64) << (_GROUP * (place[last] + 1))
    for start in (1, 2):
        values[start::2] = np.cumsum(values[start::2])
    return values
