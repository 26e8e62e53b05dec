"""Compactness maps: the compactness of every pixel's mask, on each level and of its object (Eq. 3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.explain.steps import node_geometry, spread_hard
from cocanet.functional.affinity import Points, affinity, distances
from cocanet.functional.compactness import compactness, minimum_pair_sum
from cocanet.functional.geometry import EMPTY, Geometry, pixel_geometry, pool_geometry
from cocanet.layers.coca import CocaLayer
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.coca_net import CocaNet
from cocanet.models.hierarchy import HierarchyLevel
from cocanet.models.output import Encoding

_AT_ONCE = 2**22


class CompactnessMaps(NamedTuple):
    """Compactness of every pixel's mask, on each level and of its object."""

    levels: tuple[Float[Tensor, "b rows columns"], ...]
    """For each level, over the first level's cells: the compactness by which anchors are chosen. A cell has that of
    the affinity mask of its node."""
    objects: Float[Tensor, "b h w"]
    """Compactness of the object's encoder mask about the pixel, as in the paper's Figure 1."""


def node_compactness(
    layer: CocaLayer, nodes: Float[Tensor, "b w n d"], geometry: Geometry, temperature: float | None = None
) -> Float[Tensor, "b w n"]:
    """Compactness of the affinity mask of every node of a layer's input, also of those that are no candidates."""
    scale = layer.scale_at(temperature)
    points = Points.of(layer.norm(layer.query(layer.norm(nodes))).float())
    batch, windows, count = points.lengths.shape
    scores = []
    for part in torch.arange(count, device=nodes.device).split(max(1, _AT_ONCE // (batch * windows * count))):
        rows = Points(points.features[..., part, :], points.lengths[..., part])
        masks = affinity(distances(rows, points, scale))
        scores.append(compactness(masks, geometry, geometry.position[..., part, :]))
    return torch.cat(scores, -1)


def object_compactness(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b h w"]:
    """Compactness, about each pixel, of the largest mask there (Eq. 3, as in Figure 1).

    The inertia about a pixel follows from that about the centre of mass by the parallel-axis theorem.
    """
    height, width = masks.shape[-2:]
    image = pixel_geometry(height, width, device=masks.device)
    nodes = Geometry(*(x.flatten(0, 1) for x in image))
    flat = masks.flatten(2)
    whole = pool_geometry(flat, nodes)
    disc = minimum_pair_sum(flat * nodes.density, flat * nodes.area)
    owner = hard_labels(masks)
    disc, inertia, mass, row, column = (
        x.gather(1, owner.flatten(1)).view(owner.shape)
        for x in (disc, whole.inertia, whole.mass, whole.position[..., 0], whole.position[..., 1])
    )
    away = (image.position[..., 0] - row).square() + (image.position[..., 1] - column).square()
    return disc / (2 * math.pi * (inertia + mass * away)).clamp(min=EMPTY)


@torch.no_grad()
def compactness_maps(
    model: CocaNet,
    images: Float[Tensor, "b 3 h w"],
    encoding: Encoding | None = None,
    temperature: float | None = None,
) -> CompactnessMaps:
    """Compactness maps of a batch of images.

    Pass `encoding`, and the last level's `temperature` of that call, to reuse a known encoding.
    """
    encoding = model.encode(images) if encoding is None else encoding
    maps, last = [], len(encoding.levels) - 1
    for number, (layer, level) in enumerate(zip(model.hierarchy.levels, encoding.levels, strict=True)):
        assert isinstance(layer, HierarchyLevel)
        geometry = node_geometry(encoding.levels, number)
        at_level = temperature if number == last else None
        scores = node_compactness(layer.coca, level.clusters.nodes, geometry, at_level)
        maps.append(spread_hard(encoding.levels, number, scores))
    return CompactnessMaps(levels=tuple(maps), objects=object_compactness(encoding.masks))
