"""CLEVR: rubber and metal cubes, balls and cylinders on a grey table (Johnson et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from cocanet.data.generators import meshes, metal, tabletop
from cocanet.data.generators.render import Bank, Body, Lamp, Renderer
from cocanet.data.generators.rendered import Scene, turn

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
_PALETTE = np.array(list(COLOURS.values())) / 255
# Fitted to the median colours of objects and ground in published images.
_RUBBER = 0.22 + 0.65 * _PALETTE
_METAL = 0.14 + 0.65 * _PALETTE
_GROUND = 0.68


class Clevr(tabletop.TabletopScenes):
    """Scenes of 3 to `max_objects` objects; `max_objects` 6 is the set called CLEVR6."""

    name = "clevr"
    version = 2
    shapes = ("cube", "sphere", "cylinder")
    materials = ("rubber", "metal")
    sizes = (0.7, 0.35)
    # A cube reaches further at its corners, but its edges are rounded.
    cube = (1.0, 1.3)
    codes: ClassVar = {"shape": shapes, "material": materials, "colour": tuple(COLOURS)}

    @staticmethod
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
            cubes={f"metal{k}": blank for k in range(tabletop.MAX_OBJECTS)},
            shadow_pixels=384,
        )

    def _sample_colours(self, rng: np.random.Generator, count: int) -> Int[np.ndarray, " n"]:
        return rng.integers(len(_PALETTE), size=count)

    def _sample_ground(self, rng: np.random.Generator) -> Body:
        scale = np.array([tabletop.GROUND_HALF, tabletop.GROUND_HALF, 1.0])
        return Body("plane", 0, np.zeros(3), scale=scale, colour=np.full(3, _GROUND), shadow=False)

    def _body(self, row: Mapping[str, Any], number: int) -> Body:
        rubber, shape = self.materials[row["material"]] == "rubber", self.shapes[row["shape"]]
        return Body(
            mesh=shape,
            label=number + 1,
            position=row["position"],
            rotation=turn(row["rotation"]),
            scale=np.full(3, row["size"]),
            # A metal's texture already contains its light; the lamps only shade it a little.
            colour=_RUBBER[row["colour"]] if rubber else np.full(3, 0.25),
            texture=None if rubber else f"metal{number}",
            emission=0.0 if rubber else 3.6,
            specular=0.35 if rubber else 0.0,
            shininess=0.12 if rubber else 0.0,
            caster=(f"coarse {shape}", 0.93),
        )

    def _sample_lamps(self, rng: np.random.Generator) -> list[list[Lamp]]:
        return tabletop.sample_lamps(rng)

    def _set_textures(self, renderer: Renderer, scene: Scene, lamps: list[list[Lamp]]) -> None:
        """Compute the reflections of every metal object."""
        balls = [
            metal.Ball(row["position"], row["size"] * (1.15 if row["shape"] == 0 else 1.0), _METAL[row["colour"]])
            for row in scene.objects
        ]
        for number, row in enumerate(scene.objects):
            if self.materials[row["material"]] == "metal":
                texels = metal.reflection_texture(
                    self.shapes[row["shape"]],
                    balls[number],
                    turn(row["rotation"]),
                    row["size"],
                    others=balls[:number] + balls[number + 1 :],
                    lamps=np.stack([lamp.position for lamp in lamps[0] if lamp.shadow]),
                    eye=scene.camera.position,
                )
                renderer.set_texture(f"metal{number}", texels)
