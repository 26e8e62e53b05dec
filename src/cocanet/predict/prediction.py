"""A model's prediction for one image: raw at the model's size, and as numbered segments in the image's own pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image

from cocanet.config.windows import Window
from cocanet.predict.drawing import draw_overlay
from cocanet.predict.placement import Placement, largest_masks, mean_own_masks, resample_masks, windows_of
from cocanet.predict.scores import measure_cues, object_scores
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.predict.shapes import (
    Runs,
    Shapes,
    background_label,
    count_pixels,
    find_runs,
    measure_shapes,
    split_components,
)


class RawPrediction(NamedTuple):
    """Soft masks and vectors of one image at the model's own size."""

    masks: Float[np.ndarray, "k height width"]
    """Masks of the slots; below the last level, of the clusters of each pixel's window."""
    vectors: Float[np.ndarray, "n d"]
    """Vectors of the slots; below the last level, of all clusters, window after window."""
    window: Window
    """Pixels that share clusters: on the last level the whole image."""
    reconstruction: Float[np.ndarray, "3 height width"] | None = None
    refined: bool = False

    @property
    def windows(self) -> tuple[int, int]:
        """Rows and columns of windows."""
        height, width = self.masks.shape[1:]
        return height // self.window[0], width // self.window[1]


def slot_predictions(
    masks: Float[np.ndarray, "b k height width"],
    slots: Float[np.ndarray, "b k d"],
    in_use: Bool[np.ndarray, "b k"],
    reconstruction: Float[np.ndarray, "b 3 height width"] | None = None,
    *,
    refined: bool = False,
) -> list[RawPrediction]:
    """The predictions of a batch of slots, without the slots that pad it."""
    size = masks.shape[2], masks.shape[3]
    return [
        RawPrediction(
            masks[index][used],
            slots[index][used],
            size,
            None if reconstruction is None else reconstruction[index],
            refined,
        )
        for index, used in enumerate(in_use)
    ]


class BoundingBox(NamedTuple):
    """A rectangle of pixels, in COCO's order."""

    left: int
    top: int
    width: int
    height: int


class Segment(NamedTuple):
    """One segment of an image."""

    label: int
    """Its value in the label map."""
    slot: int
    """Number of the slot; on a lower level of the hierarchy, window · clusters + cluster."""
    background: bool
    """Whether it has more of the image's border than any other segment. This is a guess."""
    area: int
    box: BoundingBox
    centre: tuple[float, float]
    """Row and column of the centre of mass."""
    compactness: float
    """1 for a disc, less for every other shape."""
    confidence: float
    """Mean of its soft mask over its own pixels; 1 where no other slot has a share."""
    score: float
    """The probability that it is one object, see `predict.scores`."""


@dataclass(frozen=True, repr=False)
class Segmentation:
    """The segments of one image. Label 0 is the background, labels 1, 2, … are objects, the largest first."""

    image: UInt8[np.ndarray, "h w 3"]
    """The image, upright."""
    labels: Int[np.ndarray, "h w"]
    slots: Float[np.ndarray, "s d"]
    """The feature vector of each label."""
    numbers: Int[np.ndarray, " s"]
    """Number of each label's slot (see `Segment.slot`); connected components of one slot share it."""
    confidence: Float[np.ndarray, " s"]
    """Mean of each label's soft mask over its own pixels."""
    masks: Float[np.ndarray, "s h w"] | None = None
    """The soft mask of each label, with `soft=True` only."""
    reconstruction: Float[np.ndarray, "height width 3"] | None = None
    """The decoder's reconstruction at the model's own size, with the decoder's masks only."""
    refined: bool = False
    """Whether the masks were refined after the network."""

    def __repr__(self) -> str:
        (height, width), count = self.size, len(self.numbers) - 1
        refined = ", refined" * self.refined
        return f"Segmentation({height}×{width} pixels, {count} object{'s' * (count != 1)}{refined})"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        height, width = self.labels.shape
        return height, width

    @cached_property
    def runs(self) -> Runs:
        """The label map as runs down its columns."""
        return find_runs(self.labels)

    @cached_property
    def shapes(self) -> Shapes:
        """Area, box, centre and inertia of each label."""
        return measure_shapes(self.runs, len(self.numbers))

    @cached_property
    def scores(self) -> Float[np.ndarray, " s"]:
        """The probability that each label is one object."""
        return object_scores(measure_cues(self.image, self.labels, self.confidence))

    @cached_property
    def segments(self) -> list[Segment]:
        """All segments, the background first."""
        shapes, compactness = self.shapes, self.shapes.compactness
        return [
            Segment(
                label=label,
                slot=int(number),
                background=label == 0,
                area=int(shapes.area[label]),
                box=BoundingBox(*map(int, shapes.box[label])),
                centre=(float(shapes.centre[label, 0]), float(shapes.centre[label, 1])),
                compactness=float(compactness[label]),
                confidence=float(self.confidence[label]),
                score=float(self.scores[label]),
            )
            for label, number in enumerate(self.numbers)
        ]

    @property
    def objects(self) -> list[Segment]:
        """All segments but the background."""
        return self.segments[1:]

    def overlay(self) -> Image.Image:
        """The image with its objects tinted and outlined; small images are enlarged, large ones reduced."""
        return draw_overlay(self.image, self.labels)


