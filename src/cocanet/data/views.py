"""Views of stored images: a part of a store, and images at another size."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int, UInt8

from cocanet.data.loader import GatherSource
from cocanet.data.store import Store


@runtime_checkable
class Images(GatherSource, Protocol):
    """A split: images that the loader can gather, and what their labels mean."""

    @property
    def background_labels(self) -> int: ...

    @property
    def has_labels(self) -> bool: ...


@dataclass(frozen=True)
class Part:
    """A range of a store's samples, in the store's order or in another."""

    store: Store
    start: int
    stop: int
    order: Int[np.ndarray, " n"] | None = field(default=None, compare=False, repr=False)
    """A permutation of all the store's samples."""

    @property
    def background_labels(self) -> int:
        return self.store.background_labels

    @property
    def has_labels(self) -> bool:
        return self.store.has_labels

    def __len__(self) -> int:
        return self.stop - self.start

    def gather(self, indices: Int[np.ndarray, " b"]) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]:
        outside = indices[(indices < 0) | (indices >= len(self))]
        if len(outside):
            raise IndexError(f"sample {outside[0]} of {len(self)}")
        rows = indices + self.start
        return self.store.gather(rows if self.order is None else self.order[rows])


@dataclass(frozen=True)
class View:
    """As many images as `images`, with the same kind of labels."""

    images: Images

    @property
    def background_labels(self) -> int:
        return self.images.background_labels

    @property
    def has_labels(self) -> bool:
        return self.images.has_labels

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Resized(View):
    """Images resized when they are read: bilinearly with antialiasing, labels to the nearest pixel."""

    size: tuple[int, int]

    def gather(self, indices: Int[np.ndarray, " b"]) -> tuple[UInt8[np.ndarray, "b h w 3"], UInt8[np.ndarray, "b h w"]]:
        images, labels = self.images.gather(indices)
        planes = torch.from_numpy(images).permute(0, 3, 1, 2)
        (height, width), (rows, columns) = images.shape[1:3], self.size
        if height % rows == 0 and width % columns == 0:  # means over blocks blur less
            smooth = F.avg_pool2d(planes.float(), (height // rows, width // columns)).round_().to(torch.uint8)
        else:
            smooth = F.interpolate(planes, self.size, mode="bilinear", antialias=True, align_corners=False)
        nearest = F.interpolate(torch.from_numpy(labels)[:, None], self.size, mode="nearest-exact")
        return smooth.permute(0, 2, 3, 1).contiguous().numpy(), nearest[:, 0].numpy()


def store_of(images: Images) -> Path | None:
    """The folder of the store that images come from; None for generated scenes."""
    if isinstance(images, Resized):
        return store_of(images.images)
    return images.store.path if isinstance(images, Part) else None


def size_of(images: Images) -> tuple[int, int]:
    """Rows and columns of every image."""
    height, width = images.gather(np.arange(1))[1].shape[1:]
    return height, width
