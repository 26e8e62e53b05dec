"""The table that CLEVR and CLEVRTex share: camera, lamps, ground, and the rules by which objects are placed.

The image is the protocol's crop of a CLEVR frame: 192 of 240 × 320 pixels, taken by a lens of 35 mm on a
sensor of 32 mm from about ten units away.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from cocanet.data.generators import meshes
from cocanet.data.generators.meshes import Mesh
from cocanet.data.generators.render import Body, Camera, Lamp
from cocanet.data.generators.rendered import RenderedScenes, Scene

MIN_OBJECTS = 3
MAX_OBJECTS = 10
CROP_SIDE = 192
# Of the published frame.
MIN_PIXELS = 200
# Half the crop's width over half the frame's, times the tangent of half the lens's field of view.
TANGENT = 96 / 160 * 16 / 35
CAMERA = np.array([7.3, -6.8, 5.0])
TARGET = np.array([0.0, 0.0, 0.15])
CAMERA_JITTER = 0.5
LAMP_JITTER = 1.0
EXPOSURES = 4
GROUND_HALF = 30.0

# Position, brightness and size (the spread of the points it shines from) of the key, fill and back lamps.
LAMPS = (
    (np.array([6.0, -2.8, 6.2]), 0.21, 0.55),
    (np.array([-4.7, -4.2, 6.0]), 0.13, 0.8),
    (np.array([-1.2, 3.6, 7.0]), 0.14, 0.8),
)
AMBIENT = 0.5

# CLEVR's rules: range of x and y, distance between objects, and margin along the camera's axes.
REACH = 3.0
MIN_DISTANCE = 0.25
MARGIN = 0.4
TRIES_PER_OBJECT = 500
# Centres stay this part of the image's side away from its border, so that few objects are cut to slivers.
BORDER = 0.02


class TabletopScenes(RenderedScenes):
    """Scenes of 3 to `max_objects` objects on a table."""

    objects = (MIN_OBJECTS, MAX_OBJECTS)
    least_shown = (MIN_PIXELS, CROP_SIDE)
    shapes: tuple[str, ...]
    materials: tuple[str, ...]
    sizes: tuple[float, ...]
    cube: tuple[float, float]
    """Half-side of a cube and radius of the disc it occupies, relative to its size; both are 1 for other shapes."""

    def __init__(self, count: int, seed: int, size: int = 128, max_objects: int = MAX_OBJECTS) -> None:
        super().__init__(count, seed, size, max_objects)

    @abstractmethod
    def _sample_colours(self, rng: np.random.Generator, count: int) -> Shaped[np.ndarray, "n *c"]:
        """The factor `colour` of every object."""

    @abstractmethod
    def _sample_ground(self, rng: np.random.Generator) -> Body: ...

    @abstractmethod
    def _body(self, row: Mapping[str, Any], number: int) -> Body:
        """Object number `number` of a scene from its factors."""

    def _arrange(self, rng: np.random.Generator, count: int) -> Scene | None:
        camera = sample_camera(rng)
        objects = self._sample_objects(rng, count, camera)
        if objects is None:
            return None
        bodies = [self._sample_ground(rng), *(self._body(row, k) for k, row in enumerate(objects))]
        return Scene(camera, bodies, objects)

    def _sample_objects(self, rng: np.random.Generator, count: int, camera: Camera) -> list[dict[str, Any]] | None:
        shapes = rng.integers(len(self.shapes), size=count)
        sizes = np.array(self.sizes)[rng.integers(len(self.sizes), size=count)]
        materials = rng.integers(len(self.materials), size=count)
        colours = self._sample_colours(rng, count)
        rotations = rng.uniform(0, 2 * np.pi, count)
        is_cube = shapes == self.shapes.index("cube")
        halves, radii = (sizes * np.where(is_cube, factor, 1.0) for factor in self.cube)
        positions = place(rng, radii.tolist(), halves.tolist(), camera)
        if positions is None:
            return None
        return [
            {
                "position": np.array([*positions[k], halves[k]]),
                "shape": int(shapes[k]),
                "size": float(halves[k]),
                "colour": colours[k],
                "material": int(materials[k]),
                "rotation": float(rotations[k]),
            }
            for k in range(count)
        ]


def sample_camera(rng: np.random.Generator) -> Camera:
    """CLEVR's camera, moved by up to half a unit along each axis and still directed at the middle."""
    position = CAMERA + rng.uniform(-CAMERA_JITTER, CAMERA_JITTER, 3)
    return Camera(position=position, forward=TARGET - position, tangent=TANGENT, near=1.0, far=60.0)


