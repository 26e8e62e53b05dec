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
from cocanet.layers.precision import full_precision
from cocanet.models.output import Level


class Nodes(NamedTuple):
    """What one level hands to the next: nodes on a grid of cells, `c` to a cell."""

    features: Float[Tensor, "b rows columns c d"]
    geometry: Geometry
    skipped: Pooled | None
    """The level below's own inputs, pooled by its masks; they skip one level."""


class HierarchyLevel(nn.Module):
    """Refine, cluster and pool, and add what skipped the level below."""

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
            sharpen=config.sharpen,
            anchors=model.anchors,
            candidate_stride=config.candidate_stride,
            norm=model.norm,
        )
        self.norm = GroupNorm(model.dim, model.norm)
        self.skip = None if first else MLP(model.dim, model.dim, model.dim)

    def forward(self, nodes: Nodes, limits: SlotLimits | None = None) -> tuple[Nodes, Clusters]:
        """`limits` are the last level's; the others have a fixed number of clusters."""
        below = partition(nodes.features, self.window)
        found: Clusters = self.coca(
            self.refine(below),
            partition_geometry(nodes.geometry, self.window),
            clusters=limits.most if limits else None,
            stop_below=limits.stop_below if limits else 0.0,
            temperature=limits.temperature if limits else None,
        )
        with full_precision(below):
            passed_on = pool(found.masks, below.float())
            found = found._replace(features=self._with_skipped(found.features, found.masks, nodes.skipped))
        rows, columns = grid_after(self.grid, self.window)

        def on_grid(x: Tensor) -> Tensor:
            return x.view(x.shape[0], rows, columns, *x.shape[2:])

        above = Nodes(
            features=on_grid(found.features),
            geometry=found.geometry.each(on_grid),
            skipped=Pooled(*map(on_grid, passed_on)),
        )
        return above, found

    def pool(
        self, refined: Float[Tensor, "b w n d"], masks: Float[Tensor, "b w k n"], skipped: Pooled | None
    ) -> Float[Tensor, "b w k d"]:
        """Features of the clusters of other masks than the level's own."""
        with full_precision(refined):
            return self._with_skipped(self.coca.pool(refined, masks), masks, skipped)

    def _with_skipped(
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


class Climbed(NamedTuple):
    """What lies at the top of the hierarchy."""

    features: Float[Tensor, "b k d"]
    """Features of the last level's clusters, before they become slots."""
    levels: tuple[Level, ...]
    skipped: Pooled | None
    """What skips the last level, for those who pool its nodes again."""

    @property
    def masks(self) -> Float[Tensor, "b k n"]:
        """The slots' masks over the last level's nodes."""
        return self.levels[-1].clusters.masks.squeeze(1)

    @property
    def in_use(self) -> Bool[Tensor, "b k"]:
        return self.levels[-1].clusters.in_use.squeeze(1)

    def detached(self) -> Climbed:
        """The same without the way it was come by, so that no gradient goes back there."""

        def alone(clusters: Clusters) -> Clusters:
            return clusters._replace(nodes=clusters.nodes.detach(), masks=clusters.masks.detach())

        levels = tuple(level._replace(clusters=alone(level.clusters)) for level in self.levels)
        skipped = None if self.skipped is None else Pooled(*(x.detach() for x in self.skipped))
        return Climbed(self.features.detach(), levels, skipped)


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

    def forward(self, pixels: Float[Tensor, "b h w d"], limits: SlotLimits) -> Climbed:
        geometry = pixel_geometry(*self.grid, device=pixels.device).each(lambda x: x[None, :, :, None])
        nodes = Nodes(pixels.unsqueeze(3), geometry, None)
        levels: list[Level] = []
        skipped = None
        for number, level in enumerate(self.levels, 1):
            assert isinstance(level, HierarchyLevel)
            skipped = nodes.skipped
            nodes, clusters = level(nodes, limits if number == len(self.levels) else None)
            levels.append(Level(level.window, level.grid, clusters))
        return Climbed(rearrange(nodes.features, "b 1 1 k d -> b k d"), tuple(levels), skipped)

    def pool_again(self, climbed: Climbed, masks: Float[Tensor, "b k n"]) -> Float[Tensor, "b k d"]:
        """Features of the slots under other masks of the last level's nodes."""
        last = self.levels[-1]
        assert isinstance(last, HierarchyLevel)
        return last.pool(climbed.levels[-1].clusters.nodes, masks.unsqueeze(1), climbed.skipped).squeeze(1)

    def slots(self, features: Float[Tensor, "b k d"]) -> Float[Tensor, "b k d"]:
        x = self.norm(features)
        out: Tensor = x + self.mlp(x)
        return out


def _reach(config: LevelConfig, grid: tuple[int, int], per_cell: int) -> Reach:
    if config.attention == "neighbourhood" and config.kernel is not None:
        return NeighbourhoodReach(config.kernel, config.window, grid, per_cell)
    return GlobalReach() if config.attention == "global" else WindowReach()
