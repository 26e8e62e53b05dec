"""Stores that are made on demand and kept in the user's cache: generated scenes, and folders of images."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cocanet.config import Fit
from cocanet.data.loader import GatherSource
from cocanet.data.readers import OWN, open_source
from cocanet.data.sample import Source
from cocanet.data.store import Store
from cocanet.data.store_format import META, is_store, read_meta
from cocanet.data.store_writer import write_store
from cocanet.files import cache_folder
from cocanet.progress import QUIET, Progress
from cocanet.words import plural

LISTED = 10
"""Damaged images that are named; the store's `meta.json` lists all of them."""


def cached_scenes(source: Source, name: str, progress: Progress = QUIET) -> Store:
    """Generated scenes from the folder `name` of the cache, made first if they are not there."""
    folder = cache_folder() / name
    if not is_complete(folder):
        drawn = isinstance(source, GatherSource)
        write_store(source, folder, workers=1 if drawn else os.cpu_count() or 1, progress=progress)
    return Store(folder)


def check_folder(data: Path) -> None:
    """A user's images are in a folder; ValueError if not."""
    if not data.exists():
        raise ValueError(f"the data folder {data} does not exist; expected a folder of images or a store")
    if not data.is_dir():
        raise ValueError(f"{data} is not a folder; expected a folder of images or a store")


def holds_stores(data: Path) -> bool:
    """Whether a folder is a store, or holds the stores of a data set's splits."""
    return is_store(data) or is_store(data / "train")


def cached_images(data: Path, size: int, progress: Progress = QUIET, *, fit: Fit = "stretch") -> Path:
    """The user's store, or the store in the cache to which a folder of images was imported.

    Damaged images are left out.
    """
    check_folder(data)
    if holds_stores(data):
        return data
    source = open_source("folder", data, size=size, fit=fit)
    newest = max(path.stat().st_mtime_ns for path in data.rglob("*"))
    state = f"{data.resolve()} {size} {fit} {len(source)} {source.has_labels} {newest}"
    digest = hashlib.sha256(state.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    folder = cache_folder() / f"{data.resolve().name}-{digest}"
    if not is_complete(folder):
        write_store(open_source("folder", data, size=size, fit=fit, skip_damaged=True), folder, progress=progress)
    reasons = read_meta(folder).recipe.get("left_out", [])
    if reasons:
        named = "; ".join(reasons[:LISTED]) + ("; …" if len(reasons) > LISTED else "")
        progress.say(f"left out {plural(len(reasons), 'damaged image')}: {named}")
    return folder


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a finished store."""
    return (folder / META).exists() and read_meta(folder).complete


def fit_of(store: Path) -> Fit | None:
    """How a user's images were fitted to the shape of the store; None for other stores."""
    first = store if (store / META).exists() else store / "train"
    recipe = read_meta(first).recipe
    fit: Fit | None = recipe.get("fit", "stretch") if recipe.get("name") in OWN else None
    return fit
