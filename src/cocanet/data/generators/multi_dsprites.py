"""Multi-dSprites, coloured on grey: two to five sprites that may occlude each other.

The sprites are those of dSprites: binary, sampled at pixel centres, with the sizes, orientations and positions of
its grid. The constants of the outlines were fitted to published frames.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, UInt8

from cocanet.data.generators.streams import pick, uniforms
from cocanet.data.sample import Sample

SIZE = 64
SHAPES = np.array(["square", "ellipse", "heart"])
SCALES = np.linspace(0.5, 1.0, 6)
ORIENTATIONS = np.linspace(0.0, 2 * np.pi, 40)
CENTRES = np.linspace(15.5, 47.5, 32)
MIN_OBJECTS, MAX_OBJECTS = 2, 5
MIN_VISIBLE = 1
"""Fewest visible pixels of a sprite. Published scenes guarantee none; one keeps every label in the map."""

_PATCH = 28
_SQUARE_HALF = 9.6
_ELLIPSE_AXES = (12.76, 7.22)
_HEART_HALF, _HEART_SCALE, _HEART_RISE = 9.6, 0.6625, -1.44


class Sprites(NamedTuple):
    """Sprites of many scenes in one flat list: scene, drawing order and factors of each."""

    scene: Int[np.ndarray, " s"]
    order: Int[np.ndarray, " s"]
    shape: Int[np.ndarray, " s"]
    scale: Float64[np.ndarray, " s"]
    orientation: Float64[np.ndarray, " s"]
    centre: Float64[np.ndarray, "s 2"]


class Composed(NamedTuple):
    """Labels of scenes, and each sprite's area and visible pixels (0 where there is no sprite)."""

    labels: UInt8[np.ndarray, "b 64 64"]
    area: Int[np.ndarray, "b k"]
    visible: Int[np.ndarray, "b k"]


def _in_square(u: Float64[np.ndarray, "s p p"], v: Float64[np.ndarray, "s p p"]) -> Bool[np.ndarray, "s p p"]:
    return np.asarray(np.maximum(np.abs(u), np.abs(v)) <= _SQUARE_HALF)


def _in_ellipse(u: Float64[np.ndarray, "s p p"], v: Float64[np.ndarray, "s p p"]) -> Bool[np.ndarray, "s p p"]:
    return (u / _ELLIPSE_AXES[0]) ** 2 + (v / _ELLIPSE_AXES[1]) ** 2 <= 1


def _in_heart(u: Float64[np.ndarray, "s p p"], v: Float64[np.ndarray, "s p p"]) -> Bool[np.ndarray, "s p p"]:
    """The curve (16 sin³t, 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t), which a column meets at t and π - t."""
    across = np.abs(u) / _HEART_HALF
    square = np.maximum(1 - np.cbrt(across * across), 0.0)  # cos²t
    cosine = np.sqrt(square)
    even = -5 * (2 * square - 1) - (8 * square * (square - 1) + 1)
    odd = cosine * (19 - 8 * square)
    height = (_HEART_RISE - v) / _HEART_SCALE
    return np.asarray((across <= 1) & (np.abs(height - even) <= odd))


_INSIDE = (_in_square, _in_ellipse, _in_heart)


def render(sprites: Sprites) -> tuple[Bool[np.ndarray, "s 28 28"], Int[np.ndarray, "s 2"]]:
    """Each sprite's binary mask on a patch around it, and the patch's first row and column."""
    corner = np.ceil(sprites.centre - _PATCH / 2).astype(np.int64)
    steps = np.arange(_PATCH)
    offset = (corner[:, :, None] + steps - sprites.centre[:, :, None]) / sprites.scale[:, None, None]
    down, right = offset[:, 0, :, None], offset[:, 1, None, :]
    cosine = np.cos(sprites.orientation)[:, None, None]
    sine = np.sin(sprites.orientation)[:, None, None]
    u, v = cosine * right - sine * down, sine * right + cosine * down
    masks = np.zeros(u.shape, dtype=np.bool_)
    for shape, inside in enumerate(_INSIDE):
        chosen = sprites.shape == shape
        masks[chosen] = inside(u[chosen], v[chosen])
    return masks, corner


def compose(sprites: Sprites, scenes: int, most: int) -> Composed:
    """Draw sprites in their order, later ones over earlier ones; sprite k of a scene gets label k + 1."""
    masks, corner = render(sprites)
    labels = np.zeros(scenes * SIZE * SIZE, dtype=np.uint8)
    sprite, row, column = np.nonzero(masks)
    pixel = (sprites.scene * SIZE + corner[:, 0])[sprite] + row
    pixel = pixel * SIZE + corner[sprite, 1] + column
    order = sprites.order[sprite]
    for k in range(most):
        labels[pixel[order == k]] = k + 1
    place = sprites.scene[sprite] * most + order
    area = np.bincount(place, minlength=scenes * most)
    visible = np.bincount(place[labels[pixel] == order + 1], minlength=scenes * most)
    return Composed(labels.reshape(scenes, SIZE, SIZE), area.reshape(scenes, most), visible.reshape(scenes, most))


