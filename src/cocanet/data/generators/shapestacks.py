"""ShapeStacks: a tower of two to six blocks on a tiled floor with two tiled walls (Groth et al. 2018).

Blocks (sizes, colours, rotations, offsets), six floors, six walls, sixteen cameras and five lights, one of which
casts the shadow, follow the published recipe; patterns are our own. The tower stands off centre. As in the published
set, some towers are stable and some are about to fall, and from half of the cameras no wall is seen, but the sky.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8

from cocanet.data.generators import meshes
from cocanet.data.generators.noise import coordinates, joints
from cocanet.data.generators.render import Bank, Body, Camera, Lamp
from cocanet.data.generators.rendered import RenderedScenes, Scene, turn
from cocanet.data.generators.textures import make_texture, to_bytes

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
# Of 64 × 64 pixels; no minimum is published.
MIN_PIXELS = 12
# Width, depth and height of a block, and its offset from the block below (in half-widths).
EXTENT = (0.5, 1.0)
MAX_OFFSET = 0.5
# How often a block inside the tower is round, so that the block above it has no flat support.
ROUND_INSIDE = 0.2
PATTERNS = 6
TEXELS = 256
TILES = 4
EXPOSURES = 3
HALF = 10.0
"""Half of the floor's side, and of the walls' that stand on two of its edges."""
_GRAINS = ("plaster", "marble", "wood", "rust")
_SPECKLES = ("terrazzo", "leather", "pebbles", "cracked", "camouflage")
_TEXTURE_SEED = 17
_PALETTE = np.array(list(COLOURS.values()), dtype=np.float64)
# Positions of the published cameras, and their two angles in degrees: above straight down, and about the vertical.
CAMERAS = np.array(
    [
        (-7, -7, 5, 75, -45),
        (-9, -2, 5, 75, -75),
        (-2, -9, 5, 75, -15),
        (-7, 7, 5, 75, 225),
        (-9, 2, 5, 75, 255),
        (-2, 9, 5, 75, 195),
        (7, 7, 5, 75, 135),
        (9, 2, 5, 75, 105),
        (2, 9, 5, 75, 165),
        (7, -7, 5, 75, 45),
        (9, -2, 5, 75, 75),
        (2, -9, 5, 75, 15),
        (-5, -5, 9, 45, -45),
        (-5, 5, 9, 45, 225),
        (5, 5, 9, 45, 135),
        (5, -5, 9, 45, 45),
    ],
    dtype=np.float64,
)
# How far along x and y a tower may stand from the middle.
TOWER_SHIFT = 1.7
SKY = (0.4, 0.6, 0.8)
"""Colour overhead; the sky is black underfoot and changes evenly between."""
_SKY_DISTANCE = 40.0
_AMBIENT = 0.26


def _mosaic(rng: np.random.Generator) -> UInt8[np.ndarray, "s s 3"]:
    """Square tiles of light, dark, coloured and speckled stone in random order, with dark joints between them."""
    light = colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.0, 0.1), rng.uniform(0.85, 1.0))
    dark = colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.0, 0.3), rng.uniform(0.06, 0.2))
    coloured = colorsys.hsv_to_rgb(rng.uniform(), rng.uniform(0.2, 0.6), rng.uniform(0.5, 0.9))
    materials = []
    for tone in (light, dark, coloured):
        grain = make_texture(str(rng.choice(_GRAINS)), rng, TEXELS).height[..., None]
        materials.append(np.array(tone) * (0.88 + 0.12 * grain))
    speckles = make_texture(str(rng.choice(_SPECKLES)), rng, TEXELS).colour
    materials.append(0.15 + 0.5 * speckles + 0.35 * speckles.mean(axis=-1, keepdims=True))
    order = rng.permutation(np.arange(TILES * TILES) % len(materials)).reshape(TILES, TILES)
    side = TEXELS // TILES
    chosen = np.kron(order, np.ones((side, side), np.int64))
    colour = np.choose(chosen[..., None], materials)
    u, v = coordinates(TEXELS)
    gap = joints(u * TILES, 0.035) * joints(v * TILES, 0.035)
    return to_bytes(colour * (0.15 + 0.85 * gap[..., None]))


def _sky() -> UInt8[np.ndarray, "s s 3"]:
    """The sky's gradient, row by row from below."""
    share = np.linspace(0, 1, TEXELS)[:, None, None]
    return to_bytes(np.broadcast_to(share * np.array(SKY), (TEXELS, TEXELS, 3)))


