"""Generators of the six synthetic data sets: images and exact instance masks from a seed."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from cocanet.data.sample import Source
from cocanet.words import unknown


class _Entry(NamedTuple):
    module: str
    generator: str
    takes_max_objects: bool


_REGISTRY = {
    "tetrominoes": _Entry("tetrominoes", "Tetrominoes", False),
    "multi-dsprites": _Entry("multi_dsprites", "MultiDSprites", True),
    "objects-room": _Entry("objects_room", "ObjectsRoom", True),
    "shapestacks": _Entry("shapestacks", "ShapeStacks", True),
    "clevr": _Entry("clevr", "Clevr", True),
    "clevrtex": _Entry("clevrtex", "ClevrTex", True),
}

SCENE_NAMES = tuple(_REGISTRY)


def make_scenes(name: str, *, count: int, seed: int, max_objects: int | None = None, size: int | None = None) -> Source:
    """The generator called `name`; options that are None take their published value."""
    if name not in _REGISTRY:
        raise ValueError(unknown("scenes", name, SCENE_NAMES))
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    entry = _REGISTRY[name]
    options: dict[str, Any] = {}
    if size is not None:
        options["size"] = size
    if max_objects is not None:
        if not entry.takes_max_objects:
            raise ValueError(f"{name} has a fixed number of objects: max_objects={max_objects} does not apply")
        options["max_objects"] = max_objects
    # Imported here: rendered scenes need an optional dependency.
    module = importlib.import_module(f"cocanet.data.generators.{entry.module}")
    source: Source = getattr(module, entry.generator)(count=count, seed=seed, **options)
    return source
