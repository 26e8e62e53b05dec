"""CLEVRTex: CLEVR's table with a material on every object and on the ground (Karazija et al. 2021).

The published set uses about sixty photographic materials with displacement. As many procedural materials replace them
here. Their relief moves the vertices of objects; on the ground it is only shaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cocanet.data.generators import meshes, tabletop
from cocanet.data.generators.render import Bank, Body, Lamp
from cocanet.data.generators.rendered import turn
from cocanet.data.generators.textures import KINDS, Texture, height_at, lit_relief, make_texture, to_bytes

VARIANTS = 3
MATERIALS = tuple(f"{kind}-{variant}" for variant in range(VARIANTS) for kind in KINDS)
TEXELS = 128
# How many units of ground one repeat of a texture covers.
GROUND_TILES = (3.0, 4.5, 6.5)
# The materials are the same for every seed of the scenes.
_MATERIAL_SEED = 60
# The lamps' mean direction in the coordinates of the ground's texture.
_GROUND_LIGHT = np.array([0.8, -0.45])


@cache
def material(index: int) -> Texture:
    """The texture behind an entry of MATERIALS."""
    kind = MATERIALS[index].rpartition("-")[0]
    return make_texture(kind, np.random.default_rng([_MATERIAL_SEED, index]), TEXELS)


class ClevrTex(tabletop.TabletopScenes):
    """Scenes of 3 to `max_objects` textured objects on a textured ground."""

    name = "clevrtex"
    version = 1
    shapes = ("cube", "sphere", "cylinder", "head")
    materials = MATERIALS
    sizes = (0.9, 0.6, 0.4)
    # A cube of this half-side fits the disc that a ball of the same size would occupy.
    cube = (0.77, 1.0)
    codes: ClassVar = {"shape": shapes, "material": MATERIALS}

    @staticmethod
    def _bank() -> Bank:
        forms = {
            "cube": meshes.cube(10),
            "sphere": meshes.sphere(28),
            "cylinder": meshes.cylinder(28, stacks=10),
            "head": meshes.head(30),
        }
        everything = {**forms, **tabletop.casters()}
        textures, grounds = {}, {}
        for index, name in enumerate(MATERIALS):
            texture = material(index)
            textures[name] = to_bytes(texture.colour)
            shade = lit_relief(texture.height, 6 * texture.relief, _GROUND_LIGHT)
            grounds[f"ground {name}"] = to_bytes(texture.colour * shade[..., None])
            if texture.relief > 0:
                for shape, form in forms.items():
                    everything[f"{shape} {name}"] = meshes.displaced(form, partial(height_at, texture), texture.relief)
        flat = meshes.plane(20)
        for tile in GROUND_TILES:
            repeats = np.float32(2 * tabletop.GROUND_HALF / tile)
            everything[f"plane {tile}"] = flat._replace(texcoords=flat.texcoords * repeats)
        return Bank(meshes=everything, textures={**textures, **grounds}, shadow_pixels=384)

    def _sample_colours(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "n 3"]:
        """Tints that multiply the materials' colours."""
        return rng.uniform(0.8, 1.0, (count, 3))

    def _sample_ground(self, rng: np.random.Generator) -> Body:
        name = MATERIALS[rng.integers(len(MATERIALS))]
        tile = GROUND_TILES[rng.integers(len(GROUND_TILES))]
        return Body(
            mesh=f"plane {tile}",
            label=0,
            position=np.array([*rng.uniform(-tile / 2, tile / 2, 2), 0.0]),
            scale=np.array([tabletop.GROUND_HALF, tabletop.GROUND_HALF, 1.0]),
            colour=np.full(3, rng.uniform(0.75, 1.0)),
            texture=f"ground {name}",
            shadow=False,
        )

    def _body(self, row: Mapping[str, Any], number: int) -> Body:
        name, shape = MATERIALS[row["material"]], self.shapes[row["shape"]]
        relief = material(row["material"]).relief
        return Body(
            mesh=f"{shape} {name}" if relief > 0 else shape,
            label=number + 1,
            position=row["position"],
            rotation=turn(row["rotation"]),
            scale=np.full(3, row["size"]),
            colour=row["colour"],
            texture=name,
            specular=0.0 if relief > 0 else 0.25,
            shininess=0.2,
            # The coarse head cuts across the hollows of the fine one, so it is smaller.
            caster=(f"coarse {shape}", (0.8 if shape == "head" else 0.93) - relief),
        )

    def _sample_lamps(self, rng: np.random.Generator) -> list[list[Lamp]]:
        return tabletop.sample_lamps(rng, brighter=2.4, ambient=0.58)
