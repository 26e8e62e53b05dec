"""Scene generators: each of the field's synthetic data sets made from a seed, with exact instance masks."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from cocanet.data.sample import Source
from cocanet.suggest import unknown


class _Scenes(NamedTuple):
    module: str
    generator: str
    takes_max_objects: bool


_REGISTRY = {
    "tetrominoes": _Scenes("tetrominoes", "Tetrominoes", False),
    "multi-dsprites": _Scenes("multi_dsprites", "MultiDSprites", True),
    "objects-room": _Scenes("objects_room", "ObjectsRoom", True),
    "shapestacks": _Scenes("shapestacks", "ShapeStacks", True),
    "clevr": _Scenes("clevr", "Clevr", True),
    "clevrtex": _Scenes("clevrtex", "ClevrTex", True),
}

SCENE_NAMES = tuple(_REGISTRY)


def make_scenes(name: str, *, count: int, seed: int, max_objects: int | None = None, size: int | None = None) -> Source:
    """The generator called `name`; what is None takes that generator's published value."""
    if name not in _REGISTRY:
        raise ValueError(unknown("scenes", name, SCENE_NAMES))
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    scenes = _REGISTRY[name]
    options: dict[str, Any] = {}
    if size is not None:
        options["size"] = size
    if max_objects is not None:
        if not scenes.takes_max_objects:
            raise ValueError(f"{name} has a fixed number of objects: max_objects={max_objects} does not apply")
        options["max_objects"] = max_objects
    # Imported only now: the rendered scenes need an extra that other users do without.
    module = importlib.import_module(f"cocanet.data.scenes.{scenes.module}")
    source: Source = getattr(module, scenes.generator)(count=count, seed=seed, **options)
    return source
