"""From a level's nodes back to the cells they stand for: the pixels, unless the backbone shrinks the image."""

from __future__ import annotations

from collections.abc import Sequence

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from cocanet.config.windows import Window, grid_after
from cocanet.functional.geometry import Geometry, partition_geometry, pixel_geometry
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.windows import unpartition
from cocanet.layers.coca import Clusters
from cocanet.models.output import Level


def cell_grid(levels: Sequence[Level]) -> tuple[int, int]:
    """Rows and columns of the first level's cells."""
    return levels[0].grid


def of_one_image(levels: Sequence[Level], index: int) -> list[Level]:
    """The levels of one image of a batch, as a batch of one."""

    def pick(x: Tensor) -> Tensor:
        return x[index].unsqueeze(0)

    def alone(clusters: Clusters) -> Clusters:
        fields = {name: pick(x) for name, x in clusters._asdict().items() if isinstance(x, Tensor)}
        return clusters._replace(**fields, geometry=clusters.geometry.each(pick))

    return [level._replace(clusters=alone(level.clusters)) for level in levels]


def window_cells(levels: Sequence[Level], number: int) -> Window:
    """Size in cells of a window of a level; the first level is number 0."""
    (height, width), level = cell_grid(levels), levels[number]
    rows, columns = grid_after(level.grid, level.window)
    return height // rows, width // columns


def spread(levels: Sequence[Level], number: int, values: Float[Tensor, "b w m n"]) -> Float[Tensor, "b m height width"]:
    """Values of a level's nodes over the cells: each cell gets those of its nodes, in the shares it has in them."""
    below = levels[:number]
    masks = [*(level.clusters.masks for level in below), values]
    windows = [*(level.window for level in below), levels[number].window]
    merged = merge_masks(masks, windows, cell_grid(levels))
    rows, _ = grid_after(levels[number].grid, levels[number].window)
    return rearrange(merged, "b (gr gc) m h w -> b m (gr h) (gc w)", gr=rows)


def spread_to_owners(
    levels: Sequence[Level], number: int, values: Float[Tensor, "b w n"]
) -> Float[Tensor, "b height width"]:
    """Values of a level's nodes over the cells: each cell gets that of the node that holds most of it."""
    level = levels[number]
    grid = unpartition(values.unsqueeze(-1), level.window, level.grid).squeeze(-1)
    if number == 0:
        return grid.squeeze(-1)
    below = levels[:number]
    shares = merge_masks([x.clusters.masks for x in below], [x.window for x in below], cell_grid(levels))
    owner = shares.argmax(2)
    cells = rearrange(grid, "b rows columns c -> b (rows columns) c")
    held = cells.gather(2, owner.flatten(2)).view(owner.shape)
    return rearrange(held, "b (rows columns) h w -> b (rows h) (columns w)", rows=level.grid[0])


def node_geometry(levels: Sequence[Level], number: int) -> Geometry:
    """Geometry, in cells, of every node of each window that a level clusters; one for all images on the first."""
    level = levels[number]
    if number == 0:
        cells = pixel_geometry(*level.grid, device=level.clusters.masks.device).each(lambda x: x[None, :, :, None])
        return partition_geometry(cells, level.window)
    rows, columns = level.grid
    below = levels[number - 1].clusters.geometry
    return partition_geometry(below.each(lambda x: x.reshape(len(x), rows, columns, *x.shape[2:])), level.window)


def node_positions(levels: Sequence[Level], number: int) -> Float[Tensor, "b w n 2"]:
    """Row and column, in cells, of the centre of every node that a level clusters."""
    return node_geometry(levels, number).position.expand(len(levels[number].clusters.masks), -1, -1, -1)


def anchor_positions(levels: Sequence[Level], number: int) -> Float[Tensor, "b w anchors 2"]:
    """Row and column, in cells, of each window's anchors, in the order they were chosen."""
    anchors = levels[number].clusters.anchors
    return node_positions(levels, number).gather(2, anchors.unsqueeze(-1).expand(*anchors.shape, 2))
