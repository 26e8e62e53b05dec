"""A store's images as files, for other programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from cocanet.data.store import Store
from cocanet.files import check_folder_writable
from cocanet.watch import QUIET, Watcher


def export_images(store: Store, out: Path, watcher: Watcher = QUIET) -> int:
    """Write `images/000123.png` and, of a labelled store, `masks/000123.png` with the labels themselves."""
    check_folder_writable(out)
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; give another folder with --out")
    kinds = ("images", "masks") if store.has_labels else ("images",)
    for kind in kinds:
        (out / kind).mkdir(parents=True)
    with watcher.progress("writing", len(store)) as done:
        for index in range(len(store)):
            for kind, pixels in zip(kinds, store.gather(np.arange(index, index + 1)), strict=False):
                Image.fromarray(pixels[0]).save(out / kind / f"{index:06d}.png")
            done(index + 1)
    return len(store)
