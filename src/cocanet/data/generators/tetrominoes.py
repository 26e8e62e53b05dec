"""Tetrominoes: three shaded pieces on black, drawn as the published 35 px records are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt8

from cocanet.data.generators.streams import pick, uniforms
from cocanet.data.sample import Sample

CANVAS = 35
CELL = 5
PIECES = 3
_TRIES = 4  # layouts drawn together; one in seven is free of overlaps
SIZES = (32, 35)

# Numbered as in the published records, from 1. Numbers 1 (lying I) and 8 (standing J) never occur there.
_DRAWINGS = {
    1: "####",
    2: "#/#/#/#",
    3: "###/#..",
    4: "#../###",
    5: "..#/###",
    6: "###/..#",
    7: "##/.#/.#",
    8: ".#/.#/##",
    9: "##/#./#.",
    10: "#./#./##",
    11: "##./.##",
    12: ".##/##.",
    13: ".#/##/#.",
    14: "#./##/.#",
    15: ".#./###",
    16: "###/.#.",
    17: ".#/##/.#",
    18: "#./##/#.",
    19: "##/##",
}
OCCURRING = np.array([number for number in _DRAWINGS if number not in (1, 8)])
COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=np.uint8)

_SHADE = np.array(
    [
        [191, 255, 255, 255, 223],
        [127, 159, 159, 159, 191],
        [127, 159, 159, 159, 191],
        [127, 159, 159, 159, 191],
        [95, 63, 63, 63, 127],
    ],
    dtype=np.uint8,
)


def _cells(drawing: str) -> list[tuple[int, int]]:
    rows = drawing.split("/")
    return [(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "#"]


# Cell corners in pixels and bounding boxes, indexed by shape number; row 0 is unused.
_CORNERS = np.zeros((20, 4, 2), dtype=np.int64)
for _number, _drawing in _DRAWINGS.items():
    _CORNERS[_number] = CELL * np.array(_cells(_drawing))
_EXTENT = _CORNERS.max(axis=1) + CELL


class Pieces(NamedTuple):
    """The factors of a batch of scenes. `position` is the bounding box's corner as row, column."""

    position: Int[np.ndarray, "b k 2"]
    shape: Int[np.ndarray, "b k"]
    colour: UInt8[np.ndarray, "b k 3"]


def render(pieces: Pieces) -> tuple[UInt8[np.ndarray, "b 35 35 3"], UInt8[np.ndarray, "b 35 35"]]:
    """Images and labels of pieces that lie inside the canvas; label k is piece k, counted from 1."""
    count, number = pieces.shape.shape
    corners = pieces.position[:, :, None, :] + _CORNERS[pieces.shape]
    inside = np.arange(CELL)
    offsets = inside[:, None] * CANVAS + inside[None, :]
    scene = np.arange(count)[:, None, None] * CANVAS**2
    pixels = (scene + corners[..., 0] * CANVAS + corners[..., 1])[..., None, None] + offsets

    labels = np.zeros(count * CANVAS**2, dtype=np.uint8)
    labels[pixels] = np.arange(1, number + 1, dtype=np.uint8)[None, :, None, None, None]
    shade = np.zeros(count * CANVAS**2, dtype=np.uint8)
    shade[pixels] = _SHADE
    shape = (count, CANVAS, CANVAS)
    labels, shade = labels.reshape(shape), shade.reshape(shape)

    palette = np.zeros((count, number + 1, 3), dtype=np.uint8)
    palette[:, 1:] = pieces.colour
    tint = palette.reshape(-1, 3)[labels + np.arange(count)[:, None, None] * (number + 1)]
    return tint * shade[..., None], labels


def _separate(corners: Int[np.ndarray, "*b k 4 2"]) -> Bool[np.ndarray, "*b"]:
    """Whether no two pieces share a pixel; touching is allowed."""
    first, second = np.triu_indices(corners.shape[-3], k=1)
    apart = np.abs(corners[..., first, :, None, :] - corners[..., second, None, :, :]) >= CELL
    return np.asarray(apart.any(axis=-1).all(axis=(-3, -2, -1)))


def draw(seed: int, indices: Int[np.ndarray, " b"]) -> Pieces:
    """Three pieces per scene, uniform over the placements without overlap: other scenes are redrawn."""
    count = len(indices)
    position = np.zeros((count, PIECES, 2), dtype=np.int64)
    shape = np.zeros((count, PIECES), dtype=np.int64)
    first = uniforms(seed, indices, first=0, draws=PIECES)
    colour = COLOURS[pick(first, len(COLOURS))]

    unfinished, start = np.arange(count), PIECES
    while len(unfinished):
        u = uniforms(seed, indices[unfinished], first=start, draws=_TRIES * 3 * PIECES)
        u = u.reshape(-1, _TRIES, PIECES, 3)
        tried = OCCURRING[pick(u[..., 0], len(OCCURRING))]
        corner = pick(u[..., 1:], CANVAS + 1 - _EXTENT[tried])
        fits = _separate(corner[..., None, :] + _CORNERS[tried])
        good, first_good = fits.any(axis=1), fits.argmax(axis=1)
        position[unfinished[good]] = corner[good, first_good[good]]
        shape[unfinished[good]] = tried[good, first_good[good]]
        unfinished, start = unfinished[~good], start + _TRIES * 3 * PIECES
    return Pieces(position, shape, colour)


class Tetrominoes:
    """The generator; `size` 32 is the protocol's centre crop, 35 the published canvas."""

    background_labels = 1
    has_labels = True

    def __init__(self, count: int, seed: int, size: int = 32) -> None:
        if size not in SIZES:
            raise ValueError(f"tetrominoes come in sizes {SIZES}, not {size}")
        if count < 0:
            raise ValueError(f"count must be at least 0, not {count}")
        self.count, self.seed, self.size = count, seed, size

    @property
    def recipe(self) -> dict[str, Any]:
        return {"name": "tetrominoes", "version": 1, "seed": self.seed, "size": self.size}

    def __len__(self) -> int:
        return self.count

    def gather(self, indices: Int[np.ndarray, " b"]) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]:
        """Images and labels of many samples at once."""
        return self._crop(*render(draw(self.seed, indices)))

    def many(self, indices: Int[np.ndarray, " b"]) -> list[Sample]:
        """Whole samples, factors included."""
        pieces = draw(self.seed, indices)
        images, labels = self._crop(*render(pieces))
        position = (pieces.position - self._margin).astype(np.int32)
        counts = (labels.reshape(len(labels), -1, 1) == np.arange(1, PIECES + 1)).sum(axis=1)
        return [
            Sample(
                images[i],
                labels[i],
                {
                    "position": position[i],
                    "shape": pieces.shape[i].astype(np.int32),
                    "colour": 255 * pieces.colour[i],
                    "visibility": counts[i].astype(np.int32),
                },
            )
            for i in range(len(indices))
        ]

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.count:
            raise IndexError(f"sample {index} of {self.count}")
        return self.many(np.array([index]))[0]

    @property
    def _margin(self) -> int:
        # 32 leaves 1.5 px a side; the published pipelines drop 2 first, as torchvision's centre crop does.
        return round((CANVAS - self.size) / 2)

    def _crop(
        self, images: UInt8[np.ndarray, "b 35 35 3"], labels: UInt8[np.ndarray, "b 35 35"]
    ) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]:
        kept = slice(self._margin, self._margin + self.size)
        return np.ascontiguousarray(images[:, kept, kept]), np.ascontiguousarray(labels[:, kept, kept])
