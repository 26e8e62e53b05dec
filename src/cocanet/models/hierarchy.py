"""The encoder: COCA layers stacked until one window holds the image (Sec. 3.2)."""

from __future__ import annotations

from typing import NamedTuple

from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cocanet.config import CocaNetConfig, LevelConfig
from cocanet.config.slots import SlotLimits
from cocanet.config.windows import grid_after
from cocanet.functional.geometry import Geometry, partition_geometry, pixel_geometry
from cocanet.functional.pooling import Pooled, pool, pool_again
from cocanet.functional.windows import partition
from cocanet.layers.attention import GlobalReach, NeighbourhoodReach, Reach, RefineBlock, WindowReach
from cocanet.layers.coca import Clusters, CocaLayer
from cocanet.layers.linear import MLP
from cocanet.layers.norm import GroupNorm
from cocanet.layers.precision import at_least_float32, full_precision
from cocanet.models.output import Level


class Nodes(NamedTuple):
    """Input of a level: nodes on a grid of cells, `c` to a cell."""

    features: Float[Tensor, "b rows columns c d"]
    geometry: Geometry
    skipped: Pooled | None
    """Inputs of the level below, pooled by its masks: the skip connection across one level."""


class HierarchyLevel(nn.Module):
    """Refine, cluster and pool, and add the skip connection."""

    def __init__(
        self, config: LevelConfig, model: CocaNetConfig, grid: tuple[int, int], per_cell: int, first: bool
    ) -> None:
        super().__init__()
        self.window, self.grid = config.window, grid
        self.refine = nn.Sequential(
            *(
                RefineBlock(model.dim, model.heads, _reach(config, grid, per_cell), model.norm)
                for _ in range(config.depth)
            )
        )
        self.coca = CocaLayer(
            model.dim,
            config.window,
            per_cell,
            config.clusters,
            config.temperature,
            anchors=model.anchors,
            inertia=model.inertia,
            candidate_stride=config.candidate_stride,
            norm=model.norm,
        )
        self.norm = GroupNorm(model.dim, model.norm)
        self.skip = None if first else MLP(model.dim, model.dim, model.dim)

    def forward(self, nodes: Nodes, limits: SlotLimits | None = None) -> tuple[Nodes, Clusters]:
        """`limits` apply to the last level; the others have a fixed number of clusters."""
        below = partition(nodes.features, self.window)
        found: Clusters = self.coca(
            self.refine(below),
            partition_geometry(nodes.geometry, self.window),
            clusters=limits.max_slots if limits else None,
            scope_threshold=limits.scope_threshold if limits else 0.0,
            temperature=limits.temperature if limits else None,
        )
        with full_precision(below):
            skip = pool(found.masks, at_least_float32(below))
            found = found._replace(features=self._with_skip(found.features, found.masks, nodes.skipped))
        rows, columns = grid_after(self.grid, self.window)

        def on_grid(x: Tensor) -> Tensor:
            return x.view(x.shape[0], rows, columns, *x.shape[2:])

        above = Nodes(
            features=on_grid(found.features),
            geometry=found.geometry.each(on_grid),
            skipped=Pooled(*map(on_grid, skip)),
        )
        return above, found

    def _with_skip(
        self, features: Float[Tensor, "b w k d"], masks: Float[Tensor, "b w k n"], skipped: Pooled | None
    ) -> Float[Tensor, "b w k d"]:
        if self.skip is None or skipped is None:
            return features
        nodes = Pooled(
            partition(skipped.total, self.window),
            partition(skipped.weight.unsqueeze(-1), self.window).squeeze(-1),
        )
        mean = self.norm(pool_again(masks, nodes).mean())
        out: Tensor = features + self.norm(mean + self.skip(mean))
        return out


class HierarchyOutput(NamedTuple):
    """Slots, and every level that led to them."""

    slots: Float[Tensor, "b k d"]
    in_use: Bool[Tensor, "b k"]
    levels: tuple[Level, ...]


class Hierarchy(nn.Module):
    """Pixels to slots, level by level."""

    def __init__(self, config: CocaNetConfig) -> None:
        super().__init__()
        self.grid = config.grid
        self.levels = nn.ModuleList()
        grid, per_cell = config.grid, 1
        for number, level in enumerate(config.levels):
            self.levels.append(HierarchyLevel(level, config, grid, per_cell, first=number == 0))
            grid, per_cell = grid_after(grid, level.window), level.clusters
        self.norm = GroupNorm(config.dim, config.norm)
        self.mlp = MLP(config.dim, config.dim, config.dim)

    def forward(self, pixels: Float[Tensor, "b h w d"], limits: SlotLimits) -> HierarchyOutput:
        geometry = pixel_geometry(*self.grid, pixels.device, at_least_float32(pixels).dtype)
        nodes = Nodes(pixels.unsqueeze(3), geometry.each(lambda x: x[None, :, :, None]), None)
        levels: list[Level] = []
        for number, level in enumerate(self.levels, 1):
            assert isinstance(level, HierarchyLevel)
            nodes, clusters = level(nodes, limits if number == len(self.levels) else None)
            levels.append(Level(level.window, level.grid, clusters))
        x = self.norm(rearrange(nodes.features, "b 1 1 k d -> b k d"))
        return HierarchyOutput(x + self.mlp(x), levels[-1].clusters.in_use.squeeze(1), tuple(levels))


def _reach(config: LevelConfig, grid: tuple[int, int], per_cell: int) -> Reach:
    if config.attention == "neighbourhood" and config.kernel is not None:
        return NeighbourhoodReach(config.kernel, config.window, grid, per_cell)
    return GlobalReach() if config.attention == "global" else WindowReach()