def sample_lamps(rng: np.random.Generator, brighter: float = 1.0, ambient: float = AMBIENT) -> list[list[Lamp]]:
    """The lamps of every exposure: each at its jittered place, shining from another point of its surface."""
    centres = [position + rng.uniform(-LAMP_JITTER, LAMP_JITTER, 3) for position, _, _ in LAMPS]
    exposures = []
    phase = rng.uniform(0, 2 * np.pi, len(LAMPS))
    for k in range(EXPOSURES):
        lamps = [Lamp(np.array([0.0, 0.0, 9.0]), np.array([0.0, 0.0, -1.0]), diffuse=0.02, ambient=ambient)]
        for centre, angle, (_, brightness, spread) in zip(centres, phase, LAMPS, strict=True):
            turn = angle + 2 * np.pi * k / EXPOSURES
            point = centre + spread * np.array([np.cos(turn), np.sin(turn), 0.3 * np.sin(2 * turn)])
            lamps.append(
                Lamp(
                    position=point,
                    direction=-point,
                    diffuse=brighter * brightness,
                    specular=brightness,
                    shadow=True,
                    cutoff=50.0,
                    exponent=4.0,
                )
            )
        exposures.append(lamps)
    return exposures


def casters() -> dict[str, Mesh]:
    """Coarse meshes that cast the shadows of both sets' shapes."""
    return {
        "coarse cube": meshes.box(2),
        "coarse sphere": meshes.sphere(16),
        "coarse cylinder": meshes.cylinder(18, stacks=0),
        "coarse head": meshes.head(16),
    }


class Spots(NamedTuple):
    """Positions on the ground and the radii of the discs occupied there."""

    positions: Float[np.ndarray, "n 2"]
    radii: Float[np.ndarray, " n"]


def place(
    rng: np.random.Generator, radii: Sequence[float], heights: Sequence[float], camera: Camera
) -> Float[np.ndarray, "n 2"] | None:
    """A position on the ground for every radius, or None when one of them does not fit."""
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


def ground_axes(camera: Camera) -> Float[np.ndarray, "2 2"]:
    """Rows: the camera's right and forward directions, projected onto the ground."""
    right, _, forward = camera.axes
    flat = np.stack([right[:2], forward[:2]])
    axes: Float[np.ndarray, "2 2"] = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    return axes


def apart(
    candidates: Float[np.ndarray, "t 2"], radius: float, placed: Spots, axes: Float[np.ndarray, "2 2"]
) -> Bool[np.ndarray, " t"]:
    """Which candidates keep the minimum distance to all placed objects, and the margin along both axes."""
    offsets = candidates[:, None] - placed.positions
    distant = np.hypot(offsets[..., 0], offsets[..., 1]) >= MIN_DISTANCE + radius + placed.radii
    along = np.abs(offsets @ axes.T) >= MARGIN
    good: Bool[np.ndarray, " t"] = (distant & along[..., 0] & along[..., 1]).all(axis=-1)
    return good


def in_view(candidates: Float[np.ndarray, "t 2"], height: float, camera: Camera) -> Bool[np.ndarray, " t"]:
    """Which centres at that height project into the image, clear of its border."""
    points = np.concatenate([candidates, np.full((len(candidates), 1), height)], axis=1)
    across = camera.project(points, 1)[:, :2]
    good: Bool[np.ndarray, " t"] = np.all((across > BORDER) & (across < 1 - BORDER), axis=-1)
    return good
