"""Readers of published files, of a folder of images and of Parquet files; `open_source` picks one by its format."""

from __future__ import annotations

from pathlib import Path

from cocanet.data.sample import Source

FORMATS = ("deepmind-tfrecord", "ocl-hdf5", "clevrtex", "shapestacks", "birds", "flowers", "folder", "parquet")
PHOTOGRAPHS = ("birds", "flowers")
"""Published sets that nothing generates."""
OWN = ("folder", "parquet")
"""A user's own images, in whatever order they came: cropped to their central square, divided at random."""


def open_source(
    format: str,
    path: Path,
    *,
    split: str | None = None,
    size: int | None = None,
    masks: Path | str | None = None,
    skip_damaged: bool = False,
    column: str | None = None,
) -> Source:
    """The samples at `path`, cropped and resized as the protocol says.

    `split` is train, val or test, or a variant of the set with a part, such as `clevr6/train` or
    `ccs_all/test`; without it, everything. `size` replaces the protocol's final size, not its crop. `masks`,
    a folder or a column, and `skip_damaged`, which leaves out what cannot be read, are for `folder` and `parquet`;
    `column`, that of the images, is for `parquet`.
    """
    if format not in FORMATS:
        raise ValueError(f"format {format!r}: expected one of {', '.join(FORMATS)}")
    if size is not None and not 1 <= size <= 4096:
        raise ValueError(f"size {size}: expected 1 to 4096 pixels")
    if column is not None and format != "parquet":
        raise ValueError(f"column {column!r}: only the format parquet has columns")
    if format == "parquet":
        from cocanet.data.readers.parquet import ParquetReader

        labels = None if masks is None else str(masks)
        return ParquetReader(path, split=split, size=size, column=column, masks=labels, skip_damaged=skip_damaged)
    if format == "folder":
        from cocanet.data.readers.folder import FolderReader
        from cocanet.data.readers.splits import no_split

        no_split(split, format)
        folder = None if masks is None else Path(masks)
        return FolderReader(path, size=size, masks=folder, skip_damaged=skip_damaged)
    if masks is not None:
        raise ValueError(f"masks {masks}: only the formats folder and parquet take masks apart")
    if skip_damaged:
        every = f"of the format {format} every image counts"
        raise ValueError(f"skip-damaged: {every}; only folder and parquet may leave some out")
    return _published(format, path, split, size)


def _published(format: str, path: Path, split: str | None, size: int | None) -> Source:
    """Import the one reader that is asked for, so that the others' libraries are not loaded."""
    match format:
        case "deepmind-tfrecord":
            from cocanet.data.readers.deepmind import DeepMindReader

            return DeepMindReader(path, split=split, size=size)
        case "ocl-hdf5":
            from cocanet.data.readers.ocl_hdf5 import OclReader

            return OclReader(path, split=split, size=size)
        case "clevrtex":
            from cocanet.data.readers.clevrtex import ClevrTexReader

            return ClevrTexReader(path, split=split, size=size)
        case "shapestacks":
            from cocanet.data.readers.shapestacks import ShapeStacksReader

            return ShapeStacksReader(path, split=split, size=size)
        case "birds":
            from cocanet.data.readers.birds import BirdsReader

            return BirdsReader(path, split=split, size=size)
        case _:
            from cocanet.data.readers.flowers import FlowersReader

            return FlowersReader(path, split=split, size=size)
