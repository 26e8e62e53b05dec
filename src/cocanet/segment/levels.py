"""What torch computed as NumPy arrays: masks of the slots, or of a level's clusters, over the model's image."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.models.coca_net import CocaNet, Encoding
from cocanet.segment.base import BatchMasks


def level_masks(model: CocaNet, found: Encoding, level: int) -> BatchMasks:
    """Masks of the clusters of a level, from 1; on the last level those of the objects."""
    config = model.config
    if level == len(found.levels):
        return BatchMasks(as_array(found.masks), as_array(found.slots), as_flags(found.in_use), config.image_size)
    parts = model.parts(found.levels[:level])
    return BatchMasks(as_array(parts.masks), as_array(parts.features), None, config.window_pixels(level))


def as_array(values: Tensor) -> Float[np.ndarray, "..."]:
    return np.asarray(values.float().cpu().numpy())


def as_flags(values: Bool[Tensor, "b k"]) -> Bool[np.ndarray, "b k"]:
    return np.asarray(values.cpu().numpy())
