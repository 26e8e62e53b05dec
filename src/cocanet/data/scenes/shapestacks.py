"""ShapeStacks: a tower of two to six blocks before two tiled walls (Groth et al. 2018).

Sizes and colours, the turned and shifted blocks, six floors and six walls, five lights of which one casts
the shadow, and sixteen cameras follow the published recipe. As there, some towers could stand and some are
about to fall.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8

from cocanet.data.sample import Sample
from cocanet.data.scenes import meshes
from cocanet.data.scenes.noise import coordinates, joints
from cocanet.data.scenes.render import Bank, Camera, Lamp, Thing, stage
from cocanet.data.scenes.rendered import RenderedScenes, columns, turn, visible_pixels
from cocanet.data.scenes.textures import make_texture, to_bytes

SHAPES = ("cuboid", "cylinder", "sphere")
COLOURS = {
    "red": (1, 0, 0),
    "green": (0, 1, 0),
    "blue": (0, 0, 1),
    "cyan": (0, 1, 1),
    "magenta": (1, 0, 1),
    "yellow": (1, 1, 0),
}
MIN_BLOCKS = 2
MAX_BLOCKS = 6
# Nothing is published; a block of fewer of 64 × 64 pixels is hidden by its neighbours.
MIN_PIXELS = 12
# Width, depth and height of a block, and how far (in half-widths) it may sit off the block below.
EXTENT = (0.5, 1.0)
MAX_OFFSET = 0.5
# How often a block inside the tower is round, so that what it carries has nothing flat to stand on.
ROUND_INSIDE = 0.2
ROOMS = 6
TEXELS = 256
TILES = 4
EXPOSURES = 3
_WALL_DISTANCE = 7.0
_ROOM_HALF = 16.0
_TILE_KINDS = ("plaster", "marble", "terrazzo", "wood", "rust", "leather", "planks", "cracked")
_TEXTURE_SEED = 17
_PALETTE = np.array(list(COLOURS.values()), dtype=np.float64)
# Azimuth (degrees; the walls are behind 225°) and height of the cameras.
CAMERAS = tuple((azimuth, height) for height in (3.2, 5.2) for azimuth in range(10, 90, 10))


def _mosaic(rng: np.random.Generator) -> UInt8[np.ndarray, "s s 3"]:
    """Square tiles of four materials, dark joints between them."""
    kinds = rng.choice(_TILE_KINDS, 4, replace=False)
    side = TEXELS // TILES
    materials = [make_texture(str(kind), rng, TEXELS).colour for kind in kinds]
    order = (np.arange(TILES)[:, None] * 2 + np.arange(TILES) + rng.integers(4)) % 4
    chosen = np.kron(order, np.ones((side, side), np.int64))
    colour = np.choose(chosen[..., None], materials)
    # Stone rather than paint: half of the colour is taken out.
    colour = 0.5 * colour + 0.5 * colour.mean(axis=-1, keepdims=True)
    u, v = coordinates(TEXELS)
    gap = joints(u * TILES, 0.035) * joints(v * TILES, 0.035)
    return to_bytes(1.15 * colour * (0.15 + 0.85 * gap[..., None]))


def _bank() -> Bank:
    flat = meshes.plane(24)
    repeats = np.float32(2 * _ROOM_HALF / 14)
    streams = [np.random.default_rng([_TEXTURE_SEED, k]) for k in range(2 * ROOMS)]
    return Bank(
        meshes={
            "plane": flat._replace(texcoords=flat.texcoords * repeats),
            "cuboid": meshes.box(6),
            "cylinder": meshes.cylinder(28, bevel=0.01),
            "sphere": meshes.sphere(24),
        },
        textures={f"room{k}": _mosaic(stream) for k, stream in enumerate(streams)},
        shadow_pixels=512,
        shadow_extent=7.0,
    )


class ShapeStacks(RenderedScenes):
    """Towers of 2 to `max_objects` blocks."""

    name = "shapestacks"
    objects = (MIN_BLOCKS, MAX_BLOCKS)
    least_shown = (MIN_PIXELS, 64)
    codes: ClassVar = {"shape": SHAPES, "colour": tuple(COLOURS)}

    def __init__(self, count: int, seed: int, size: int = 64, max_objects: int = MAX_BLOCKS) -> None:
        super().__init__(count, seed, size, max_objects)

    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        camera = _sample_camera(rng)
        blocks = sample_tower(rng, count)
        things = [*_sample_room(rng), *(_thing(row, k) for k, row in enumerate(blocks))]
        renderer = stage(self.name, _bank, self.size)
        labels = renderer.labels(things, camera)
        visible = visible_pixels(labels, 1, count)
        if visible.min() < self.min_pixels:
            return None
        image = renderer.image(things, _sample_lamps(rng), camera)
        return Sample(image, labels, {**columns(blocks), "visibility": visible})


def _sample_block(rng: np.random.Generator, round_top: bool) -> dict[str, Any]:
    """A block of random shape; `round_top` asks for a sphere or a lying cylinder, else its top is flat."""
    size = rng.uniform(*EXTENT, 3) / 2
    if round_top:
        shape, lying = (2, 0) if rng.random() < 0.5 else (1, 1)
    else:
        shape, lying = int(rng.integers(2)), 0
    if SHAPES[shape] == "sphere":
        size[:] = size[0]
    if SHAPES[shape] == "cylinder":
        size[1] = size[0]
    return {
        "shape": shape,
        "size": size,
        "lying": lying,
        "colour": int(rng.integers(len(_PALETTE))),
        "material": 0,
        "rotation": float(rng.uniform(0, 2 * np.pi)),
    }


def half_height(row: Mapping[str, Any]) -> float:
    """Half of how tall a block stands: a lying cylinder is as tall as it is thick."""
    return float(row["size"][0] if row["lying"] else row["size"][2])


def sample_tower(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Blocks from the ground up, each touching the one below; round ones are on top, seldom inside."""
    odd_one = int(rng.integers(count)) if rng.random() < ROUND_INSIDE else -1
    rows: list[dict[str, Any]] = []
    centre, height = np.zeros(2), 0.0
    for level in range(count):
        top = level == count - 1
        row = _sample_block(rng, round_top=level == odd_one or (top and rng.random() < 0.5))
        if rows:
            # Half the smaller half-width keeps a point of contact whatever the shapes and angles are.
            support = min(row["size"].min(), rows[-1]["size"].min())
            angle, off = rng.uniform(0, 2 * np.pi), rng.uniform(0, MAX_OFFSET)
            centre = centre + support * off * np.array([np.cos(angle), np.sin(angle)])
        rows.append({"position": np.array([*centre, height + half_height(row)]), **row})
        height += 2 * half_height(row)
    return rows


