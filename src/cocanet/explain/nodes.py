"""From a level's nodes back to the pixels they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from cocanet.config.windows import Window, grid_after
from cocanet.functional.geometry import pixel_geometry
from cocanet.functional.hierarchy import merge_masks
from cocanet.functional.windows import partition, unpartition
from cocanet.layers.coca import Clusters
from cocanet.models.output import Level


def image_size(levels: Sequence[Level]) -> tuple[int, int]:
    """The first level's cells are the pixels."""
    return levels[0].grid


def of_one_image(levels: Sequence[Level], index: int) -> list[Level]:
    """The levels of one image of a batch, as a batch of one."""

    def pick(x: Tensor) -> Tensor:
        return x[index].unsqueeze(0)

    def alone(clusters: Clusters) -> Clusters:
        fields = {name: pick(x) for name, x in clusters._asdict().items() if isinstance(x, Tensor)}
        return clusters._replace(**fields, geometry=clusters.geometry.each(pick))

    return [level._replace(clusters=alone(level.clusters)) for level in levels]


def window_pixels(levels: Sequence[Level], number: int) -> Window:
    """Size in pixels of a window of a level; the first level is number 0."""
    (height, width), level = image_size(levels), levels[number]
    rows, columns = grid_after(level.grid, level.window)
    return height // rows, width // columns


def spread(levels: Sequence[Level], number: int, values: Float[Tensor, "b w m n"]) -> Float[Tensor, "b m height width"]:
    """Values of a level's nodes over the pixels: each pixel gets those of its nodes, in the shares it has in them."""
    below = levels[:number]
    masks = [*(level.clusters.masks for level in below), values]
    windows = [*(level.window for level in below), levels[number].window]
    merged = merge_masks(masks, windows, image_size(levels))
    rows, _ = grid_after(levels[number].grid, levels[number].window)
    return rearrange(merged, "b (gr gc) m h w -> b m (gr h) (gc w)", gr=rows)


def spread_to_owners(
    levels: Sequence[Level], number: int, values: Float[Tensor, "b w n"]
) -> Float[Tensor, "b height width"]:
    """Values of a level's nodes over the pixels: each pixel gets that of the node that holds most of it."""
    level = levels[number]
    grid = unpartition(values.unsqueeze(-1), level.window, level.grid).squeeze(-1)
    if number == 0:
        return grid.squeeze(-1)
    below = levels[:number]
    shares = merge_masks([x.clusters.masks for x in below], [x.window for x in below], image_size(levels))
    owner = shares.argmax(2)
    cells = rearrange(grid, "b rows columns c -> b (rows columns) c")
    held = cells.gather(2, owner.flatten(2)).view(owner.shape)
    return rearrange(held, "b (rows columns) h w -> b (rows h) (columns w)", rows=level.grid[0])


def node_positions(levels: Sequence[Level], number: int) -> Float[Tensor, "b w n 2"]:
    """Row and column, in pixels, of the centre of every node that a level clusters."""
    level = levels[number]
    if number == 0:
        position = pixel_geometry(*level.grid, device=level.clusters.masks.device).position[None, :, :, None]
        return partition(position, level.window).expand(len(level.clusters.masks), -1, -1, -1)
    position = levels[number - 1].clusters.geometry.position
    rows, columns = level.grid
    return partition(position.reshape(len(position), rows, columns, -1, 2), level.window)


def anchor_positions(levels: Sequence[Level], number: int) -> Float[Tensor, "b w anchors 2"]:
    """Row and column of each window's anchors, in the order they were chosen."""
    anchors = levels[number].clusters.anchors
    return node_positions(levels, number).gather(2, anchors.unsqueeze(-1).expand(*anchors.shape, 2))
