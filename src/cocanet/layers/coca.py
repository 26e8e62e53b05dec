"""One COCA layer: affinities, compactness, sequential clustering and pooling within windows (Sec. 3.1)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from cocanet.config import AnchorRule, InertiaRule, NormScope
from cocanet.config.windows import Window, dilated_candidates
from cocanet.functional.affinity import Points, affinity, distance_scale, distances
from cocanet.functional.clustering import break_stick, choose_anchors, clusters_in_use
from cocanet.functional.compactness import compactness
from cocanet.functional.geometry import Geometry, pool_geometry
from cocanet.functional.pooling import pool
from cocanet.functional.tracing import exporting
from cocanet.layers.linear import MLP, linear
from cocanet.layers.norm import GroupNorm
from cocanet.layers.precision import at_least_float32, full_precision

CHUNK = {"cpu": 2**20}
"""Affinities scored at a time: on a CPU few enough for its cache, elsewhere enough to keep the device busy."""


class Clusters(NamedTuple):
    """The clusters of each window."""

    nodes: Float[Tensor, "b w n d"]
    """Features of the clustered nodes."""
    features: Float[Tensor, "b w k d"]
    masks: Float[Tensor, "b w k n"]
    """Share of each node in each cluster; sums to 1 over the clusters."""
    geometry: Geometry
    anchors: Int[Tensor, "b w k-1"]
    """Anchor node of each cluster but the last, in the order of choice."""
    affinities: Float[Tensor, "b w k-1 n"]
    """The anchors' affinity masks, before the scope conceals earlier clusters."""
    compactness: Float[Tensor, "b w u"]
    """Score of every candidate's affinity mask, by which anchors are chosen."""
    in_use: Bool[Tensor, "b w k"]


class CocaLayer(nn.Module):
    """Clusters the nodes of each window and pools them.

    Anchors are chosen without autograd from the scores of all candidates; only the chosen rows of the affinity matrix
    are then computed again with it. Values and gradients are those of the full matrix, at a fraction of the cost.
    """

    candidates: Tensor

    def __init__(
        self,
        dim: int,
        window: Window,
        per_cell: int,
        clusters: int,
        temperature: float,
        *,
        anchors: AnchorRule = "compact",
        inertia: InertiaRule = "parallel-axis",
        candidate_stride: int = 1,
        norm: NormScope = "node",
    ) -> None:
        super().__init__()
        self.clusters, self.anchor_rule, self.inertia = clusters, anchors, inertia
        self.window, self.dim = window, dim
        self.scale = distance_scale(temperature, window, dim)
        candidates = torch.tensor(dilated_candidates(window, per_cell, candidate_stride))
        self.register_buffer("candidates", candidates, persistent=False)
        self.norm = GroupNorm(dim, norm)
        self.query, self.value = (linear(dim, dim, bias=False) for _ in range(2))
        self.mlp = MLP(dim, dim, dim)
        self.out = linear(dim, dim)

    def scale_at(self, temperature: float | None) -> float:
        """Scale of distances at another temperature; None for the configured one."""
        return self.scale if temperature is None else distance_scale(temperature, self.window, self.dim)

    def forward(
        self,
        nodes: Float[Tensor, "b w n d"],
        geometry: Geometry,
        *,
        clusters: int | None = None,
        scope_threshold: float = 0.0,
        temperature: float | None = None,
    ) -> Clusters:
        """Cluster into `clusters` (the configured number by default), or fewer where the scope runs out."""
        scale = self.scale_at(temperature)
        x = self.norm(nodes)
        queries = at_least_float32(self.norm(self.query(x)))
        with full_precision(nodes):
            points = Points.of(queries)
            with torch.no_grad():
                scores = self._scores(points, geometry, scale)
                anchors = choose_anchors(
                    scores,
                    self.candidates,
                    lambda index: self._affinities(points, index, scale),
                    (clusters or self.clusters) - 1,
                    scope_threshold,
                )
            affinities = self._affinities(points, anchors.nodes, scale)
            masks = break_stick(affinities, anchors.wanted)
        return Clusters(
            nodes=nodes,
            features=self._pool(nodes, x, masks),
            masks=masks,
            geometry=pool_geometry(masks, geometry, self.inertia),
            anchors=anchors.nodes,
            affinities=affinities,
            compactness=scores,
            in_use=clusters_in_use(anchors.wanted),
        )

    def _pool(
        self, nodes: Float[Tensor, "b w n d"], x: Float[Tensor, "b w n d"], masks: Float[Tensor, "b w k n"]
    ) -> Float[Tensor, "b w k d"]:
        """Features of clusters from those of their nodes; `x` are the normalised nodes."""
        nodes, values, mixed = (at_least_float32(each) for each in (nodes, self.value(x), self.mlp(x)))
        with full_precision(nodes):
            features: Tensor = pool(masks, nodes + mixed).mean() + self.out(pool(masks, values).mean())
        return features

    def _affinities(self, points: Points, index: Int[Tensor, "b w a"], scale: float) -> Float[Tensor, "b w a n"]:
        """Rows of the affinity matrix."""
        return affinity(distances(points.take(index), points, scale))

    def _scores(self, points: Points, geometry: Geometry, scale: float) -> Float[Tensor, "b w u"]:
        """Compactness of every candidate's affinity mask, or one uniform draw each (the RAS ablation)."""
        batch, windows, nodes = points.lengths.shape
        if self.anchor_rule == "random":
            return torch.rand(batch, windows, len(self.candidates), device=points.lengths.device)
        images = 1 if exporting() else batch
        piece = max(1, CHUNK.get(points.lengths.device.type, 2**26) // (images * windows * nodes))
        if piece >= nodes == len(self.candidates):
            return self._score(points, points, geometry, geometry.position, scale)
        return torch.cat(
            [
                self._score(
                    Points(points.features[..., part, :], points.lengths[..., part]),
                    points,
                    geometry,
                    geometry.position[..., part, :],
                    scale,
                )
                for part in self.candidates.split(piece)
            ],
            -1,
        )

    def _score(
        self, rows: Points, points: Points, geometry: Geometry, centres: Float[Tensor, "_b _w u 2"], scale: float
    ) -> Float[Tensor, "b w u"]:
        return compactness(affinity(distances(rows, points, scale)), geometry, centres)
