"""The one sample type of every data set, and what a source of samples must offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8


class Sample(NamedTuple):
    """One image with its instance labels.

    Labels 0 … background-1 are background segments, the objects follow; all are `UNLABELLED` where this image's
    segments are not known while those of others are. `factors` holds one array per factor of
    variation (position, shape, colour, …), its first axis running over the objects of this image.
    """

    image: UInt8[np.ndarray, "h w 3"]
    labels: UInt8[np.ndarray, "h w"]
    factors: Mapping[str, np.ndarray]


@runtime_checkable
class Source(Protocol):
    """Samples by index: a scene generator with its seed, or a reader of a published file.

    Sample `i` is always the same, whatever was asked for before it and in whichever process.
    """

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What makes this source again: a name, a seed, options. Written to the store as JSON."""

    @property
    def background_labels(self) -> int:
        """How many of the lowest labels are background; 0 where the source has no labels."""

    @property
    def has_labels(self) -> bool:
        """False where the images come without masks (labels are then all zero)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...
