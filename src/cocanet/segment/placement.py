"""Where an image's pixels lie in the model's image, and masks from there back to the pixels.

The model takes one size. `stretch` resizes the whole image to it, each direction by itself; `pad` keeps the aspect
ratio and repeats the edge pixels around the image; `crop` keeps it and cuts off what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image

from cocanet.config import Fit
from cocanet.config.windows import Window

_STRIP = 2**20
"""Mask values at the image's resolution that are held at a time."""


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
        """Whether pixels and cells are one to one."""
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
    """Lay an image of one height and width out on the model's."""
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
    """The image as the model sees it, resized as training images are."""
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
    """Masks over the image's pixels, bilinearly; 0 where the model saw nothing of the image."""
    rows, columns = placement
    out = np.zeros((len(masks), *placement.size), dtype=masks.dtype)
    for strip, values in _strips(masks, placement, window):
        out[:, rows.first + strip.start : rows.first + strip.stop, columns.visible] = values
    return out


def largest_masks(
    masks: Float[np.ndarray, "k height width"], placement: Placement, window: Window
) -> Int[np.ndarray, "h w"]:
    """Index of the largest resampled mask at every pixel that the model saw; a strip of rows at a time."""
    rows, columns = placement
    out = np.empty((rows.seen, columns.seen), dtype=np.int16)
    for strip, values in _strips(masks, placement, window):
        out[strip] = largest(values)
    return out


def mean_own_masks(
    masks: Float[np.ndarray, "k height width"],
    placement: Placement,
    window: Window,
    labels: Int[np.ndarray, "h w"],
    clusters: Int[np.ndarray, " s"],
) -> Float[np.ndarray, " s"]:
    """Mean of each label's mask, `clusters[label]`, over the label's own pixels; each label must have one."""
    total, area = np.zeros(len(clusters)), np.zeros(len(clusters))
    for strip, values in _strips(masks, placement, window):
        here = labels[strip]
        own = np.take_along_axis(values, clusters[here][None], 0)
        total += np.bincount(here.ravel(), own.ravel(), minlength=len(clusters))
        area += np.bincount(here.ravel(), minlength=len(clusters))
    return np.asarray(total / area)


def largest(values: Float[np.ndarray, "k rows columns"]) -> Int[np.ndarray, "rows columns"]:
    """The first index of the largest value: as argmax, which goes down the first axis several times slower."""
    best, index = values[0].copy(), np.zeros(values.shape[1:], dtype=np.int16)
    for number, other in enumerate(values[1:], 1):
        np.copyto(index, number, where=other > best)
        np.maximum(best, other, out=best)
    return index


def windows_of(axis: Axis, window: int) -> Int[np.ndarray, " seen"]:
    """Number of the window that each pixel that the model saw lies in."""
    return np.asarray(_centres(axis).astype(np.int32) // window)


def resampling_weights(axis: Axis, window: int) -> Float[np.ndarray, "seen cells"]:
    """How much each cell counts at each pixel: a triangle, widened where the image is smaller than the model's.

    Only cells that show the image count, and only those of the pixel's own window: the clusters of another window are
    others.
    """
    centres, cells = _centres(axis)[:, None], np.arange(axis.cells)
    weights = np.maximum(0, 1 - np.abs(cells + 0.5 - centres) / max(1.0, axis.span / axis.seen))
    shows = (cells >= axis.start) & (cells < axis.start + axis.span)
    weights *= shows & (cells // window == np.floor(centres) // window)
    return np.asarray(weights / weights.sum(1, keepdims=True), dtype=np.float32)


def _centres(axis: Axis) -> Float[np.ndarray, " seen"]:
    """Where the pixels' centres lie among the cells; cell j reaches from j to j + 1."""
    return axis.start + (np.arange(axis.seen) + 0.5) * (axis.span / axis.seen)


def _strips(
    masks: Float[np.ndarray, "k height width"], placement: Placement, window: Window
) -> Iterator[tuple[slice, Float[np.ndarray, "k rows seen"]]]:
    """Rows of the resampled masks, a few at a time; each needs only the few rows of cells around it."""
    if placement.rows.same and placement.columns.same:
        yield slice(0, placement.rows.seen), masks
        return
    down, along = (resampling_weights(axis, side) for axis, side in zip(placement, window, strict=True))
    wide = masks @ along.T
    step = max(1, _STRIP // (len(masks) * placement.columns.seen))
    for start in range(0, placement.rows.seen, step):
        strip = slice(start, min(start + step, placement.rows.seen))
        used = (down[strip] > 0).any(0)
        yield strip, down[strip][:, used] @ wide[:, used]
