"""Non-overlapping windows over a grid of cells (Sec. 3.1.2): a pair of pure functions.

Axis letters, here and everywhere: b batch, w windows, n nodes of a window, k clusters, u candidates, d features;
a grid has `rows` × `columns` cells with `c` nodes each.
"""

from __future__ import annotations

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from cocanet.config.windows import Window, grid_after


def partition(grid: Float[Tensor, "b rows columns c d"], window: Window) -> Float[Tensor, "b w n d"]:
    """Nodes of each window, row by row; the nodes of one cell stay together."""
    grid_after((grid.shape[1], grid.shape[2]), window)
    return rearrange(grid, "b (gr h) (gc w) c d -> b (gr gc) (h w c) d", h=window[0], w=window[1])


def unpartition(
    nodes: Float[Tensor, "b w n d"], window: Window, grid: tuple[int, int]
) -> Float[Tensor, "b rows columns c d"]:
    """The grid that `partition` took apart; `grid` is its number of rows and columns of cells."""
    rows, columns = grid_after(grid, window)
    return rearrange(
        nodes,
        "b (gr gc) (h w c) d -> b (gr h) (gc w) c d",
        gr=rows,
        gc=columns,
        h=window[0],
        w=window[1],
    )
