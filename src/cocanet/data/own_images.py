"""A user's folder of pictures as a store: imported once, kept in the cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cocanet.config import Fit
from cocanet.data.filling import fill
from cocanet.data.readers import OWN, open_source
from cocanet.data.splits import cache_folder, is_complete
from cocanet.data.store_format import META, read_meta
from cocanet.watch import QUIET, Watcher
from cocanet.words import plural

LISTED = 10
"""Damaged images that are named; the store's `meta.json` has them all."""


def store_of(data: Path, size: int, watcher: Watcher = QUIET) -> Path:
    """The user's store; a folder of pictures is imported into the cache first, without those that are damaged."""
    if not data.exists():
        raise ValueError(f"the data folder {data} does not exist; expected a folder of images or a store")
    if not data.is_dir():
        raise ValueError(f"{data} is not a folder; expected a folder of images or a store")
    if any((data / name / META).exists() for name in (".", "train")):
        return data
    source = open_source("folder", data, size=size)
    newest = max(path.stat().st_mtime_ns for path in data.rglob("*"))
    state = f"{data.resolve()} {size} {len(source)} {newest}"
    folder = cache_folder() / f"{data.resolve().name}-{hashlib.sha256(state.encode()).hexdigest()[:12]}"
    if not is_complete(folder):
        fill(open_source("folder", data, size=size, skip_damaged=True), folder, watcher=watcher)
    reasons = read_meta(folder).recipe.get("left_out", [])
    if reasons:
        named = "; ".join(reasons[:LISTED]) + ("; …" if len(reasons) > LISTED else "")
        watcher.say(f"left out {plural(len(reasons), 'damaged image')}: {named}")
    return folder


def fit_of(store: Path) -> Fit | None:
    """How the store's images were fitted: those of a folder or of Parquet files are cut to their central square."""
    first = store if (store / META).exists() else store / "train"
    return "crop" if read_meta(first).recipe.get("name") in OWN else None