def label_prediction(
    raw: RawPrediction,
    pixels: UInt8[np.ndarray, "h w 3"],
    placement: Placement,
    settings: SegmentSettings,
    *,
    soft: bool = False,
) -> Segmentation:
    """Resample masks to the image, give each pixel to its largest mask, and number the segments.

    The pixels of a segment that is too small go to the largest of the remaining masks. Objects are numbered by area,
    the largest first, and what scores less than `min_score` is background; segments of lower levels are not objects.
    """
    numbers = _cluster_numbers(raw, raw.masks, placement)
    least = settings.min_pixels(math.prod(placement.size) / math.prod(raw.windows))
    if least > 1:
        kept = _large_enough(raw, numbers, least)
        if not kept.all():
            remaining = np.where(_per_pixel(raw, kept), raw.masks, np.float32(-1))
            numbers = _cluster_numbers(raw, remaining, placement)
    order = _background_first(numbers)
    label_of = np.zeros(int(order.max()) + 1, dtype=np.int32)
    label_of[order] = np.arange(len(order), dtype=np.int32)
    visible = label_of[numbers]
    if settings.components:
        visible, origin = split_components(visible, least)
        order = order[origin]
    labels = np.zeros(placement.size, dtype=np.int32)
    labels[placement.rows.visible, placement.columns.visible] = visible
    confidence = mean_own_masks(raw.masks, placement, raw.window, visible, order % len(raw.masks))
    if raw.windows == (1, 1):
        objects = _objects(pixels, labels, confidence, settings.min_score)
        number = np.zeros(len(order), dtype=np.int32)
        number[objects] = np.arange(len(objects), dtype=np.int32)
        labels, order, confidence = number[labels], order[objects], confidence[objects]
    return Segmentation(
        image=pixels,
        labels=labels,
        slots=raw.vectors[order],
        numbers=order,
        confidence=confidence,
        masks=_soft_masks(raw, placement, order) if soft else None,
        reconstruction=None if raw.reconstruction is None else raw.reconstruction.transpose(1, 2, 0),
        refined=raw.refined,
    )


def _cluster_numbers(
    raw: RawPrediction, masks: Float[np.ndarray, "k height width"], placement: Placement
) -> Int[np.ndarray, "h w"]:
    """The cluster of every visible pixel: window · clusters + cluster."""
    cluster = largest_masks(masks, placement, raw.window)
    return cluster + len(masks) * _window_numbers(raw, placement) if raw.windows != (1, 1) else cluster


def _window_numbers(raw: RawPrediction, placement: Placement) -> Int[np.ndarray, "h w"]:
    down, along = (windows_of(axis, side) for axis, side in zip(placement, raw.window, strict=True))
    return np.asarray(down[:, None] * raw.windows[1] + along)


def _large_enough(raw: RawPrediction, numbers: Int[np.ndarray, "h w"], least: float) -> Bool[np.ndarray, "windows k"]:
    """Which clusters have `least` pixels; in a window where none has, the largest."""
    rows, columns = raw.windows
    areas = count_pixels(numbers, rows * columns * len(raw.masks)).reshape(rows * columns, -1)
    kept = areas >= least
    bare = ~kept.any(1)
    kept[bare, areas[bare].argmax(1)] = True
    return kept


def _per_pixel(raw: RawPrediction, clusters: Bool[np.ndarray, "windows k"]) -> Bool[np.ndarray, "k height width"]:
    """A value of each cluster, repeated over the pixels of its window."""
    grid = clusters.T.reshape(-1, *raw.windows)
    return grid.repeat(raw.window[0], 1).repeat(raw.window[1], 2)


def _background_first(numbers: Int[np.ndarray, "h w"]) -> Int[np.ndarray, " s"]:
    """The clusters that have pixels, the background first."""
    background = background_label(numbers)
    present = np.flatnonzero(count_pixels(numbers, int(numbers.max()) + 1))
    return np.concatenate(([background], present[present != background]))


def _objects(
    pixels: UInt8[np.ndarray, "h w 3"],
    labels: Int[np.ndarray, "h w"],
    confidence: Float[np.ndarray, " s"],
    min_score: int | float,
) -> Int[np.ndarray, " kept"]:
    """The background and the labels that score enough, the largest first."""
    area = count_pixels(labels, len(confidence))
    kept = np.arange(len(area))
    if min_score > 0:
        kept = kept[object_scores(measure_cues(pixels, labels, confidence)) >= min_score]
    kept = kept[kept > 0]
    return np.concatenate(([0], kept[np.argsort(-area[kept], kind="stable")]))


def _soft_masks(raw: RawPrediction, placement: Placement, order: Int[np.ndarray, " s"]) -> Float[np.ndarray, "s h w"]:
    values = resample_masks(raw.masks, placement, raw.window)
    windows, clusters = np.divmod(order, len(raw.masks))
    masks = values[clusters]
    if raw.windows != (1, 1):
        rows, columns = (axis.visible for axis in placement)
        masks[:, rows, columns] *= windows[:, None, None] == _window_numbers(raw, placement)
    return masks
