"""Which images a run trains on, which it watches, and which the final scores come from.

Scenes that we generate have a seed for each split, so the test split of a preset is frozen: the same 2000 images each
time, but for the last bits where another graphics driver renders them. A store of published files is divided as the
paper divides them: the first images train, the last test. The user's own images are in the order of their names, which
may well sort them by kind, so they are shuffled first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from cocanet.config import DataConfig
from cocanet.data.filling import fill
from cocanet.data.loader import GatherSource
from cocanet.data.readers import OWN, PHOTOGRAPHS
from cocanet.data.scenes import make_scenes
from cocanet.data.scenes.streams import uniforms
from cocanet.data.store import Store
from cocanet.data.store_format import META, read_meta
from cocanet.data.views import Images, Part, Resized, size_of
from cocanet.watch import QUIET, Watcher

Split = Literal["train", "validation", "test"]

SEEDS: dict[Split, int] = {"train": 1, "validation": 2, "test": 3}
TEST_IMAGES = 2000
"""Test images of every data set (Sec. 4.2)."""
VALIDATION_IMAGES = 320
RENDERED_TRAIN_IMAGES = 10_000
"""Rendered scenes take minutes to make; those that are drawn cost nothing and come in the published number."""
PUBLISHED_TRAIN_IMAGES = 90_000
DIVISION_SEED = 0


def open_split(
    data: DataConfig,
    split: Split,
    path: Path | None = None,
    images: int | None = None,
    watcher: Watcher = QUIET,
    *,
    shuffle: bool = False,
) -> Images:
    """A split of the user's store at `path`, or of scenes that are made for it; `images` is how many to make.

    With `shuffle` a store of the user's own images is divided at random, the same way each time; runs from before
    there was such a division go without it.
    """
    if path is not None:
        return _split_of_store(path, split, shuffle)
    if data.name in PHOTOGRAPHS:
        raise ValueError(
            f"{data.name} are photographs, which are not generated: `coca import {data.name} DIR --out STORE` reads "
            "them, and --data STORE then names them"
        )
    count = VALIDATION_IMAGES if split == "validation" else TEST_IMAGES
    if split == "train":
        published = images or PUBLISHED_TRAIN_IMAGES
        drawn = make_scenes(data.name, count=published, seed=SEEDS[split], max_objects=data.max_objects)
        if isinstance(drawn, GatherSource):
            return drawn  # faster drawn again than read from a disk
        count = images or RENDERED_TRAIN_IMAGES
    return Part(cached_scenes(data, split, count, watcher), 0, count)


def cached_scenes(data: DataConfig, split: Split, count: int, watcher: Watcher = QUIET) -> Store:
    """Generated scenes from the cache, made first if they are not there."""
    folder = cache_folder() / f"{data.name}{data.max_objects or ''}-{split}-{count}"
    if not is_complete(folder):
        source = make_scenes(data.name, count=count, seed=SEEDS[split], max_objects=data.max_objects)
        drawn = isinstance(source, GatherSource)
        fill(source, folder, workers=1 if drawn else os.cpu_count() or 1, watcher=watcher)
    return Store(folder)


def cache_folder() -> Path:
    """Where generated scenes are kept: $COCANET_CACHE, or a folder in the user's cache."""
    given = os.environ.get("COCANET_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cocanet"


def fingerprint(images: Images) -> str:
    """Hash of every pixel and label of a split, in order."""
    digest = hashlib.sha256()
    for start in range(0, len(images), 256):
        for array in images.gather(np.arange(start, min(start + 256, len(images)))):
            digest.update(f"{array.shape[1:]}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def at_size(images: Images, image_size: tuple[int, int], data: DataConfig, path: Path | None) -> Images:
    """The images in the size the model is made for; ValueError if they have another and are not to be resized."""
    height, width = size_of(images)
    if (height, width) == image_size:
        return images
    if data.resize:
        return Resized(images, image_size)
    raise ValueError(
        f"{path or 'the data'} holds images of {height}×{width} pixels; this model takes "
        f"{image_size[0]}×{image_size[1]}: import them with --size {image_size[0]}, or change the model's windows"
    )


def is_complete(folder: Path) -> bool:
    """Whether a store is there, and all of it."""
    return (folder / META).exists() and read_meta(folder).complete


def holds_own_images(path: Path) -> bool:
    """Whether a data folder was imported from images of the user's, whose order says no more than their names."""
    folder = next((folder for folder in (path / "train", path) if (folder / META).exists()), None)
    return folder is not None and _is_own(read_meta(folder).recipe)


def protocol_part(store: Store, *, shuffle: bool = False) -> Part:
    """All of a test store, but no more than the protocol's number of images: the first of them."""
    return Part(store, 0, min(len(store), TEST_IMAGES), _order(store, shuffle))


def _split_of_store(path: Path, split: Split, shuffle: bool) -> Images:
    if not path.exists():
        raise ValueError(f"the data folder {path} does not exist; `coca scenes` or `coca import` makes one")
    own = {name: _own_folder(path, name) for name in SEEDS}
    folder = own[split]
    if split == "train" and folder is not None:
        return _rest(Store(folder), [name for name, found in own.items() if found is None], shuffle)
    if folder is not None:
        store = Store(folder)
        return protocol_part(store, shuffle=shuffle) if split == "test" else Part(store, 0, len(store))
    return _divide(Store(own["train"] or path), split, shuffle)


def _own_folder(path: Path, split: Split) -> Path | None:
    """The store that a data folder has for a split, if it has one."""
    names = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}[split]
    return next((path / name for name in names if (path / name / META).exists()), None)


def _divide(store: Store, split: Split, shuffle: bool) -> Part:
    """Train, validation and test one after the other; a tenth at most for each of the last two."""
    if len(store) < 10:
        return Part(store, 0, len(store))
    return Part(store, *_bounds(store)[split], _order(store, shuffle))


def _rest(store: Store, taken: Sequence[Split], shuffle: bool) -> Part:
    """A store that trains, without the images that are `taken` from it for splits that have no store of their own."""
    if len(store) < 10 or not taken:
        return Part(store, 0, len(store))
    order = _order(store, shuffle)
    order = np.arange(len(store)) if order is None else order
    away = [order[slice(*_bounds(store)[split])] for split in taken]
    kept = order[~np.isin(order, np.concatenate(away))]
    return Part(store, 0, len(kept), np.concatenate([kept, *away]))


def _bounds(store: Store) -> dict[Split, tuple[int, int]]:
    count = len(store)
    test = count - min(TEST_IMAGES, count // 10)
    validation = test - min(VALIDATION_IMAGES, count // 10)
    return {"train": (0, validation), "validation": (validation, test), "test": (test, count)}


def _order(store: Store, shuffle: bool) -> Int[np.ndarray, " n"] | None:
    if not (shuffle and _is_own(store.recipe)):
        return None
    drawn = uniforms(DIVISION_SEED, np.arange(len(store)), first=0, draws=1)
    return np.argsort(drawn[:, 0], kind="stable")


def _is_own(recipe: Mapping[str, Any]) -> bool:
    return recipe.get("name") in OWN
