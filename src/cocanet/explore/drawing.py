"""Shapes drawn on an image as masks.

Points are (x, y) in the image's pixels: the pixel of a row and column is the square from (column, row) to
(column + 1, row + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Bool

Point = tuple[float, float]
Size = tuple[int, int]
MAX_WORK = 2**29
"""Pixels that may be tested for one stroke: a second or two."""


def draw_stroke(size: Size, points: Sequence[Point], radius: float) -> Bool[np.ndarray, "h w"]:
    """Pixels whose centre is at most `radius` away from the line through the points."""
    mask, work = np.zeros(size, dtype=bool), 0
    for (x, y), (to_x, to_y) in pairwise([points[0], *points]):
        rows = _reach(min(y, to_y) - radius, max(y, to_y) + radius, size[0])
        columns = _reach(min(x, to_x) - radius, max(x, to_x) + radius, size[1])
        window = mask[rows, columns]
        work += window.size
        if work > MAX_WORK:
            raise ValueError("this stroke is too long for its brush; draw it in parts, or with a smaller brush")
        across = np.arange(columns.start, columns.stop) + 0.5 - x
        down = (np.arange(rows.start, rows.stop) + 0.5 - y)[:, None]
        length = (to_x - x) ** 2 + (to_y - y) ** 2
        share = np.clip((across * (to_x - x) + down * (to_y - y)) / length, 0, 1) if length else 0.0
        window |= (across - share * (to_x - x)) ** 2 + (down - share * (to_y - y)) ** 2 <= radius**2
    return mask


def draw_polygon(size: Size, points: Sequence[Point]) -> Bool[np.ndarray, "h w"]:
    """Pixels whose centre is inside of a closed line; what it winds around twice is outside."""
    height, width = size
    crossed = np.zeros((height, width + 1), dtype=bool)
    for (x, y), (to_x, to_y) in pairwise([*points, points[0]]):
        # Rows whose centres the edge passes; in each it toggles all pixels to its right.
        first, last = (int(np.clip(np.ceil(end - 0.5), 0, height)) for end in sorted((y, to_y)))
        rows = np.arange(first, last)
        if len(rows):
            at = x + (rows + 0.5 - y) * (to_x - x) / (to_y - y)
            crossed[rows, np.clip(np.ceil(at - 0.5), 0, width).astype(np.int64)] ^= True
    return np.asarray(np.logical_xor.accumulate(crossed, axis=1)[:, :width])


def box_corners(first: Point, second: Point) -> list[Point]:
    """The corners of an upright box, in order."""
    (left, right), (top, bottom) = sorted((first[0], second[0])), sorted((first[1], second[1]))
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _reach(low: float, high: float, side: int) -> slice:
    return slice(int(np.clip(np.floor(low), 0, side)), int(np.clip(np.ceil(high), 0, side)))
