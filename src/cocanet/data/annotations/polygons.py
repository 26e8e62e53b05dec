"""Masks and polygons: outlines along the edges of pixels, so that filling one gives the mask back exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

Polygon = Float[np.ndarray, "_n 2"]
"""Corners (x, y) in pixels; pixel (row, column) covers x from column to column + 1."""


def outlines(mask: Bool[np.ndarray, "h w"]) -> list[Polygon]:
    """The closed outlines of a mask and of its holes, with the inside on the right of each edge."""
    padded = np.pad(mask, 1)
    down = padded[1:, 1:-1].astype(int) - padded[:-1, 1:-1]
    along = padded[1:-1, 1:].astype(int) - padded[1:-1, :-1]
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (rows, columns), from_, to in (
        (np.nonzero(down == 1), (0, 0), (0, 1)),
        (np.nonzero(down == -1), (0, 1), (0, 0)),
        (np.nonzero(along == 1), (1, 0), (0, 0)),
        (np.nonzero(along == -1), (0, 0), (1, 0)),
    ):
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            start = row + from_[0], column + from_[1]
            edges.setdefault(start, []).append((row + to[0], column + to[1]))
    found = []
    while edges:
        path = [next(iter(edges))]
        while path[-1] in edges:
            following = edges[path[-1]]
            path.append(following.pop())
            if not following:
                del edges[path[-2]]
        found.append(_corners(np.array(path[:-1])))
    return found


def one_outline(mask: Bool[np.ndarray, "h w"]) -> Polygon:
    """One closed polygon: outlines joined by bridges that go forth and back, and so enclose nothing."""
    first, *others = outlines(mask)
    start, joined = first[:1], [first, first[:1]]
    for other in others:
        joined += [other, other[:1], start]
    return np.concatenate(joined) if others else first


def fill(polygons: Sequence[Polygon], size: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """The pixels whose centres lie inside of an odd number of the polygons."""
    height, width = size
    inside = np.zeros((height, width + 1), dtype=np.int64)
    for polygon in polygons:
        for edge in zip(polygon.tolist(), np.roll(polygon, -1, axis=0).tolist(), strict=True):
            # An edge and its way back must round alike.
            (x, top), (end, bottom) = sorted(edge, key=lambda corner: corner[::-1])
            low, high = (min(max(math.ceil(y - 0.5), 0), height) for y in (top, bottom))
            if low >= high:
                continue
            rows = np.arange(low, high)
            crossing = x + (rows + 0.5 - top) * (end - x) / (bottom - top)
            np.add.at(inside, (rows, np.clip(np.ceil(crossing - 0.5), 0, width).astype(np.int64)), 1)
    return np.asarray(inside.cumsum(1)[:, :width] % 2 == 1)


def _corners(path: np.ndarray) -> Polygon:
    """The points (x, y) at which a path of (row, column) turns."""
    before, after = path - np.roll(path, 1, axis=0), np.roll(path, -1, axis=0) - path
    return np.asarray(path[(before != after).any(1)][:, ::-1], dtype=np.float64)
