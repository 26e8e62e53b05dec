"""Segments that lie in several places, taken apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from scipy import ndimage

from cocanet.segment.shapes import count_pixels

_TOUCHING = np.ones((3, 3), dtype=bool)
"""Pixels that share an edge or a corner."""


class Components(NamedTuple):
    """A label map whose objects are connected."""

    labels: Int[np.ndarray, "h w"]
    origin: Int[np.ndarray, " s"]
    """The label that each of them was a part of."""


def split_components(labels: Int[np.ndarray, "h w"], least: float = 0.0) -> Components:
    """Give every connected part of a label a label of its own; only label 0, the background, stays one.

    A part of fewer than `least` pixels gives each of them to the nearest part that stays.
    """
    parts, origin = np.zeros_like(labels), [0]
    for label, box in enumerate(ndimage.find_objects(labels), 1):
        if box is not None:
            found, count = ndimage.label(labels[box] == label, _TOUCHING)
            parts[box] += np.where(found > 0, found + (len(origin) - 1), 0).astype(labels.dtype)
            origin += [label] * count
    small = count_pixels(parts, len(origin)) < least
    small[0] = False
    if small.any():
        nearest = ndimage.distance_transform_edt(small[parts], return_distances=False, return_indices=True)
        parts = parts[tuple(nearest)]
    number = np.cumsum(~small, dtype=labels.dtype) - 1
    return Components(number[parts], np.array(origin)[~small])