def place(u: Float64[np.ndarray, "b k 5"], number: Int[np.ndarray, " b"]) -> Sprites:
    """The first `number` sprites of each scene, from five uniforms per sprite."""
    scene, order = np.nonzero(np.arange(u.shape[1]) < number[:, None])
    u = u[scene, order]
    return Sprites(
        scene,
        order,
        pick(u[:, 0], len(SHAPES)),
        SCALES[pick(u[:, 1], len(SCALES))],
        ORIENTATIONS[pick(u[:, 2], len(ORIENTATIONS))],
        CENTRES[pick(u[:, 3:], len(CENTRES))],
    )


def hsv_to_rgb(hsv: Float64[np.ndarray, "*n 3"]) -> Float64[np.ndarray, "*n 3"]:
    """Hue, saturation and value in [0, 1] to red, green and blue in [0, 1]."""
    hue, saturation, value = hsv[..., :1], hsv[..., 1:2], hsv[..., 2:]
    sector = (np.array([5.0, 3.0, 1.0]) + 6 * hue) % 6
    return np.asarray(value - value * saturation * np.clip(np.minimum(sector, 4 - sector), 0, 1))


class _Scenes(NamedTuple):
    number: Int[np.ndarray, " b"]
    layout: Float64[np.ndarray, "b k 5"]
    palette: UInt8[np.ndarray, "b k+1 3"]
    composed: Composed


def _draw(seed: int, indices: Int[np.ndarray, " b"], most: int) -> _Scenes:
    """Number and colours once, then layouts until every sprite is visible."""
    count, fixed, per_layout = len(indices), 2 + 3 * most, 5 * most
    head = uniforms(seed, indices, first=0, draws=fixed)
    number = MIN_OBJECTS + pick(head[:, 0], most + 1 - MIN_OBJECTS)
    hsv = head[:, 2:].reshape(count, most, 3)
    palette = np.empty((count, most + 1, 3), dtype=np.uint8)
    palette[:, 0] = pick(head[:, 1], 256)[:, None]
    palette[:, 1:] = np.rint(255 * hsv_to_rgb(hsv))

    layout = np.zeros((count, most, 5))
    composed = Composed(
        np.zeros((count, SIZE, SIZE), dtype=np.uint8),
        np.zeros((count, most), dtype=np.int64),
        np.zeros((count, most), dtype=np.int64),
    )
    unfinished, start = np.arange(count), fixed
    while len(unfinished):
        u = uniforms(seed, indices[unfinished], first=start, draws=per_layout).reshape(-1, most, 5)
        tried = compose(place(u, number[unfinished]), len(unfinished), most)
        good = ((tried.visible >= MIN_VISIBLE) | (tried.area == 0)).all(axis=1)
        layout[unfinished[good]] = u[good]
        for whole, part in zip(composed, tried, strict=True):
            whole[unfinished[good]] = part[good]
        unfinished, start = unfinished[~good], start + per_layout
    return _Scenes(number, layout, palette, composed)


def _colour(scenes: _Scenes) -> UInt8[np.ndarray, "b 64 64 3"]:
    count, colours = scenes.palette.shape[:2]
    first = (np.arange(count) * colours)[:, None, None]
    return np.asarray(scenes.palette.reshape(-1, 3)[scenes.composed.labels + first])


class MultiDSprites:
    """The generator; between two and `max_objects` sprites, each number equally likely."""

    background_labels = 1
    has_labels = True

    def __init__(self, count: int, seed: int, size: int = SIZE, max_objects: int = MAX_OBJECTS) -> None:
        if size != SIZE:
            raise ValueError(f"multi-dsprites come in size {SIZE}, not {size}")
        if not MIN_OBJECTS <= max_objects <= 2 * MAX_OBJECTS:
            allowed = f"{MIN_OBJECTS} to {2 * MAX_OBJECTS}"
            raise ValueError(f"multi-dsprites take max_objects of {allowed}, not {max_objects}")
        self.count, self.seed, self.size, self.max_objects = count, seed, size, max_objects

    @property
    def recipe(self) -> dict[str, Any]:
        return {
            "name": "multi-dsprites",
            "version": 2,
            "seed": self.seed,
            "size": self.size,
            "max_objects": self.max_objects,
        }

    def __len__(self) -> int:
        return self.count

    def gather(
        self, indices: Int[np.ndarray, " b"]
    ) -> tuple[UInt8[np.ndarray, "b 64 64 3"], UInt8[np.ndarray, "b 64 64"]]:
        """Images and labels of many samples at once."""
        scenes = _draw(self.seed, indices, self.max_objects)
        return _colour(scenes), scenes.composed.labels

    def many(self, indices: Int[np.ndarray, " b"]) -> list[Sample]:
        """Whole samples, factors included."""
        scenes = _draw(self.seed, indices, self.max_objects)
        images = _colour(scenes)
        ends = np.cumsum(scenes.number)
        sprites = place(scenes.layout, scenes.number)
        composed = scenes.composed
        factors = {
            "position": sprites.centre.astype(np.float32),
            "shape": SHAPES[sprites.shape],
            "size": sprites.scale.astype(np.float32),
            "orientation": sprites.orientation.astype(np.float32),
            "colour": scenes.palette[sprites.scene, sprites.order + 1],
            "visibility": composed.visible[sprites.scene, sprites.order].astype(np.int32),
        }
        return [
            Sample(images[i], composed.labels[i], {k: v[end - number : end] for k, v in factors.items()})
            for i, (number, end) in enumerate(zip(scenes.number, ends, strict=True))
        ]

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.count:
            raise IndexError(f"sample {index} of {self.count}")
        return self.many(np.array([index]))[0]
