"""The dendrogram: masks of all levels multiplied down to the pixels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from cocanet.config.windows import Window, grid_after


def merge_masks(
    masks: Sequence[Float[Tensor, "b _w _k _n"]], windows: Sequence[Window], image: tuple[int, int]
) -> Float[Tensor, "b w k height width"]:
    """Masks of the top level's clusters over the pixels of its windows, from the masks of every level below.

    `masks[l]` assigns the nodes of a window on level l to its clusters. On a last level with a single window the
    result covers the image: one mask a slot.
    """
    grid = grid_after(image, windows[0])
    merged = rearrange(masks[0], "b w k (h v) -> b w k h v", h=windows[0][0])
    for level, window in zip(masks[1:], windows[1:], strict=True):
        merged = _merge_level(level, merged, window, grid)
        grid = grid_after(grid, window)
    return merged


def _merge_level(
    level: Float[Tensor, "b w k n"],
    below: Float[Tensor, "b cells c h v"],
    window: Window,
    grid: tuple[int, int],
) -> Float[Tensor, "b w k height width"]:
    height, width = window
    rows, columns = grid_after(grid, window)
    c, h, v = below.shape[2:]
    parts = rearrange(below, "b (gr i gc j) c h v -> b gr gc i j c (h v)", gr=rows, i=height, gc=columns, j=width)
    assigned = rearrange(level, "b (gr gc) k (i j c) -> b gr gc i j k c", gr=rows, i=height, j=width, c=c)
    return rearrange(torch.matmul(assigned, parts), "b gr gc i j k (h v) -> b (gr gc) k (i h) (j v)", h=h, v=v)
