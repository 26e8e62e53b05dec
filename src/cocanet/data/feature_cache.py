"""Features of a frozen network, computed once and kept beside the store.

A file holds one row of float16 for each image, in the order of the split. Its name is a hash of the images and of the
network. While it is written it ends in `.part`, and a second file says how many rows are done: the next run goes on.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float16, Int, UInt8

from cocanet.data.splits import fingerprint
from cocanet.data.views import Images, View
from cocanet.files import hold, write_atomically
from cocanet.progress import QUIET, Progress
from cocanet.words import plural

MAX_BYTES = 2**33
"""Of all files beside a store: the oldest are deleted for a new one. Images beyond it have no kept features."""
BLOCK = 64
"""Images between two notes of what is done."""
FOLDER = "{}-features"
SUFFIX = ".f16"


@runtime_checkable
class Network(Protocol):
    """What computes features: `models.pretrained.PretrainedFeatures` is one."""

    def packed(self, images: UInt8[np.ndarray, "b h w 3"]) -> Float16[np.ndarray, "b n"]: ...

    @property
    def values(self) -> int: ...

    def digest(self) -> str: ...


@dataclass(frozen=True)
class WithFeatures(View):
    """Images with kept features of the first `kept` of them."""

    rows: Float16[np.ndarray, "kept n"]

    def gather(self, indices: Int[np.ndarray, " b"]) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]:
        return self.images.gather(indices)

    def gather_features(self, indices: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b n"] | None:
        """Features of images; None if some of them are not kept."""
        return None if (indices >= len(self.rows)).any() else self.rows[indices]


def with_features(
    images: Images,
    store: Path | None,
    network: Network,
    progress: Progress = QUIET,
) -> Images:
    """The images with their features, which are computed first where they are not kept yet.

    Images without a store, and stores in a folder that cannot be written to, have none.
    """
    row = 2 * network.values
    count = min(len(images), MAX_BYTES // row)
    if store is None or not os.access(store.parent, os.W_OK):
        return images
    folder = store.parent / FOLDER.format(store.name)
    path = folder / f"{fingerprint(images)[:16]}-{network.digest()[:16]}{SUFFIX}"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        with ExitStack() as holding:
            holding.enter_context(hold(path.with_suffix(".lock"), "is being filled with features"))
            _make_room(folder, path, count * row)
            _fill(path, images, (count, network.values), network, progress)
    return WithFeatures(images, np.memmap(path, np.float16, "r", shape=(count, network.values)).view(np.ndarray))


def _fill(
    path: Path,
    images: Images,
    shape: tuple[int, int],
    network: Network,
    progress: Progress,
) -> None:
    part, note = path.with_suffix(".part"), path.with_suffix(".done")
    bytes_in_all = 2 * shape[0] * shape[1]
    fresh = not part.exists() or part.stat().st_size != bytes_in_all
    done = 0 if fresh or not note.exists() else int(note.read_text() or 0)
    rows = np.memmap(part, np.float16, "w+" if fresh else "r+", shape=shape)
    progress.say(f"features of {plural(shape[0], 'image')} are computed once and kept in {path.parent}")
    with progress.bar("features", shape[0]) as show:
        for start in range(done, shape[0], BLOCK):
            stop = min(start + BLOCK, shape[0])
            rows[start:stop] = network.packed(images.gather(np.arange(start, stop))[0])
            rows.flush()
            write_atomically(note, [str(stop).encode()])
            show(stop)
    os.replace(part, path)
    note.unlink(missing_ok=True)


def _make_room(folder: Path, path: Path, wanted: int) -> None:
    """Delete the oldest files until a new one fits within the limit."""
    others = sorted(
        (each for each in folder.iterdir() if each.stem != path.stem and each.suffix in (SUFFIX, ".part")),
        key=lambda each: each.stat().st_mtime,
    )
    sizes = [each.stat().st_size for each in others]
    for number, each in enumerate(others):
        if sum(sizes[number:]) + wanted <= MAX_BYTES:
            return
        with suppress(FileNotFoundError):
            each.unlink()
