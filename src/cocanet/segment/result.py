"""What was found in one image, in the image's own pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image

from cocanet.segment.drawing import draw_overlay
from cocanet.segment.shapes import Runs, Shapes, find_runs, measure_shapes


class Box(NamedTuple):
    """A rectangle of pixels, as COCO has it."""

    left: int
    top: int
    width: int
    height: int


class Segment(NamedTuple):
    """One segment of an image."""

    label: int
    """Its value in the label map."""
    slot: int
    """The model's own number of it: a slot, or on a lower level of the hierarchy window · clusters + cluster."""
    background: bool
    """Whether it holds more of the image's border than any other: a guess, nothing else is known about it."""
    area: int
    box: Box
    centre: tuple[float, float]
    """Row and column of the centre of mass."""
    compactness: float
    """1 for a disc and less for anything else."""
    confidence: float
    """Mean of its soft mask over its own pixels: 1 where no other slot wants any of them."""


@dataclass(frozen=True, repr=False)
class Segmentation:
    """The segments of one image. Label 0 is the one that is taken for the background, objects are 1, 2, …"""

    image: UInt8[np.ndarray, "h w 3"]
    """What was segmented, upright."""
    labels: Int[np.ndarray, "h w"]
    slots: Float[np.ndarray, "s d"]
    """The feature vector of each label."""
    numbers: Int[np.ndarray, " s"]
    """The model's own number of each label; connected parts of one segment share it, and its vector."""
    confidence: Float[np.ndarray, " s"]
    """Mean of each label's soft mask over its own pixels."""
    masks: Float[np.ndarray, "s h w"] | None = None
    """The soft mask of each label, where they were asked for."""
    reconstruction: Float[np.ndarray, "height width 3"] | None = None
    """What the decoder painted, at the model's own size, where it was asked for its masks."""

    def __repr__(self) -> str:
        (height, width), count = self.size, len(self.numbers) - 1
        return f"Segmentation({height}×{width} pixels, {count} object{'s' * (count != 1)})"

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
    def segments(self) -> list[Segment]:
        """All segments, the background first."""
        shapes, compactness = self.shapes, self.shapes.compactness
        return [
            Segment(
                label=label,
                slot=int(number),
                background=label == 0,
                area=int(shapes.area[label]),
                box=Box(*map(int, shapes.box[label])),
                centre=(float(shapes.centre[label, 0]), float(shapes.centre[label, 1])),
                compactness=float(compactness[label]),
                confidence=float(self.confidence[label]),
            )
            for label, number in enumerate(self.numbers)
        ]

    @property
    def objects(self) -> list[Segment]:
        """All segments but the background."""
        return self.segments[1:]

    def overlay(self) -> Image.Image:
        """The image with its objects tinted and outlined, at a size that is good to look at."""
        return draw_overlay(self.image, self.labels)
