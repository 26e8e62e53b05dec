"""Segment a column of images: for `ray.data.Dataset.map_batches` and `datasets.Dataset.map`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from cocanet.data.readers.image_files import decode_image
from cocanet.predict import load
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.images import read_pixels
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.predict.writers import segment_rows


class ColumnSegmenter:
    """Segments batches of a table, as Ray Data and Hugging Face datasets pass them.

    `ray_data.map_batches(ColumnSegmenter, fn_constructor_args=("objects-room",), concurrency=8)` constructs one in each
    worker. `hf_dataset.map(ColumnSegmenter("objects-room"), batched=True, num_proc=8)` pickles one without its model.
    The model is loaded at the first batch, from a name or path that every worker can reach.

    An image is a PIL image, an array, the bytes of a file, a path, or a dictionary of bytes and path. The column
    `objects` gets a list of segments, the background first, with the fields of a row of the Parquet output. The column
    `error` says why an image could not be read, and is empty otherwise. `settings` are fields of `SegmentSettings`.
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
        self._segmenter: BaseSegmenter | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_segmenter": None}

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The batch with the two columns added."""
        if self.image not in batch:
            raise ValueError(f"no column {self.image!r}; there are {', '.join(batch)}")
        segmenter = self._load()
        pixels, errors = [], []
        for value in batch[self.image]:
            try:
                pixels.append(_pixels(value))
                errors.append("")
            except (ValueError, OSError) as error:
                errors.append(str(error))
        predictions = segmenter.predict(pixels, self.settings) if pixels else []
        found = (segmenter.label(*pair, self.settings) for pair in zip(pixels, predictions, strict=True))
        objects = [[] if error else segment_rows(next(found)) for error in errors]
        for row in (row for rows in objects for row in rows):
            row["vector"] = row["vector"].tolist()
        return {**batch, self.objects: objects, self.error: errors}

    def _load(self) -> BaseSegmenter:
        if self._segmenter is None:
            self._segmenter = load(self.weights, self.device)
            self._segmenter.check(self.settings)
        return self._segmenter


def _pixels(value: Any) -> UInt8[np.ndarray, "h w 3"]:
    if isinstance(value, Mapping):
        value = value["path"] if value.get("bytes") is None else value["bytes"]
    if isinstance(value, bytes):
        return decode_image(value, "image", upright=True)
    if value is None:
        raise ValueError("expected an image; got None")
    return read_pixels(value)
