"""CLEVRTex: CLEVR's table with a material on every object and on the ground (Karazija et al. 2021).

The published set uses about sixty photographic materials with displacement. Here as many procedural ones
stand in; their relief moves the vertices of the objects and is painted, lit, into the ground.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from cocanet.data.sample import Sample
from cocanet.data.scenes import meshes, tabletop
from cocanet.data.scenes.placement import place
from cocanet.data.scenes.render import Bank, Camera, Thing, stage
from cocanet.data.scenes.rendered import RenderedScenes, columns, turn, visible_pixels
from cocanet.data.scenes.textures import KINDS, Texture, height_at, lit_relief, make_texture, to_bytes

SHAPES = ("cube", "sphere", "cylinder", "head")
SIZES = (0.9, 0.6, 0.4)
VARIANTS = 3
MATERIALS = tuple(f"{kind}-{variant}" for variant in range(VARIANTS) for kind in KINDS)
MIN_OBJECTS = 3
MAX_OBJECTS = 10
# As in CLEVR, whose frame and crop the set shares.
MIN_PIXELS = 200
TEXELS = 128
# How many units of ground one repeat of a texture covers.
GROUND_TILES = (3.0, 4.5, 6.5)
# The materials are the same for every seed of the scenes.
_MATERIAL_SEED = 60
# The lamps' mean direction as the ground's texture sees it, for its painted relief.
_GROUND_LIGHT = np.array([0.8, -0.45])


@cache
def material(index: int) -> Texture:
    """The texture behind an entry of MATERIALS."""
    kind = MATERIALS[index].rpartition("-")[0]
    return make_texture(kind, np.random.default_rng([_MATERIAL_SEED, index]), TEXELS)


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


class ClevrTex(RenderedScenes):
    """Scenes of 3 to `max_objects` textured objects on a textured ground."""

    name = "clevrtex"
    objects = (MIN_OBJECTS, MAX_OBJECTS)
    least_shown = (MIN_PIXELS, tabletop.CROP_SIDE)
    codes: ClassVar = {"shape": SHAPES, "material": tuple(MATERIALS)}

    def __init__(self, count: int, seed: int, size: int = 128, max_objects: int = MAX_OBJECTS) -> None:
        super().__init__(count, seed, size, max_objects)

    def _attempt(self, rng: np.random.Generator, count: int) -> Sample | None:
        camera = tabletop.sample_camera(rng)
        objects = sample_objects(rng, count, camera)
        if objects is None:
            return None
        renderer = stage(self.name, _bank, self.size)
        things = [_sample_ground(rng), *(_thing(row, k) for k, row in enumerate(objects))]
        labels = renderer.labels(things, camera)
        visible = visible_pixels(labels, 1, count)
        if visible.min() < self.min_pixels:
            return None
        image = renderer.image(things, tabletop.sample_lamps(rng, brighter=2.4, ambient=0.58), camera)
        return Sample(image, labels, {**columns(objects), "visibility": visible})


def sample_objects(rng: np.random.Generator, count: int, camera: Camera) -> list[dict[str, Any]] | None:
    """Factors of `count` objects that stand apart from each other, or None when they find no room."""
    shapes = rng.integers(len(SHAPES), size=count)
    halves = [SIZES[k] for k in rng.integers(len(SIZES), size=count)]
    materials = rng.integers(len(MATERIALS), size=count)
    tints = rng.uniform(0.8, 1.0, (count, 3))
    rotations = rng.uniform(0, 2 * np.pi, count)
    radii = list(halves)
    # A cube of this half-side fits the disc that a ball of the same size would occupy.
    halves = [0.77 * half if SHAPES[s] == "cube" else half for s, half in zip(shapes, halves, strict=True)]
    positions = place(rng, radii, halves, camera)
    if positions is None:
        return None
    return [
        {
            "position": np.array([*position, half]),
            "shape": int(shape),
            "size": half,
            "colour": tint,
            "material": int(chosen),
            "rotation": float(rotation),
        }
        for position, shape, half, tint, chosen, rotation in zip(
            positions, shapes, halves, tints, materials, rotations, strict=True
        )
    ]


def _thing(row: Mapping[str, Any], slot: int) -> Thing:
    name, shape = MATERIALS[row["material"]], SHAPES[row["shape"]]
    relief = material(row["material"]).relief
    return Thing(
        mesh=f"{shape} {name}" if relief > 0 else shape,
        label=slot + 1,
        position=row["position"],
        rotation=turn(row["rotation"]),
        scale=np.full(3, row["size"]),
        colour=row["colour"],
        texture=name,
        specular=0.0 if relief > 0 else 0.25,
        shininess=0.2,
        # The coarse head cuts across the hollows of the fine one, so it is drawn smaller.
        caster=(f"coarse {shape}", (0.8 if shape == "head" else 0.93) - relief),
    )


def _sample_ground(rng: np.random.Generator) -> Thing:
    name = MATERIALS[rng.integers(len(MATERIALS))]
    table = tabletop.ground(1.0, f"ground {name}")
    tile = GROUND_TILES[rng.integers(len(GROUND_TILES))]
    shift = np.array([*rng.uniform(-tile / 2, tile / 2, 2), 0.0])
    return Thing(
        mesh=f"plane {tile}",
        label=0,
        position=shift,
        scale=table.scale,
        colour=np.full(3, rng.uniform(0.75, 1.0)),
        texture=table.texture,
        shadow=False,
    )
