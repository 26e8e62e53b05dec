"""A level's clusters as masks over the model's image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.resizing import repeat_cells
from cocanet.models.coca_net import Encoding
from cocanet.segment.base import BatchMasks


class Masks(NamedTuple):
    """`BatchMasks` of torch's tensors."""

    masks: Float[Tensor, "b k height width"]
    vectors: Float[Tensor, "b n d"]
    in_use: Bool[Tensor, "b k"] | None
    window: Window
    reconstruction: Float[Tensor, "b 3 height width"] | None = None

    def arrays(self) -> BatchMasks:
        """The same in NumPy's arrays, which is all that the rest of segmenting knows."""
        return BatchMasks(
            _array(self.masks),
            _array(self.vectors),
            None if self.in_use is None else np.asarray(self.in_use.cpu().numpy()),
            self.window,
            None if self.reconstruction is None else _array(self.reconstruction),
        )


def level_masks(found: Encoding, level: int, size: tuple[int, int]) -> Masks:
    """Masks of the clusters of a level, from 1, over images of a size; on the last level those of the objects."""
    if level == len(found.levels):
        return Masks(found.masks, found.slots, found.in_use, size)
    below = found.levels[:level]
    grid = below[0].grid
    merged = merge_masks([part.clusters.masks for part in below], [part.window for part in below], grid)
    rows = grid[0] // merged.shape[3]
    masks = repeat_cells(rearrange(merged, "b (gr gc) k h v -> b k (gr h) (gc v)", gr=rows), size)
    window = size[0] // rows, size[1] * merged.shape[4] // grid[1]
    return Masks(masks, rearrange(below[-1].clusters.features, "b w k d -> b (w k) d"), None, window)


def _array(values: Tensor) -> Float[np.ndarray, "..."]:
    return np.asarray(values.float().cpu().numpy())
