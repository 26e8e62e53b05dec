"""Where objects may stand on a table: CLEVR's rules (minimum distance, margin along the camera's axes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from cocanet.data.scenes.render import Camera

REACH = 3.0
MIN_DISTANCE = 0.25
MARGIN = 0.4
TRIES_PER_OBJECT = 500
# Centres keep this part of the picture's side away from its border, so that few objects are cut to slivers.
BORDER = 0.02


class Spots(NamedTuple):
    """Places on the ground and the radii of the discs occupied there."""

    positions: Float[np.ndarray, "n 2"]
    radii: Float[np.ndarray, " n"]


def ground_axes(camera: Camera) -> Float[np.ndarray, "2 2"]:
    """Rows: the camera's right and forward directions laid onto the ground."""
    right, _, forward = camera.axes
    flat = np.stack([right[:2], forward[:2]])
    axes: Float[np.ndarray, "2 2"] = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    return axes


def apart(
    candidates: Float[np.ndarray, "t 2"], radius: float, placed: Spots, axes: Float[np.ndarray, "2 2"]
) -> Bool[np.ndarray, " t"]:
    """Which candidates keep the minimum distance to all that is placed, and the margin along both axes."""
    offsets = candidates[:, None] - placed.positions
    distant = np.hypot(offsets[..., 0], offsets[..., 1]) >= MIN_DISTANCE + radius + placed.radii
    along = np.abs(offsets @ axes.T) >= MARGIN
    good: Bool[np.ndarray, " t"] = (distant & along[..., 0] & along[..., 1]).all(axis=-1)
    return good


def in_view(candidates: Float[np.ndarray, "t 2"], height: float, camera: Camera) -> Bool[np.ndarray, " t"]:
    """Which centres at that height project into the picture, clear of its border."""
    points = np.concatenate([candidates, np.full((len(candidates), 1), height)], axis=1)
    across = camera.project(points, 1)[:, :2]
    good: Bool[np.ndarray, " t"] = np.all((across > BORDER) & (across < 1 - BORDER), axis=-1)
    return good


def place(
    rng: np.random.Generator, radii: Sequence[float], heights: Sequence[float], camera: Camera
) -> Float[np.ndarray, "n 2"] | None:
    """A place on the ground for every radius, or None when one of them finds none."""
    axes = ground_axes(camera)
    placed = Spots(np.zeros((0, 2)), np.zeros(0))
    for radius, height in zip(radii, heights, strict=True):
        candidates = rng.uniform(-REACH, REACH, (TRIES_PER_OBJECT, 2))
        good = in_view(candidates, height, camera) & apart(candidates, radius, placed, axes)
        if not good.any():
            return None
        chosen = candidates[np.argmax(good)]
        placed = Spots(np.vstack([placed.positions, chosen]), np.append(placed.radii, radius))
    return placed.positions
