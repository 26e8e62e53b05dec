"""Optional refinement of a network's masks, outside of the network."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.config.refine import RefineConfig
from cocanet.refine.mean_field import mean_field
from cocanet.refine.merge import merge_components

__all__ = ["refine"]


@torch.no_grad()
def refine(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b 3 h w"],
    in_use: Bool[Tensor, "b k"],
    config: RefineConfig,
) -> Float[Tensor, "b k h w"]:
    """Masks after mean-field refinement; they sum to 1, and slots that are not in use stay empty.

    With `config.merge`, connected components of the refined masks are merged into at most as many segments as there
    are slots in use, and the result is refined once more.
    """
    colours = images - (1 - config.brightness_weight) * images.mean(1, keepdim=True)
    masks = mean_field(masks, colours, in_use, config)
    if config.merge:
        masks = merge_components(masks, colours, in_use, min_area=config.min_area, noise=config.noise)
        masks = mean_field(masks, colours, in_use, config)
    return masks
