"""The encoder's segmentation: attention over the features' grid as masks over the image."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def enlarge(
    maps: Float[Tensor, "b k n"], grid: tuple[int, int], image_size: tuple[int, int]
) -> Float[Tensor, "b k h w"]:
    """Lay out maps on their grid and interpolate them to the image."""
    laid_out: Tensor = maps.unflatten(-1, grid)
    if grid == image_size:
        return laid_out
    return F.interpolate(laid_out, image_size, mode="bilinear", align_corners=False)


def share(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """Make masks sum to 1 over the slots."""
    return masks / masks.sum(1, keepdim=True)


def stretch(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """Stretch each mask by itself to [0, 1]; one that is the same everywhere becomes 0.

    The paper stretches attention that was normalised over positions. That is a factor and a term for each slot, which
    stretching undoes, so attention itself gives the same.
    """
    low, high = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
    width = high - low
    return (masks - low) / width.where(width > 0, 1)