def _thing(row: Mapping[str, Any], slot: int) -> Thing:
    rotation = turn(row["rotation"])
    if row["lying"]:
        rotation = rotation @ np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    return Thing(
        mesh=SHAPES[row["shape"]],
        label=slot + 1,
        position=row["position"],
        rotation=rotation,
        scale=row["size"],
        colour=_PALETTE[row["colour"]],
        emission=0.28,
        specular=0.15,
        shininess=0.3,
    )


def _sample_camera(rng: np.random.Generator) -> Camera:
    """One of the sixteen; the field of view is that of the protocol's crop, 196 of 224 pixels at 45°."""
    azimuth, height = CAMERAS[rng.integers(len(CAMERAS))]
    angle = np.radians(azimuth)
    position = np.array([11.0 * np.cos(angle), 11.0 * np.sin(angle), height])
    return Camera(position=position, forward=np.array([0, 0, 2.3]) - position, tangent=0.3625, near=0.5, far=50.0)


def _sample_room(rng: np.random.Generator) -> list[Thing]:
    """The floor and the two walls behind the tower."""
    floor, wall = (f"room{rng.integers(ROOMS)}", f"room{ROOMS + rng.integers(ROOMS)}")
    scale = np.array([_ROOM_HALF, _ROOM_HALF, 1.0])
    facing_y = np.array([[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    facing_x = turn(-np.pi / 2) @ facing_y
    back = np.array([0.0, -_WALL_DISTANCE, 0.0])
    side = np.array([-_WALL_DISTANCE, 0.0, 0.0])
    return [
        Thing("plane", 0, np.zeros(3), scale=scale, texture=floor, shadow=False),
        Thing("plane", 0, back, facing_y, scale, np.full(3, 0.8), wall, shadow=False),
        Thing("plane", 0, side, facing_x, scale, np.full(3, 0.8), wall, shadow=False),
    ]


def _sample_lamps(rng: np.random.Generator) -> list[list[Lamp]]:
    """Four lights from the sides and one from above; a random one casts the shadow."""
    places = [(4.0, 4.0, 9.0), (4.0, -4.0, 9.0), (-4.0, 4.0, 9.0), (-4.0, -4.0, 9.0), (0.6, 0.8, 10.0)]
    caster = int(rng.integers(len(places)))
    exposures = []
    for k in range(EXPOSURES):
        lamps = []
        for number, place in enumerate(places):
            point = np.array(place)
            if number == caster:
                point[:2] += 0.12 * np.array([np.cos(2.1 * k), np.sin(2.1 * k)])
            bright = 0.55 if number == caster else 0.17
            ambient = 0.26 if number == (caster + 1) % len(places) else 0.0
            lamps.append(Lamp(point, -point, bright, specular=0.2, ambient=ambient, shadow=number == caster))
        exposures.append(lamps)
    return exposures
