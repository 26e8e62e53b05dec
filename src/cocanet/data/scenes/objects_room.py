"""ObjectsRoom: one to three coloured objects in a square room under a plain sky (Kabra et al. 2019).

The camera stands inside and looks towards the far corner, so that two walls are seen. Background labels: 0
sky, 1 floor, 2 the wall to the left of the corner, 3 the wall to its right.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from cocanet.data.sample import Sample
from cocanet.data.scenes import meshes
from cocanet.data.scenes.render import Bank, Camera, Lamp, Thing, stage
from cocanet.data.scenes.rendered import RenderedScenes, columns, turn, visible_pixels
from cocanet.data.scenes.textures import make_texture, to_bytes

SHAPES = ("box", "sphere", "cylinder", "capsule", "cone", "icosahedron")
MAX_OBJECTS = 6
# Nothing is published; an object of this many of 64 × 64 pixels can still be told from noise.
MIN_PIXELS = 20
ROOM_HALF = 3.5
WALL_HEIGHT = 2.6
TEXELS = 64
EXPOSURES = 3
AMBIENT = 0.45
# Faint grey patterns, multiplied by the room's random colours.
FLOORS = ("hexagons", "tiles", "cracked", "weave")
WALLS = ("plaster", "bricks", "fur", "pebbles")
_TEXTURE_SEED = 7
BACKGROUND = 4


def _grey(kind: str, depth: float) -> UInt8[np.ndarray, "s s 3"]:
    """A texture without colour of its own, between 1 - depth and 1."""
    texture = make_texture(kind, np.random.default_rng([_TEXTURE_SEED, len(kind)]), TEXELS)
    value = (texture.height[..., None] + 1) / 2
    return to_bytes(np.repeat(1 - depth + depth * value, 3, axis=-1))


def _bank() -> Bank:
    flat = meshes.plane(16)
    return Bank(
        meshes={
            "floor": flat._replace(texcoords=flat.texcoords * np.float32(3)),
            "wall": flat._replace(texcoords=flat.texcoords * np.array([3, 1], np.float32)),
            # Its normals point down, where no lamp is: the sky only shines by itself.
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


class ObjectsRoom(RenderedScenes):
    """Scenes of 1 to `max_objects` objects; the published training set has 3, its largest test set 6."""

    name = "objects-room"
    background_labels = BACKGROUND
    objects = (1, MAX_OBJECTS)
    least_shown = (MIN_PIXELS, 64)
    codes: ClassVar = {"shape": SHAPES, "background": ("sky", "floor", "left wall", "right wall")}

    def __init__(self, count: int, seed: int, size: int = 64, max_objects: int = 3) -> None:
        super().__init__(count, seed, size, max_objects)

    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        camera = _sample_camera(rng)
        objects = sample_objects(rng, count, camera)
        if objects is None:
            return None
        things = [*_sample_room(rng), *(_thing(row, k) for k, row in enumerate(objects))]
        renderer = stage(self.name, _bank, self.size)
        labels = renderer.labels(things, camera)
        visible = visible_pixels(labels, 0, BACKGROUND + count)
        if visible.min() < self.min_pixels:
            return None
        image = renderer.image(things, _sample_lamps(rng), camera)
        return Sample(image, labels, {**columns(objects), "visibility": visible[BACKGROUND:]})


def random_colour(rng: np.random.Generator) -> Float[np.ndarray, " 3"]:
    """Any hue, strong and bright."""
    return np.array(colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.6, 1.0), rng.uniform(0.7, 1.0)))


def _sky_colour(rng: np.random.Generator) -> Float[np.ndarray, " 3"]:
    return np.array(colorsys.hsv_to_rgb(rng.uniform(0.45, 0.68), rng.uniform(0.1, 0.5), rng.uniform(0.8, 1.0)))


def sample_objects(rng: np.random.Generator, count: int, camera: Camera) -> list[dict[str, Any]] | None:
    """Factors of `count` objects on the floor, apart from each other and from camera and walls, or None."""
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        half = rng.uniform(0.28, 0.52) * np.array([1.0, 1.0, rng.uniform(0.8, 1.5)])
        shape = int(rng.integers(len(SHAPES)))
        if SHAPES[shape] in ("sphere", "icosahedron"):
            half[2] = half[0]
        if SHAPES[shape] == "capsule":
            half = half[0] * np.array([1.2, 1.2, 1.2])
        spot = rng.uniform(-ROOM_HALF + 0.8, ROOM_HALF - 0.8, 2)
        others = np.array([row["position"][:2] for row in rows]).reshape(-1, 2)
        near = np.linalg.norm(others - spot, axis=1) < 1.3
        if near.any() or np.linalg.norm(spot - camera.position[:2]) < 1.8:
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


def _thing(row: Mapping[str, Any], slot: int) -> Thing:
    return Thing(
        mesh=SHAPES[row["shape"]],
        label=BACKGROUND + slot,
        position=row["position"],
        rotation=turn(row["rotation"]),
        scale=row["size"],
        colour=row["colour"],
        specular=0.3,
        shininess=0.3,
    )


def _sample_camera(rng: np.random.Generator) -> Camera:
    """Eye level near one corner, looking at the opposite one with some play."""
    corner = np.array([0.5 - ROOM_HALF, 0.5 - ROOM_HALF, 0.95])
    position = corner + rng.uniform(0, 1, 3) * [1.3, 1.3, 0.45]
    heading = np.pi / 4 + rng.uniform(-0.3, 0.3)
    forward = np.array([np.cos(heading), np.sin(heading), rng.uniform(-0.16, -0.06)])
    return Camera(position=position, forward=forward, tangent=0.58, near=0.1, far=30.0)


def _sample_room(rng: np.random.Generator) -> list[Thing]:
    """Sky, floor and the two walls beyond the far corner."""
    wall_colour, wall = random_colour(rng), f"wall {WALLS[rng.integers(len(WALLS))]}"
    half, rise = ROOM_HALF, WALL_HEIGHT / 2
    # A wall's mesh lies in its own x and y; the columns say where these and its normal point in the room.
    left = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    right = turn(-np.pi / 2) @ left
    scale = np.array([half, rise, 1.0])
    return [
        Thing(
            mesh="sky",
            label=0,
            position=np.array([9.0, 9.0, 0.0]),
            rotation=turn(-np.pi / 4) @ left,
            scale=np.full(3, 40.0),
            colour=_sky_colour(rng),
            emission=1 - AMBIENT,
            shadow=False,
        ),
        Thing(
            "floor",
            1,
            np.zeros(3),
            scale=np.array([half, half, 1.0]),
            colour=random_colour(rng),
            texture=f"floor {FLOORS[rng.integers(len(FLOORS))]}",
            shadow=False,
        ),
        Thing("wall", 2, np.array([0, half, rise]), left, scale, wall_colour, wall, shadow=False),
        Thing("wall", 3, np.array([half, 0, rise]), right, scale, wall_colour, wall, shadow=False),
    ]


def _sample_lamps(rng: np.random.Generator) -> list[list[Lamp]]:
    """One sun that casts shadows, a little softened, and light from everywhere."""
    angle = rng.uniform(0, 2 * np.pi)
    sun = np.array([1.6 * np.cos(angle), 1.6 * np.sin(angle), 6.0])
    fill = Lamp(np.array([0, 0, 6.0]), np.array([0.5, 0.8, -0.6]), diffuse=0.25, ambient=AMBIENT)
    exposures = []
    for k in range(EXPOSURES):
        point = sun + 0.15 * np.array([np.cos(2.1 * k), np.sin(2.1 * k), 0.0])
        exposures.append([fill, Lamp(point, -point, diffuse=0.45, specular=0.3, shadow=True)])
    return exposures
