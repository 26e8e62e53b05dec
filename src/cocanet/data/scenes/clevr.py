"""CLEVR: rubber and metal cubes, balls and cylinders on a grey table (Johnson et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cocanet.data.sample import Sample
from cocanet.data.scenes import meshes, metal, tabletop
from cocanet.data.scenes.placement import place
from cocanet.data.scenes.render import Bank, Camera, Stage, Thing, stage
from cocanet.data.scenes.rendered import RenderedScenes, columns, turn, visible_pixels

SHAPES = ("cube", "sphere", "cylinder")
MATERIALS = ("rubber", "metal")
SIZES = (0.7, 0.35)
COLOURS = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
MIN_OBJECTS = 3
MAX_OBJECTS = 10
# Of the published frame, whose protocol crop is 192 pixels wide.
MIN_PIXELS = 200
_PALETTE = np.array(list(COLOURS.values())) / 255
# What the published renderer makes of its palette: paler, and less bright at the top.
_RUBBER = 0.13 + 0.72 * _PALETTE
_METAL = 0.06 + 0.72 * _PALETTE


def _bank() -> Bank:
    blank = np.zeros((6, metal.TEXELS, metal.TEXELS, 3), np.uint8)
    return Bank(
        meshes={
            "plane": meshes.plane(20),
            "cube": meshes.cube(8),
            "sphere": meshes.sphere(26),
            "cylinder": meshes.cylinder(26),
            **tabletop.casters(),
        },
        cubes={f"metal{k}": blank for k in range(MAX_OBJECTS)},
        shadow_pixels=384,
    )


class Clevr(RenderedScenes):
    """Scenes of 3 to `max_objects` objects; `max_objects` 6 is the set called CLEVR6."""

    name = "clevr"
    objects = (MIN_OBJECTS, MAX_OBJECTS)
    least_shown = (MIN_PIXELS, tabletop.CROP_SIDE)
    codes: ClassVar = {"shape": SHAPES, "material": MATERIALS, "colour": tuple(COLOURS)}

    def __init__(self, count: int, seed: int, size: int = 128, max_objects: int = MAX_OBJECTS) -> None:
        super().__init__(count, seed, size, max_objects)

    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        camera = tabletop.sample_camera(rng)
        objects = sample_objects(rng, count, camera)
        if objects is None:
            return None
        renderer = stage(self.name, _bank, self.size)
        things = [tabletop.ground(0.8), *(_thing(row, k) for k, row in enumerate(objects))]
        labels = renderer.labels(things, camera)
        visible = visible_pixels(labels, 1, count)
        if visible.min() < self.min_pixels:
            return None
        exposures = tabletop.sample_lamps(rng)
        lamps = np.stack([lamp.position for lamp in exposures[0] if lamp.shadow])
        _polish_all(renderer, objects, lamps, camera)
        image = renderer.image(things, exposures, camera)
        return Sample(image, labels, {**columns(objects), "visibility": visible})


def sample_objects(rng: np.random.Generator, count: int, camera: Camera) -> list[dict[str, Any]] | None:
    """Factors of `count` objects that stand apart from each other, or None when they find no room."""
    shapes = rng.integers(len(SHAPES), size=count)
    halves = [SIZES[k] for k in rng.integers(len(SIZES), size=count)]
    materials = rng.integers(len(MATERIALS), size=count)
    colours = rng.integers(len(_PALETTE), size=count)
    rotations = rng.uniform(0, 2 * np.pi, count)
    # A cube reaches further at its corners; rounding takes some of that away.
    radii = [1.3 * half if SHAPES[s] == "cube" else half for s, half in zip(shapes, halves, strict=True)]
    positions = place(rng, radii, halves, camera)
    if positions is None:
        return None
    return [
        {
            "position": np.array([*position, half]),
            "shape": int(shape),
            "size": half,
            "colour": int(colour),
            "material": int(material),
            "rotation": float(rotation),
        }
        for position, shape, half, colour, material, rotation in zip(
            positions, shapes, halves, colours, materials, rotations, strict=True
        )
    ]


def _thing(row: Mapping[str, Any], slot: int) -> Thing:
    rubber = MATERIALS[row["material"]] == "rubber"
    return Thing(
        mesh=SHAPES[row["shape"]],
        label=slot + 1,
        position=row["position"],
        rotation=turn(row["rotation"]),
        scale=np.full(3, row["size"]),
        # A metal's texture holds its light already; the lamps only shade it a little.
        colour=_RUBBER[row["colour"]] if rubber else np.full(3, 0.25),
        texture=None if rubber else f"metal{slot}",
        emission=0.0 if rubber else 3.6,
        specular=0.35 if rubber else 0.0,
        shininess=0.12 if rubber else 0.0,
        caster=(f"coarse {SHAPES[row['shape']]}", 0.93),
    )


def _polish_all(
    renderer: Stage, objects: list[dict[str, Any]], lamps: Float[np.ndarray, "l 3"], camera: Camera
) -> None:
    """Paint the reflections of every metal object; the slots of the others are not looked at."""
    balls = [
        metal.Ball(row["position"], row["size"] * (1.15 if row["shape"] == 0 else 1.0), _METAL[row["colour"]])
        for row in objects
    ]
    for slot, row in enumerate(objects):
        if MATERIALS[row["material"]] == "metal":
            texels = metal.polish(
                SHAPES[row["shape"]],
                balls[slot],
                turn(row["rotation"]),
                row["size"],
                others=balls[:slot] + balls[slot + 1 :],
                lamps=lamps,
                eye=camera.position,
            )
            renderer.paint(f"metal{slot}", texels)
