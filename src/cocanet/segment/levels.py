"""A level's clusters as masks over the model's image, and each image of a batch by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from einops import rearrange
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.resizing import repeat_cells
from cocanet.models.coca_net import Encoding
from cocanet.segment.labelling import Found
from cocanet.segment.placement import Placement


class Masks(NamedTuple):
    """A batch of what `Found` holds for one image."""

    masks: Float[Tensor, "b k height width"]
    vectors: Float[Tensor, "b n d"]
    in_use: Bool[Tensor, "b k"] | None
    window: Window
    reconstruction: Float[Tensor, "b 3 height width"] | None = None


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


def found_in(
    batch: Sequence[UInt8[np.ndarray, "_h _w 3"]], placements: Sequence[Placement], found: Masks
) -> list[Found]:
    """What was found in each image of a batch, without the slots that only pad it."""
    masks, vectors = found.masks.float().cpu(), found.vectors.float().cpu()
    in_use = None if found.in_use is None else found.in_use.cpu()
    painted = None if found.reconstruction is None else found.reconstruction.float().cpu()
    return [
        Found(
            pixels,
            placement,
            masks[index] if in_use is None else masks[index][in_use[index]],
            vectors[index] if in_use is None else vectors[index][in_use[index]],
            found.window,
            None if painted is None else painted[index],
        )
        for index, (pixels, placement) in enumerate(zip(batch, placements, strict=True))
    ]
