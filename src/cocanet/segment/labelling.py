"""From the model's soft masks to numbered segments in an image's own pixels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from cocanet.config.windows import Window
from cocanet.segment.components import split_components
from cocanet.segment.placement import Placement, largest_masks, mean_own_masks, resample_masks, windows_of
from cocanet.segment.result import Segmentation
from cocanet.segment.settings import SegmentSettings
from cocanet.segment.shapes import background_label, count_pixels


class Found(NamedTuple):
    """What the model found in one image, at its own size."""

    pixels: UInt8[np.ndarray, "h w 3"]
    placement: Placement
    masks: Float[np.ndarray, "k height width"]
    """At each place the masks of the clusters of the window there."""
    vectors: Float[np.ndarray, "n d"]
    """Features of every cluster, window after window."""
    window: Window
    """Pixels of the model's image that share their clusters; all of them on the last level."""
    reconstruction: Float[np.ndarray, "3 height width"] | None = None


def segmentation(found: Found, settings: SegmentSettings | None = None, *, soft: bool = False) -> Segmentation:
    """Bring masks to the image's pixels, each to its largest, and number the segments: the background is 0.

    A segment that is too small gives each of its pixels to the largest of the other masks there.
    """
    settings = settings or SegmentSettings()
    numbers = _cluster_numbers(found, found.masks)
    least = settings.least_pixels(math.prod(found.placement.size) / math.prod(_windows(found)))
    if least > 1:
        kept = _large_enough(found, numbers, least)
        if not kept.all():
            numbers = _cluster_numbers(found, np.where(_over_image(found, kept), found.masks, np.float32(-1)))
    order = _background_first(numbers)
    label_of = np.zeros(int(order.max()) + 1, dtype=np.int32)
    label_of[order] = np.arange(len(order), dtype=np.int32)
    seen = label_of[numbers]
    if settings.components:
        seen, origin = split_components(seen, least)
        order = order[origin]
    labels = np.zeros(found.placement.size, dtype=np.int32)
    labels[found.placement.rows.visible, found.placement.columns.visible] = seen
    painted = found.reconstruction
    return Segmentation(
        image=found.pixels,
        labels=labels,
        slots=found.vectors[order],
        numbers=order,
        confidence=mean_own_masks(found.masks, found.placement, found.window, seen, order % len(found.masks)),
        masks=_soft_masks(found, order) if soft else None,
        reconstruction=None if painted is None else painted.transpose(1, 2, 0),
    )


def _cluster_numbers(found: Found, masks: Float[np.ndarray, "k height width"]) -> Int[np.ndarray, "h w"]:
    """The cluster of every pixel that the model saw: window · clusters + cluster."""
    cluster = largest_masks(masks, found.placement, found.window)
    return cluster + len(masks) * _window_numbers(found) if _windows(found) != (1, 1) else cluster


def _windows(found: Found) -> tuple[int, int]:
    height, width = found.masks.shape[1:]
    return height // found.window[0], width // found.window[1]


def _window_numbers(found: Found) -> Int[np.ndarray, "h w"]:
    down, along = (windows_of(axis, side) for axis, side in zip(found.placement, found.window, strict=True))
    return np.asarray(down[:, None] * _windows(found)[1] + along)


def _large_enough(found: Found, numbers: Int[np.ndarray, "h w"], least: float) -> Bool[np.ndarray, "windows k"]:
    """Which clusters have `least` pixels; the largest of a window where none has."""
    rows, columns = _windows(found)
    areas = count_pixels(numbers, rows * columns * len(found.masks)).reshape(rows * columns, -1)
    kept = areas >= least
    bare = ~kept.any(1)
    kept[bare, areas[bare].argmax(1)] = True
    return kept


def _over_image(found: Found, clusters: Bool[np.ndarray, "windows k"]) -> Bool[np.ndarray, "k height width"]:
    """What is said of each cluster, over the model's image."""
    grid = clusters.T.reshape(-1, *_windows(found))
    return grid.repeat(found.window[0], 1).repeat(found.window[1], 2)


def _background_first(numbers: Int[np.ndarray, "h w"]) -> Int[np.ndarray, " s"]:
    """The clusters that have pixels; first the background."""
    background = background_label(numbers)
    there = np.flatnonzero(count_pixels(numbers, int(numbers.max()) + 1))
    return np.concatenate(([background], there[there != background]))


def _soft_masks(found: Found, order: Int[np.ndarray, " s"]) -> Float[np.ndarray, "s h w"]:
    values = resample_masks(found.masks, found.placement, found.window)
    windows, clusters = np.divmod(order, len(found.masks))
    masks = values[clusters]
    if _windows(found) != (1, 1):
        rows, columns = (axis.visible for axis in found.placement)
        masks[:, rows, columns] *= windows[:, None, None] == _window_numbers(found)
    return masks
