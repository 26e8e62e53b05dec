"""Readers of published files, folders of images and Parquet files; `open_source` opens one by its format."""

from __future__ import annotations

import importlib
from pathlib import Path

from cocanet.config import Fit
from cocanet.data.sample import Source
from cocanet.words import unknown

_PUBLISHED = {
    "deepmind-tfrecord": ("deepmind", "DeepMindReader"),
    "ocl-hdf5": ("ocl_hdf5", "OclReader"),
    "clevrtex": ("clevrtex", "ClevrTexReader"),
    "shapestacks": ("shapestacks", "ShapeStacksReader"),
    "birds": ("birds", "BirdsReader"),
    "flowers": ("flowers", "FlowersReader"),
}
PHOTOGRAPHS = ("birds", "flowers")
"""Published sets that no generator makes."""
_ANNOTATED = {"coco": "CocoReader", "voc": "VocReader", "yolo": "YoloReader"}
OWN = ("folder", *_ANNOTATED, "parquet")
"""Formats of a user's own images, which are brought to a square and divided at random."""
FORMATS = (*_PUBLISHED, *OWN)


def open_source(
    format: str,
    path: Path,
    *,
    split: str | None = None,
    size: int | None = None,
    masks: Path | str | None = None,
    images: Path | None = None,
    fit: Fit | None = None,
    skip_damaged: bool = False,
    column: str | None = None,
) -> Source:
    """The samples at `path`, cropped and resized as the protocol does.

    Args:
        split: train, val or test, or a variant of the set with a part, such as `clevr6/train`; everything if None.
        size: replaces the protocol's final size, not its crop.
        masks: a folder (`folder`) or a column (`parquet`).
        images: the folder of the images, where it is not beside the annotations (`coco`, `voc` and `yolo`).
        fit: how a user's own images become squares; stretch if None.
        skip_damaged: leave out a user's own images that cannot be read.
        column: the column of the images (`parquet`).
    """
    if format not in FORMATS:
        raise ValueError(unknown("format", format, FORMATS))
    if size is not None and not 1 <= size <= 4096:
        raise ValueError(f"size {size}: expected 1 to 4096 pixels")
    if column is not None and format != "parquet":
        raise ValueError(f"column {column!r}: only the format parquet has columns")
    if images is not None and format not in _ANNOTATED:
        raise ValueError(f"images {images}: only {', '.join(_ANNOTATED)} have images apart from their annotations")
    if fit is not None and (format not in OWN or format == "parquet"):
        raise ValueError(f"fit {fit}: {format} always has the same one")
    if format == "parquet":
        from cocanet.data.readers.parquet import ParquetReader

        labels = None if masks is None else str(masks)
        return ParquetReader(path, split=split, size=size, column=column, masks=labels, skip_damaged=skip_damaged)
    if format == "folder":
        from cocanet.data.readers.folder import FolderReader

        if split is not None:
            raise ValueError(f"split {split!r}: the format folder has no published splits")
        folder = None if masks is None else Path(masks)
        return FolderReader(path, size=size, masks=folder, fit=fit or "stretch", skip_damaged=skip_damaged)
    if masks is not None:
        raise ValueError(f"masks {masks}: only the formats folder and parquet take separate masks")
    if format in _ANNOTATED:
        annotated = getattr(importlib.import_module("cocanet.data.readers.annotated"), _ANNOTATED[format])
        read: Source = annotated(
            path, images=images, split=split, size=size, fit=fit or "stretch", skip_damaged=skip_damaged
        )
        return read
    if skip_damaged:
        raise ValueError(f"skip-damaged: only {', '.join(OWN)} may leave images out, not {format}")
    # Imported here, so that the other readers' libraries are not loaded.
    module, reader = _PUBLISHED[format]
    source: Source = getattr(importlib.import_module(f"cocanet.data.readers.{module}"), reader)(
        path, split=split, size=size
    )
    return source
