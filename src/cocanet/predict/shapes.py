"""Geometry of label maps: runs down the columns, areas, boxes, centres, inertia, connected components."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer
from scipy import ndimage

from cocanet.functional.pixels import PIXEL_INERTIA

_BLOCK = 2**20
_TOUCHING = np.ones((3, 3), dtype=bool)
"""Pixels that share an edge or a corner are connected."""


class Runs(NamedTuple):
    """Stretches of one label down the columns, column after column."""

    label: Int[np.ndarray, " r"]
    column: Int[np.ndarray, " r"]
    first: Int[np.ndarray, " r"]
    """Row of the first pixel."""
    length: Int[np.ndarray, " r"]


class Shapes(NamedTuple):
    """Geometry of the hard mask of each segment s, in pixels."""

    area: Int[np.ndarray, " s"]
    box: Int[np.ndarray, "s 4"]
    """Left, top, width and height, in COCO's order."""
    centre: Float[np.ndarray, "s 2"]
    """Row and column of the centre of mass; pixel centres have integer coordinates."""
    inertia: Float[np.ndarray, " s"]
    """Moment of inertia about the centre, with pixels as unit squares."""

    @property
    def compactness(self) -> Float[np.ndarray, " s"]:
        """Compactness of hard masks (Eq. 3): 1 for a disc, less for every other shape."""
        return self.area**2.0 / (2 * math.pi * self.inertia)


def find_runs(labels: Integer[np.ndarray, "h w"]) -> Runs:
    """The label map as runs; no run crosses from one column into the next."""
    height, width = labels.shape
    columns = np.ascontiguousarray(labels.T)
    starts_here = np.ones(columns.shape, dtype=bool)
    np.not_equal(columns[:, 1:], columns[:, :-1], out=starts_here[:, 1:])
    starts = np.flatnonzero(starts_here)
    column, first = np.divmod(starts, height)
    length = np.diff(starts, append=height * width)
    return Runs(columns.ravel()[starts].astype(np.int64), column, first, length)


def measure_shapes(runs: Runs, segments: int) -> Shapes:
    """Shapes of labels 0 … segments - 1, each of which must have a pixel."""
    label, column, first, length = runs

    def total(weights: np.ndarray) -> Float[np.ndarray, " s"]:
        return np.asarray(np.bincount(label, weights, minlength=segments))

    last = first + length - 1
    area = total(length)
    centre = np.stack((total(length * (first + last) / 2), total(length * column)), 1) / area[:, None]
    row_offset, column_offset = (first + last) / 2 - centre[label, 0], column - centre[label, 1]
    # The squared offsets of n pixels in a row, about their middle, sum to n (n² - 1) / 12.
    spread = length * (row_offset**2 + column_offset**2) + length * (length**2 - 1) / 12
    top, left = (np.full(segments, np.iinfo(np.int64).max) for _ in range(2))
    bottom, right = (np.full(segments, -1) for _ in range(2))
    for ufunc, edge, values in (
        (np.minimum, top, first),
        (np.maximum, bottom, last),
        (np.minimum, left, column),
        (np.maximum, right, column),
    ):
        ufunc.at(edge, label, values)
    return Shapes(
        area=area.astype(np.int64),
        box=np.stack((left, top, right - left + 1, bottom - top + 1), 1),
        centre=centre,
        inertia=total(spread) + PIXEL_INERTIA * area,
    )


def count_pixels(labels: Integer[np.ndarray, "h w"], segments: int) -> Int[np.ndarray, " s"]:
    """Pixels of each label, one block of rows at a time since `bincount` converts labels to 8 bytes each."""
    step = max(1, _BLOCK // labels.shape[1])
    blocks = (labels[start : start + step] for start in range(0, len(labels), step))
    return np.asarray(sum(np.bincount(block.ravel(), minlength=segments) for block in blocks))


def background_label(labels: Integer[np.ndarray, "h w"]) -> int:
    """The label with most of the image's border, taken as the background.

    Ties go to the larger label, then to the first, as in `metrics.functional.overlap.border_slot`.
    """
    edge = np.ones(labels.shape, dtype=bool)
    edge[1:-1, 1:-1] = False
    area = count_pixels(labels, int(labels.max()) + 1)
    border = np.bincount(labels[edge], minlength=len(area))
    return int(np.lexsort((-np.arange(len(area)), area, border))[-1])


class Components(NamedTuple):
    """A label map in which every object is connected."""

    labels: Int[np.ndarray, "h w"]
    origin: Int[np.ndarray, " s"]
    """The original label of each new label."""


def split_components(labels: Int[np.ndarray, "h w"], least: float = 0.0) -> Components:
    """Give every connected component its own label; label 0, the background, stays whole.

    Pixels of a component with fewer than `least` pixels go to the nearest remaining component.
    """
    components, origin = np.zeros_like(labels), [0]
    for label, box in enumerate(ndimage.find_objects(labels), 1):
        if box is not None:
            found, count = ndimage.label(labels[box] == label, _TOUCHING)
            components[box] += np.where(found > 0, found + (len(origin) - 1), 0).astype(labels.dtype)
            origin += [label] * count
    small = count_pixels(components, len(origin)) < least
    small[0] = False
    if small.any():
        nearest = ndimage.distance_transform_edt(small[components], return_distances=False, return_indices=True)
        components = components[tuple(nearest)]
    number = np.cumsum(~small, dtype=labels.dtype) - 1
    return Components(number[components], np.array(origin)[~small])
