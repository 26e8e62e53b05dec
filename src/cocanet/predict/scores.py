"""The score of a segment: the probability that it is one object, by how it lies in the image.

Four cues of a segment, none of which needs to know objects: how sharp its soft mask is, how much of the image's border
it holds, how much of it hangs together, and how clearly colours change at its outline. A logistic function of them has
one set of numbers for all models; docs/own-images.md has its calibration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image
from scipy import ndimage

LOOKED_SIDE = 64
"""Pixels of the longer side at which cues are measured, so that they do not depend on the image's size."""
SHARPNESS, BORDER, WHOLE, CONTRAST, BIAS = 11.0, -49.0, 8.7, 8.0, -18.9
FAINT = 0.02
"""A difference of colours of this share of their range gives a contrast of one half."""


class Cues(NamedTuple):
    """Cues of each segment s, all from 0 to 1."""

    sharpness: Float[np.ndarray, " s"]
    """Mean soft mask over its own pixels."""
    border: Float[np.ndarray, " s"]
    """Share of the image's border."""
    whole: Float[np.ndarray, " s"]
    """Share of its pixels in its largest connected part."""
    contrast: Float[np.ndarray, " s"]
    """Difference d of colours across its outline, as d / (d + `FAINT`)."""


def object_scores(cues: Cues) -> Float[np.ndarray, " s"]:
    """The probability that each segment is one object."""
    evidence = BIAS + SHARPNESS * cues.sharpness + BORDER * cues.border + WHOLE * cues.whole + CONTRAST * cues.contrast
    return np.asarray(1 / (1 + np.exp(-evidence)))


def measure_cues(
    image: UInt8[np.ndarray, "h w 3"], labels: Int[np.ndarray, "h w"], sharpness: Float[np.ndarray, " s"]
) -> Cues:
    pixels, labels = _small(image, labels)
    count = len(sharpness)
    area = np.bincount(labels.ravel(), minlength=count).clip(1)
    edge = np.ones(labels.shape, dtype=bool)
    edge[1:-1, 1:-1] = False
    border = np.bincount(labels[edge], minlength=count) / edge.sum()
    whole = np.array([_largest_part(labels == label) for label in range(count)]) / area
    steps, pairs = np.zeros(count), np.zeros(count)
    for a, b, first, second in (
        (labels[1:], labels[:-1], pixels[1:], pixels[:-1]),
        (labels[:, 1:], labels[:, :-1], pixels[:, 1:], pixels[:, :-1]),
    ):
        apart = a != b
        difference = np.abs(first[apart] - second[apart]).mean(1)
        for side in (a[apart], b[apart]):
            steps += np.bincount(side, difference, minlength=count)
            pairs += np.bincount(side, minlength=count)
    contrast = steps / pairs.clip(1)
    return Cues(np.asarray(sharpness, dtype=np.float64), border, whole, contrast / (contrast + FAINT))


def _largest_part(mask: np.ndarray) -> int:
    parts, count = ndimage.label(mask, np.ones((3, 3)))
    return int(np.bincount(parts.ravel())[1:].max()) if count else 1


def _small(image: UInt8[np.ndarray, "h w 3"], labels: Int[np.ndarray, "h w"]) -> tuple[np.ndarray, np.ndarray]:
    """Image and labels with at most `LOOKED_SIDE` pixels a side; colours from 0 to 1."""
    scale = min(1.0, LOOKED_SIDE / max(labels.shape))
    height, width = (max(1, round(scale * side)) for side in labels.shape)
    picture = Image.fromarray(image).resize((width, height), Image.Resampling.BOX)
    rows, columns = (
        ((np.arange(wanted) + 0.5) * have / wanted).astype(np.int64)
        for wanted, have in zip((height, width), labels.shape, strict=True)
    )
    return np.asarray(picture, dtype=np.float64) / 255, labels[rows[:, None], columns]