class ShapeStacks(RenderedScenes):
    """Towers of 2 to `max_objects` blocks."""

    name = "shapestacks"
    version = 3
    objects = (MIN_BLOCKS, MAX_BLOCKS)
    least_shown = (MIN_PIXELS, 64)
    codes: ClassVar = {"shape": SHAPES, "colour": tuple(COLOURS)}

    def __init__(self, count: int, seed: int, size: int = 64, max_objects: int = MAX_BLOCKS) -> None:
        super().__init__(count, seed, size, max_objects)

    @staticmethod
    def _bank() -> Bank:
        flat = meshes.plane(24)
        down = np.tile(np.array([0, -1, 0], np.float32), (len(flat.normals), 1))
        streams = [np.random.default_rng([_TEXTURE_SEED, k]) for k in range(2 * PATTERNS)]
        return Bank(
            meshes={
                "plane": flat,
                "sky": flat._replace(normals=down),  # away from all lights: the sky only emits
                "cuboid": meshes.box(6),
                "cylinder": meshes.cylinder(28, bevel=0.01),
                "sphere": meshes.sphere(24),
            },
            textures={"sky": _sky(), **{f"pattern{k}": _mosaic(stream) for k, stream in enumerate(streams)}},
            shadow_pixels=512,
            shadow_extent=7.0,
        )

    def _arrange(self, rng: np.random.Generator, count: int) -> Scene | None:
        camera = _sample_camera(rng)
        blocks = sample_tower(rng, count)
        bodies = [*_sample_background(rng, camera), *(_body(row, k) for k, row in enumerate(blocks))]
        return Scene(camera, bodies, blocks)

    def _sample_lamps(self, rng: np.random.Generator) -> list[list[Lamp]]:
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
                ambient = _AMBIENT if number == (caster + 1) % len(places) else 0.0
                lamps.append(Lamp(point, -point, bright, specular=0.2, ambient=ambient, shadow=number == caster))
            exposures.append(lamps)
        return exposures


def _sample_block(rng: np.random.Generator, round_top: bool) -> dict[str, Any]:
    """A block of random shape: a sphere or a lying cylinder with `round_top`, else a shape with a flat top."""
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
    """Half of a block's height; a lying cylinder is as high as it is thick."""
    return float(row["size"][0] if row["lying"] else row["size"][2])


def sample_tower(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Blocks from the ground up, each touching the one below; round blocks are on top, rarely inside."""
    round_one = int(rng.integers(count)) if rng.random() < ROUND_INSIDE else -1
    rows: list[dict[str, Any]] = []
    centre, height = rng.uniform(-TOWER_SHIFT, TOWER_SHIFT, 2), 0.0
    for level in range(count):
        top = level == count - 1
        row = _sample_block(rng, round_top=level == round_one or (top and rng.random() < 0.5))
        if rows:
            # Half the smaller half-width keeps a point of contact whatever the shapes and angles are.
            support = min(row["size"].min(), rows[-1]["size"].min())
            angle, off = rng.uniform(0, 2 * np.pi), rng.uniform(0, MAX_OFFSET)
            centre = centre + support * off * np.array([np.cos(angle), np.sin(angle)])
        rows.append({"position": np.array([*centre, height + half_height(row)]), **row})
        height += 2 * half_height(row)
    return rows


def _body(row: Mapping[str, Any], number: int) -> Body:
    rotation = turn(row["rotation"])
    if row["lying"]:
        rotation = rotation @ np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    return Body(
        mesh=SHAPES[row["shape"]],
        label=number + 1,
        position=row["position"],
        rotation=rotation,
        scale=row["size"],
        colour=_PALETTE[row["colour"]],
        emission=0.28,
        specular=0.15,
        shininess=0.3,
    )


def _sample_camera(rng: np.random.Generator) -> Camera:
    """A published camera; the field of view is that of the protocol's crop, 196 of 224 pixels at 45°."""
    *position, tilt, heading = CAMERAS[rng.integers(len(CAMERAS))]
    tilt, heading = np.radians(tilt), np.radians(heading)
    forward = np.array([-np.sin(heading) * np.sin(tilt), np.cos(heading) * np.sin(tilt), -np.cos(tilt)])
    return Camera(position=np.array(position), forward=forward, tangent=0.3625, near=0.5, far=80.0)


def _sample_background(rng: np.random.Generator, camera: Camera) -> list[Body]:
    """The sky (a plane across the view), the floor, and the walls on its edges at positive x and positive y."""
    floor, wall = (f"pattern{rng.integers(PATTERNS)}", f"pattern{PATTERNS + rng.integers(PATTERNS)}")
    scale, tone = np.array([HALF, HALF, 1.0]), np.full(3, 0.95)
    # A wall's mesh lies in its own x and y; the columns say where these and its normal point in the world.
    upright = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    level = camera.forward * np.array([1.0, 1.0, 0.0])
    level /= np.linalg.norm(level)
    sky = Body(
        "sky",
        0,
        camera.position + _SKY_DISTANCE * level,
        turn(float(np.arctan2(level[1], level[0])) - np.pi / 2) @ upright,
        np.array([_SKY_DISTANCE, _SKY_DISTANCE, 1.0]),
        texture="sky",
        emission=1 - _AMBIENT,
        shadow=False,
    )
    return [
        sky,
        Body("plane", 0, np.zeros(3), scale=scale, texture=floor, shadow=False),
        Body("plane", 0, np.array([0.0, HALF, HALF]), upright, scale, tone, wall, shadow=False),
        Body("plane", 0, np.array([HALF, 0.0, HALF]), turn(-np.pi / 2) @ upright, scale, tone, wall, shadow=False),
    ]
