"""The sample type of every data set, and the protocol of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8


class Sample(NamedTuple):
    """One image with its instance labels.

    Labels 0 … background-1 are background segments; the objects follow. Every label is `UNLABELLED` in an image whose
    true segments are unknown. `factors` holds one array per factor of variation (position, shape, colour, …); its
    first axis runs over the objects of this image.
    """

    image: UInt8[np.ndarray, "h w 3"]
    labels: UInt8[np.ndarray, "h w"]
    factors: Mapping[str, np.ndarray]


@runtime_checkable
class Source(Protocol):
    """Samples by index: a scene generator with its seed, or a reader of a published file.

    Sample `i` is always the same, in any order of access and in any process.
    """

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Everything that defines this source: a name, a seed, options. Written to the store as JSON."""

    @property
    def background_labels(self) -> int:
        """How many of the lowest labels are background; 0 where the source has no labels."""

    @property
    def has_labels(self) -> bool:
        """False where the images come without masks (labels are then all zero)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...
