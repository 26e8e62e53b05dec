"""What a store's labels say about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from cocanet.data.store import Store
from cocanet.labels import UNLABELLED


class Objects(NamedTuple):
    """`images[k]` images show k objects; the smallest object shown has `smallest` pixels."""

    images: Int[np.ndarray, " k"]
    smallest: int
    unlabelled: int
    """Images whose objects nobody marked."""


def count_objects(store: Store) -> Objects:
    """Objects that show in each image of a store, from its labels."""
    images = np.zeros(257 - store.background_labels, dtype=np.int64)
    smallest = store.meta.height * store.meta.width
    unlabelled = 0
    for chunk in _label_chunks(store):
        labels = chunk[(chunk != UNLABELLED).any(axis=(1, 2))]
        unlabelled += len(chunk) - len(labels)
        flat = labels.reshape(len(labels), -1).astype(np.int32)
        flat += 256 * np.arange(len(labels), dtype=np.int32)[:, None]
        pixels = np.bincount(flat.reshape(-1), minlength=256 * len(labels)).reshape(-1, 256)
        pixels = pixels[:, store.background_labels :]
        images += np.bincount((pixels > 0).sum(axis=1), minlength=len(images))
        smallest = min(smallest, int(pixels[pixels > 0].min(initial=smallest)))
    return Objects(np.trim_zeros(images, "b"), smallest, unlabelled)


def _label_chunks(store: Store, rows: int = 256) -> Iterator[np.ndarray]:
    for start in range(0, len(store), rows):
        yield store.gather(np.arange(start, min(start + rows, len(store))))[1]
