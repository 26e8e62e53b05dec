"""The clustering steps of each level: anchors, scopes, affinities and clusters, over the cells of the image.

Cells are those of the first level: the pixels, unless the backbone has strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from cocanet.config.windows import Window, grid_after
from cocanet.functional.geometry import Geometry, partition_geometry, pixel_geometry
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.windows import unpartition
from cocanet.layers.coca import Clusters
from cocanet.models.output import Level


class ClusteringSteps(NamedTuple):
    """The steps of one level in one image. Each step has an anchor, except the last: it takes the remaining scope."""

    scopes: Float[np.ndarray, "k h w"]
    """The scope before each step."""
    affinities: Float[np.ndarray, "k-1 h w"]
    clusters: Float[np.ndarray, "k h w"]
    anchors: Float[np.ndarray, "w k-1 2"]
    """Row and column of every window's anchors; NaN for steps that are not in use."""

    @property
    def used(self) -> int:
        """Steps in use."""
        return 1 + int((~np.isnan(self.anchors[..., 0])).any(0).sum())


def clustering_steps(levels: Sequence[Level], number: int) -> ClusteringSteps:
    """The steps of level `number`, counted from 0, in a batch of one image."""
    clusters = levels[number].clusters
    taken = clusters.masks.cumsum(2)
    scopes = 1 - torch.cat((torch.zeros_like(taken[:, :, :1]), taken[:, :, :-1]), 2)
    parts = (scopes, clusters.affinities, clusters.masks)
    scope, affinity, cluster = (_array(spread_soft(levels, number, part)[0]) for part in parts)
    in_use = clusters.in_use[0, :, 1:, None]
    anchors = anchor_positions(levels, number)[0].where(in_use, torch.nan)
    return ClusteringSteps(scope, affinity, cluster, _array(anchors))


def select_image(levels: Sequence[Level], index: int) -> list[Level]:
    """The levels of one image of a batch, as a batch of one."""

    def pick(x: Tensor) -> Tensor:
        return x[index].unsqueeze(0)

    def select(clusters: Clusters) -> Clusters:
        fields = {name: pick(x) for name, x in clusters._asdict().items() if isinstance(x, Tensor)}
        return clusters._replace(**fields, geometry=clusters.geometry.each(pick))

    return [level._replace(clusters=select(level.clusters)) for level in levels]


def window_cells(levels: Sequence[Level], number: int) -> Window:
    """Rows and columns of cells in a window of a level; the first level is number 0."""
    (height, width), level = levels[0].grid, levels[number]
    rows, columns = grid_after(level.grid, level.window)
    return height // rows, width // columns


def spread_soft(
    levels: Sequence[Level], number: int, values: Float[Tensor, "b w m n"]
) -> Float[Tensor, "b m height width"]:
    """Values of a level's nodes over the cells: a cell has the mean of its nodes' values, weighted by its masks."""
    below = levels[:number]
    masks = [*(level.clusters.masks for level in below), values]
    windows = [*(level.window for level in below), levels[number].window]
    merged = merge_masks(masks, windows, levels[0].grid)
    rows, _ = grid_after(levels[number].grid, levels[number].window)
    return rearrange(merged, "b (gr gc) m h w -> b m (gr h) (gc w)", gr=rows)


def spread_hard(
    levels: Sequence[Level], number: int, values: Float[Tensor, "b w n"]
) -> Float[Tensor, "b height width"]:
    """Values of a level's nodes over the cells: a cell has the value of the node with the largest mask there."""
    level = levels[number]
    grid = unpartition(values.unsqueeze(-1), level.window, level.grid).squeeze(-1)
    if number == 0:
        return grid.squeeze(-1)
    below = levels[:number]
    masks = merge_masks([x.clusters.masks for x in below], [x.window for x in below], levels[0].grid)
    owner = masks.argmax(2)
    cells = rearrange(grid, "b rows columns c -> b (rows columns) c")
    hard = cells.gather(2, owner.flatten(2)).view(owner.shape)
    return rearrange(hard, "b (rows columns) h w -> b (rows h) (columns w)", rows=level.grid[0])


def node_geometry(levels: Sequence[Level], number: int) -> Geometry:
    """Geometry, in cells, of the nodes in each window of a level; on the first level all images share it."""
    level = levels[number]
    if number == 0:
        cells = pixel_geometry(*level.grid, device=level.clusters.masks.device).each(lambda x: x[None, :, :, None])
        return partition_geometry(cells, level.window)
    rows, columns = level.grid
    below = levels[number - 1].clusters.geometry
    return partition_geometry(below.each(lambda x: x.reshape(len(x), rows, columns, *x.shape[2:])), level.window)


def anchor_positions(levels: Sequence[Level], number: int) -> Float[Tensor, "b w anchors 2"]:
    """Row and column, in cells, of each window's anchors, in the order of the steps."""
    anchors = levels[number].clusters.anchors
    nodes = node_geometry(levels, number).position.expand(len(anchors), -1, -1, -1)
    return nodes.gather(2, anchors.unsqueeze(-1).expand(*anchors.shape, 2))


def _array(x: Float[Tensor, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(x.detach().cpu().numpy())
