"""Maps over a grid of cells as maps over an image, and back."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def enlarge(maps: Float[Tensor, "b k rows columns"], size: tuple[int, int]) -> Float[Tensor, "b k h w"]:
    """Maps interpolated to an image; what sums to 1 over `k` still does."""
    if maps.shape[-2:] == size:
        return maps
    return F.interpolate(maps, size, mode="bilinear", align_corners=False)


def repeat_cells(maps: Float[Tensor, "b k rows columns"], size: tuple[int, int]) -> Float[Tensor, "b k h w"]:
    """Maps in which every pixel has its cell's value: what windows cut stays cut there."""
    rows, columns = size[0] // maps.shape[-2], size[1] // maps.shape[-1]
    return maps.repeat_interleave(rows, -2).repeat_interleave(columns, -1)


def shrink(maps: Float[Tensor, "b k h w"], grid: tuple[int, int]) -> Float[Tensor, "b k rows columns"]:
    """Means over the pixels of each cell."""
    if maps.shape[-2:] == grid:
        return maps
    height, width = maps.shape[-2] // grid[0], maps.shape[-1] // grid[1]
    return F.avg_pool2d(maps, (height, width))
