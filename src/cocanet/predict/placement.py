"""Where an image's pixels lie in the model's image, and resampling of masks back to the pixels.

The model takes images of one size. `stretch` resizes each direction by itself. `pad` keeps the aspect ratio and repeats
the edge pixels around the image. `crop` keeps the aspect ratio and cuts off the sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image

from cocanet.config import Fit
from cocanet.config.windows import Window

_BLOCK = 2**20
"""Mask values at the image's resolution that are in memory at a time."""
_LONGEST = 2**14
"""Pixels along a side of a block."""


class Axis(NamedTuple):
    """One direction: pixels `first` … `first + seen - 1` of the image fill cells `start` … of the model's image."""

    pixels: int
    first: int
    seen: int
    cells: int
    start: int
    span: int

    @property
    def visible(self) -> slice:
        return slice(self.first, self.first + self.seen)

    @property
    def same(self) -> bool:
        """Whether each pixel is one cell."""
        return self.seen == self.span == self.cells


class Placement(NamedTuple):
    """Both directions of an image."""

    rows: Axis
    columns: Axis

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self.rows.pixels, self.columns.pixels


def place(size: tuple[int, int], model: tuple[int, int], fit: Fit = "stretch") -> Placement:
    """Place an image of some height and width in the model's image."""
    if fit not in get_args(Fit):
        raise ValueError(f"fit must be one of {', '.join(get_args(Fit))}; got {fit!r}")
    scales = [cells / pixels for pixels, cells in zip(size, model, strict=True)]
    axes = []
    for pixels, cells in zip(size, model, strict=True):
        seen, span = pixels, cells
        if fit == "crop":
            seen = min(pixels, max(1, round(cells / max(scales))))
        elif fit == "pad":
            span = min(cells, max(1, round(pixels * min(scales))))
        axes.append(Axis(pixels, (pixels - seen) // 2, seen, cells, (cells - span) // 2, span))
    return Placement(*axes)


def model_view(pixels: UInt8[np.ndarray, "h w 3"], placement: Placement) -> UInt8[np.ndarray, "height width 3"]:
    """The image at the model's size, resized as training images are."""
    rows, columns = placement
    view = pixels[rows.visible, columns.visible]
    if (rows.span, columns.span) != view.shape[:2]:
        picture = Image.fromarray(np.ascontiguousarray(view))
        view = np.asarray(picture.resize((columns.span, rows.span), Image.Resampling.BILINEAR))
    around = [(axis.start, axis.cells - axis.start - axis.span) for axis in placement]
    return np.pad(view, (*around, (0, 0)), mode="edge") if any(map(any, around)) else view


def resample_masks(
    masks: Float[np.ndarray, "k height width"], placement: Placement, window: Window
) -> Float[np.ndarray, "k h w"]:
    """Masks resampled bilinearly to the image's pixels; 0 where the image is cropped."""
    out = np.zeros((len(masks), *placement.size), dtype=masks.dtype)
    visible = out[:, placement.rows.visible, placement.columns.visible]
    for rows, columns, values in _blocks(masks, placement, window):
        visible[:, rows, columns] = values
    return out


def largest_masks(
    masks: Float[np.ndarray, "k height width"], placement: Placement, window: Window
) -> Int[np.ndarray, "h w"]:
    """Index of the largest resampled mask at every visible pixel, one block at a time."""
    out = np.empty((placement.rows.seen, placement.columns.seen), dtype=np.int16)
    for rows, columns, values in _blocks(masks, placement, window):
        out[rows, columns] = largest(values)
    return out


def mean_own_masks(
    masks: Float[np.ndarray, "k height width"],
    placement: Placement,
    window: Window,
    labels: Int[np.ndarray, "h w"],
    clusters: Int[np.ndarray, " s"],
) -> Float[np.ndarray, " s"]:
    """Mean of each label's mask, `clusters[label]`, over the label's own pixels; every label must have pixels."""
    total, area = np.zeros(len(clusters)), np.zeros(len(clusters))
    for rows, columns, values in _blocks(masks, placement, window):
        here = labels[rows, columns]
        own = np.take_along_axis(values, clusters[here][None], 0)
        total += np.bincount(here.ravel(), own.ravel(), minlength=len(clusters))
        area += np.bincount(here.ravel(), minlength=len(clusters))
    return np.asarray(total / area)


def largest(values: Float[np.ndarray, "k rows columns"]) -> Int[np.ndarray, "rows columns"]:
    """The first index of the largest value: argmax over the first axis, several times faster than NumPy's."""
    best, index = values[0].copy(), np.zeros(values.shape[1:], dtype=np.int16)
    for number, other in enumerate(values[1:], 1):
        np.copyto(index, number, where=other > best)
        np.maximum(best, other, out=best)
    return index


def windows_of(axis: Axis, window: int) -> Int[np.ndarray, " seen"]:
    """Number of the window of each visible pixel."""
    return np.asarray(_centres(axis, slice(0, axis.seen)).astype(np.int32) // window)


def resampling_weights(axis: Axis, window: int, part: slice | None = None) -> Float[np.ndarray, "part cells"]:
    """Weight of each cell at each pixel: a triangle, wider if the image is smaller than the model's.

    Only cells that show the image count, and only those of the pixel's window, since each window has its own clusters.
    """
    centres, cells = _centres(axis, part or slice(0, axis.seen))[:, None], np.arange(axis.cells)
    weights = np.maximum(0, 1 - np.abs(cells + 0.5 - centres) / max(1.0, axis.span / axis.seen))
    shows = (cells >= axis.start) & (cells < axis.start + axis.span)
    weights *= shows & (cells // window == np.floor(centres) // window)
    return np.asarray(weights / weights.sum(1, keepdims=True), dtype=np.float32)


def _centres(axis: Axis, part: slice) -> Float[np.ndarray, " part"]:
    """Positions of the pixels' centres among the cells; cell j spans j to j + 1."""
    return axis.start + (np.arange(part.start, part.stop) + 0.5) * (axis.span / axis.seen)


def _blocks(
    masks: Float[np.ndarray, "k height width"], placement: Placement, window: Window
) -> Iterator[tuple[slice, slice, Float[np.ndarray, "k rows columns"]]]:
    """Blocks of the resampled masks among the visible pixels, of `_BLOCK` values at most.

    The weights too are made for one block at a time: an image can be a million pixels along one side.
    """
    rows, columns = placement
    if rows.same and columns.same:
        yield slice(0, rows.seen), slice(0, columns.seen), masks
        return
    for along in _parts(columns.seen, _LONGEST):
        wide = masks @ resampling_weights(columns, window[1], along).T
        for down in _parts(rows.seen, max(1, min(_LONGEST, _BLOCK // (len(masks) * wide.shape[2])))):
            weights = resampling_weights(rows, window[0], down)
            used = (weights > 0).any(0)
            yield down, along, weights[:, used] @ wide[:, used]


def _parts(length: int, step: int) -> Iterator[slice]:
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
