"""A column of images in, a column of objects out: for `ray.data.Dataset.map_batches` and `datasets.Dataset.map`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

import cocanet
from cocanet.data.readers.images import decode_image
from cocanet.scale.rows import segment_rows
from cocanet.segment.images import read_pixels
from cocanet.segment.labelling import segmentation
from cocanet.segment.settings import SegmentSettings


class ColumnSegmenter:
    """Segments batches of a table, as Ray Data and Hugging Face datasets hand them out.

    `ray_data.map_batches(ColumnSegmenter, fn_constructor_args=("clevr6",), concurrency=8)` constructs one in each
    worker; `hf_dataset.map(ColumnSegmenter("clevr6"), batched=True, num_proc=8)` pickles one, without the model, which
    is loaded when the first batch comes. The weights are a name or a path that every worker can reach.

    An image is a picture, an array, the bytes of a file, a path, or a dictionary of bytes and path. `objects` gets a
    list of segments for each, the background first, with the fields that a row of a Parquet output has; `error` says
    why an image could not be read, and is empty for all others. `settings` are those of `SegmentSettings`.
    """

    def __init__(
        self,
        weights: str | Path,
        *,
        image: str = "image",
        objects: str = "objects",
        error: str = "error",
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        self.weights, self.device = weights, device
        self.image, self.objects, self.error = image, objects, error
        self.settings = SegmentSettings(**settings)
        self._segmenter: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_segmenter": None}

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The batch with two more columns."""
        if self.image not in batch:
            raise ValueError(f"no column {self.image!r}; there are {', '.join(batch)}")
        if self._segmenter is None:
            self._segmenter = cocanet.load(self.weights, self.device)
            self._segmenter.check(self.settings)
        pixels, errors = [], []
        for value in batch[self.image]:
            try:
                pixels.append(_pixels(value))
                errors.append("")
            except (ValueError, OSError) as error:
                errors.append(str(error))
        found = iter(self._segmenter.find(pixels, self.settings) if pixels else [])
        objects = [[] if error else segment_rows(segmentation(next(found), self.settings)) for error in errors]
        for row in (row for rows in objects for row in rows):
            row["vector"] = row["vector"].tolist()
        return {**batch, self.objects: objects, self.error: errors}


def _pixels(value: Any) -> UInt8[np.ndarray, "h w 3"]:
    if isinstance(value, Mapping):
        value = value["path"] if value.get("bytes") is None else value["bytes"]
    if isinstance(value, bytes):
        return decode_image(value, "image", upright=True)
    if value is None:
        raise ValueError("expected an image; got None")
    return read_pixels(value)
