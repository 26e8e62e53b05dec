"""ObjectsRoom: one to three coloured objects in a square room under a plain sky (Kabra et al. 2019).

The camera stands inside, near one corner. Depending on its yaw it sees both walls of the opposite corner, or one.
Background labels: 0 sky, 1 floor, 2 left wall, 3 right wall. A single visible wall has label 2; label 3 is then unused.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.data.generators import meshes
from cocanet.data.generators.render import Bank, Body, Camera, Lamp
from cocanet.data.generators.rendered import RenderedScenes, Scene, turn
from cocanet.data.generators.textures import make_texture, to_bytes
from cocanet.data.sample import Sample

SHAPES = ("box", "sphere", "cylinder", "capsule", "cone", "icosahedron")
MAX_OBJECTS = 6
# Of 64 × 64 pixels; a published sample shows an object of three.
MIN_PIXELS = 3
ROOM_HALF = 3.5
WALL_HEIGHT = 2.6
TEXELS = 64
# Floor and walls go on behind the camera, where no other wall is drawn, for this many lengths of the room.
_STRETCH = 2
# How far (radians) the camera may turn away from the far corner, which leaves the image at 0.53.
MAX_YAW = 0.7
# Positions tried for an object before the whole scene is drawn again.
SPOTS = 32
EXPOSURES = 3
AMBIENT = 0.55
# Faint grey patterns, multiplied by the room's random colours.
FLOORS = ("hexagons", "tiles", "cracked", "weave")
WALLS = ("plaster", "bricks", "fur", "pebbles")
_TEXTURE_SEED = 7
BACKGROUND = 4
LEFT_WALL, RIGHT_WALL = 2, 3


def _grey(kind: str, depth: float) -> UInt8[np.ndarray, "s s 3"]:
    """A texture without colour of its own, between 1 - depth and 1."""
    texture = make_texture(kind, np.random.default_rng([_TEXTURE_SEED, len(kind)]), TEXELS)
    value = (texture.height[..., None] + 1) / 2
    return to_bytes(np.repeat(1 - depth + depth * value, 3, axis=-1))


class ObjectsRoom(RenderedScenes):
    """Scenes of 1 to `max_objects` objects; the published training set has 3, its largest test set 6."""

    name = "objects-room"
    version = 2
    background_labels = BACKGROUND
    objects = (1, MAX_OBJECTS)
    least_shown = (MIN_PIXELS, 64)
    codes: ClassVar = {"shape": SHAPES, "background": ("sky", "floor", "left wall", "right wall")}

    def __init__(self, count: int, seed: int, size: int = 64, max_objects: int = 3) -> None:
        super().__init__(count, seed, size, max_objects)

    @staticmethod
    def _bank() -> Bank:
        flat = meshes.plane(16)
        return Bank(
            meshes={
                "floor": flat._replace(texcoords=flat.texcoords * np.float32(3 * _STRETCH)),
                "wall": flat._replace(texcoords=flat.texcoords * np.array([3 * _STRETCH, 1], np.float32)),
                # Its normals point down, away from all lamps: the sky only emits light.
                "sky": flat._replace(normals=np.tile(np.array([0, -1, 0], np.float32), (len(flat.normals), 1))),
                "box": meshes.box(6),
                "sphere": meshes.sphere(24),
                "cylinder": meshes.cylinder(24, bevel=0.02),
                "capsule": meshes.capsule(20),
                "cone": meshes.cone(20),
                "icosahedron": meshes.icosahedron(),
            },
            textures={
                **{f"floor {kind}": _grey(kind, 0.35) for kind in FLOORS},
                **{f"wall {kind}": _grey(kind, 0.18) for kind in WALLS},
            },
            shadow_pixels=512,
            shadow_extent=5.5,
        )

    def _arrange(self, rng: np.random.Generator, count: int) -> Scene | None:
        camera = _sample_camera(rng)
        objects = sample_objects(rng, count, camera)
        if objects is None:
            return None
        bodies = [*_sample_background(rng, camera), *(_body(row, k) for k, row in enumerate(objects))]
        return Scene(camera, bodies, objects)

    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        sample = super()._attempt(rng, count)
        if sample is not None and not (sample.labels == LEFT_WALL).any():
            sample.labels[sample.labels == RIGHT_WALL] = LEFT_WALL
        return sample

    def _sample_lamps(self, rng: np.random.Generator) -> list[list[Lamp]]:
        """One sun that casts slightly soft shadows, and ambient light."""
        angle = rng.uniform(0, 2 * np.pi)
        sun = np.array([1.6 * np.cos(angle), 1.6 * np.sin(angle), 6.0])
        fill = Lamp(np.array([0, 0, 6.0]), np.array([0.5, 0.8, -0.6]), diffuse=0.3, ambient=AMBIENT)
        exposures = []
        for k in range(EXPOSURES):
            point = sun + 0.15 * np.array([np.cos(2.1 * k), np.sin(2.1 * k), 0.0])
            exposures.append([fill, Lamp(point, -point, diffuse=0.45, specular=0.3, shadow=True)])
        return exposures


def random_colour(rng: np.random.Generator) -> Float[np.ndarray, " 3"]:
    """Any hue, saturated and bright."""
    return np.array(colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.6, 1.0), rng.uniform(0.7, 1.0)))


def _sky_colour(rng: np.random.Generator) -> Float[np.ndarray, " 3"]:
    return np.array(colorsys.hsv_to_rgb(rng.uniform(0.45, 0.68), rng.uniform(0.1, 0.5), rng.uniform(0.8, 1.0)))


def sample_objects(rng: np.random.Generator, count: int, camera: Camera) -> list[dict[str, Any]] | None:
    """Factors of `count` objects on the floor, clear of each other, camera and walls; None if they do not fit."""
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        half = rng.uniform(0.28, 0.52) * np.array([1.0, 1.0, rng.uniform(0.8, 1.5)])
        shape = int(rng.integers(len(SHAPES)))
        if SHAPES[shape] in ("sphere", "icosahedron"):
            half[2] = half[0]
        if SHAPES[shape] == "capsule":
            half = half[0] * np.array([1.2, 1.2, 1.2])
        others = np.array([row["position"][:2] for row in rows]).reshape(-1, 2)
        spot = _sample_spot(rng, half[2], others, camera)
        if spot is None:
            return None
        rows.append(
            {
                "position": np.array([*spot, half[2]]),
                "shape": shape,
                "size": half,
                "colour": random_colour(rng),
                "material": 0,
                "rotation": float(rng.uniform(0, 2 * np.pi)),
            }
        )
    return rows


def _sample_spot(
    rng: np.random.Generator, height: float, others: Float[np.ndarray, "n 2"], camera: Camera
) -> Float[np.ndarray, " 2"] | None:
    """A position on the floor in view of the camera and clear of the other objects, or None."""
    spots = rng.uniform(-ROOM_HALF + 0.8, ROOM_HALF - 0.8, (SPOTS, 2))
    across, _, depth = camera.project(np.column_stack([spots, np.full(SPOTS, height)]), 1).T
    clear = np.linalg.norm(spots[:, None] - others, axis=-1).min(axis=1, initial=np.inf) >= 1.3
    good = clear & (depth > 1.6) & (across > -0.08) & (across < 1.08)
    return spots[np.argmax(good)] if good.any() else None


def _body(row: Mapping[str, Any], number: int) -> Body:
    return Body(
        mesh=SHAPES[row["shape"]],
        label=BACKGROUND + number,
        position=row["position"],
        rotation=turn(row["rotation"]),
        scale=row["size"],
        colour=row["colour"],
        specular=0.3,
        shininess=0.3,
    )


def _sample_camera(rng: np.random.Generator) -> Camera:
    """Eye level near one corner, directed at the opposite corner or at a wall beside it."""
    corner = np.array([0.5 - ROOM_HALF, 0.5 - ROOM_HALF, 0.95])
    position = corner + rng.uniform(0, 1, 3) * [1.3, 1.3, 0.45]
    heading = np.pi / 4 + rng.uniform(-MAX_YAW, MAX_YAW)
    forward = np.array([np.cos(heading), np.sin(heading), rng.uniform(-0.16, -0.06)])
    return Camera(position=position, forward=forward, tangent=0.58, near=0.1, far=30.0)


def _sample_background(rng: np.random.Generator, camera: Camera) -> list[Body]:
    """Sky (a plane across the view), floor and the two walls that meet in the far corner."""
    wall_colour, wall = random_colour(rng), f"wall {WALLS[rng.integers(len(WALLS))]}"
    half, rise, middle = ROOM_HALF, WALL_HEIGHT / 2, ROOM_HALF * (1 - _STRETCH)
    # A wall's mesh lies in its own x and y; the columns say where these and its normal point in the room.
    left = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    right = turn(-np.pi / 2) @ left
    scale = np.array([_STRETCH * half, rise, 1.0])
    return [
        Body(
            mesh="sky",
            label=0,
            position=camera.position + 18 * camera.forward,
            rotation=turn(float(np.arctan2(camera.forward[1], camera.forward[0])) - np.pi / 2) @ left,
            scale=np.full(3, 40.0),
            colour=_sky_colour(rng),
            emission=1 - AMBIENT,
            shadow=False,
        ),
        Body(
            "floor",
            1,
            np.array([middle, middle, 0.0]),
            scale=np.array([_STRETCH * half, _STRETCH * half, 1.0]),
            colour=random_colour(rng),
            texture=f"floor {FLOORS[rng.integers(len(FLOORS))]}",
            shadow=False,
        ),
        Body("wall", LEFT_WALL, np.array([middle, half, rise]), left, scale, wall_colour, wall, shadow=False),
        Body("wall", RIGHT_WALL, np.array([half, middle, rise]), right, scale, wall_colour, wall, shadow=False),
    ]
