"""The training, validation and test split of a data set.

Generated scenes have a seed for each split, so the test split is frozen: always the same 2000 images, except for the
last bits where another graphics driver renders them. A store of published files is divided as in the paper: the first
images train, the last test. A user's own images are shuffled first, since their names may sort them by kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from cocanet.config import DataConfig
from cocanet.data.cache import cached_scenes
from cocanet.data.generators import make_scenes
from cocanet.data.generators.streams import uniforms
from cocanet.data.loader import GatherSource
from cocanet.data.readers import OWN, PHOTOGRAPHS
from cocanet.data.sample import Source
from cocanet.data.store import Store
from cocanet.data.store_format import META
from cocanet.data.views import Images, Part, Resized, size_of
from cocanet.progress import QUIET, Progress

Split = Literal["train", "validation", "test"]

SEEDS: dict[Split, int] = {"train": 1, "validation": 2, "test": 3}
TEST_IMAGES = 2000
"""Test images of every data set (Sec. 4.2)."""
VALIDATION_IMAGES = 320
RENDERED_TRAIN_IMAGES = 10_000
"""Rendered scenes take minutes to make. 2-D scenes cost nothing and come in the published number."""
PUBLISHED_TRAIN_IMAGES = 90_000
DIVISION_SEED = 0


def open_split(
    data: DataConfig,
    split: Split,
    path: Path | None = None,
    images: int | None = None,
    progress: Progress = QUIET,
) -> Images:
    """A split of the store at `path`, or of generated scenes; `images` is the number of scenes to train on.

    A store of a user's own images is shuffled before it is divided, always the same way.
    """
    if path is not None:
        return _split_of_store(path, split)
    if data.name in PHOTOGRAPHS:
        raise ValueError(
            f"{data.name} are photographs, which are not generated: `coca import {data.name} DIR --out STORE` reads "
            "them, and --data STORE then names them"
        )
    count = VALIDATION_IMAGES if split == "validation" else TEST_IMAGES
    if split == "train":
        source = _scenes(data, split, images or PUBLISHED_TRAIN_IMAGES)
        if isinstance(source, GatherSource):
            return source  # drawing them again is faster than reading them
        count = images or RENDERED_TRAIN_IMAGES
    source = _scenes(data, split, count)
    name = f"{data.name}{data.max_objects or ''}-v{source.recipe['version']}-{split}-{count}"
    return Part(cached_scenes(source, name, progress), 0, count)


def _scenes(data: DataConfig, split: Split, count: int) -> Source:
    return make_scenes(data.name, count=count, seed=SEEDS[split], max_objects=data.max_objects)


def fingerprint(images: Images) -> str:
    """Hash of every pixel and label of a split, in order."""
    digest = hashlib.sha256()
    for start in range(0, len(images), 256):
        for array in images.gather(np.arange(start, min(start + 256, len(images)))):
            digest.update(f"{array.shape[1:]}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def at_size(images: Images, image_size: tuple[int, int], data: DataConfig, path: Path | None) -> Images:
    """The images at the model's size; ValueError if they have another and `data.resize` is off."""
    height, width = size_of(images)
    if (height, width) == image_size:
        return images
    if data.resize:
        return Resized(images, image_size)
    raise ValueError(
        f"{path or 'the data'} holds images of {height}×{width} pixels; this model takes "
        f"{image_size[0]}×{image_size[1]}: import them with --size {image_size[0]}, or change the model's windows"
    )


def protocol_part(store: Store) -> Part:
    """A test store, limited to the protocol's number of images."""
    return Part(store, 0, min(len(store), TEST_IMAGES), _order(store))


def _split_of_store(path: Path, split: Split) -> Images:
    if not path.exists():
        raise ValueError(f"the data folder {path} does not exist; `coca scenes` or `coca import` makes one")
    own = {name: _own_folder(path, name) for name in SEEDS}
    folder = own[split]
    if split == "train" and folder is not None:
        return _without(Store(folder), [name for name, found in own.items() if found is None])
    if folder is not None:
        store = Store(folder)
        return protocol_part(store) if split == "test" else Part(store, 0, len(store))
    return _divide(Store(own["train"] or path), split)


def _own_folder(path: Path, split: Split) -> Path | None:
    """The store of a split inside a data folder, if there is one."""
    names = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}[split]
    return next((path / name for name in names if (path / name / META).exists()), None)


def _divide(store: Store, split: Split) -> Part:
    """Train, validation and test in this order; at most a tenth for each of the last two."""
    if len(store) < 10:
        return Part(store, 0, len(store))
    return Part(store, *_bounds(store)[split], _order(store))


def _without(store: Store, taken: Sequence[Split]) -> Part:
    """A training store without the images `taken` for splits that have no store of their own."""
    if len(store) < 10 or not taken:
        return Part(store, 0, len(store))
    order = _order(store)
    order = np.arange(len(store)) if order is None else order
    away = [order[slice(*_bounds(store)[split])] for split in taken]
    kept = order[~np.isin(order, np.concatenate(away))]
    return Part(store, 0, len(kept), np.concatenate([kept, *away]))


def _bounds(store: Store) -> dict[Split, tuple[int, int]]:
    count = len(store)
    test = count - min(TEST_IMAGES, count // 10)
    validation = test - min(VALIDATION_IMAGES, count // 10)
    return {"train": (0, validation), "validation": (validation, test), "test": (test, count)}


def _order(store: Store) -> Int[np.ndarray, " n"] | None:
    if not _is_own(store.recipe):
        return None
    drawn = uniforms(DIVISION_SEED, np.arange(len(store)), first=0, draws=1)
    return np.argsort(drawn[:, 0], kind="stable")


def _is_own(recipe: Mapping[str, Any]) -> bool:
    return recipe.get("name") in OWN
