"""How compact the mask of every pixel is: on every level, and as part of its object (Eq. 3)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.explain.nodes import node_geometry, spread_to_owners
from cocanet.functional.affinity import Points, affinity, distances
from cocanet.functional.compactness import compactness, minimum_pair_sum
from cocanet.functional.geometry import EMPTY, Geometry, pixel_geometry, pool_geometry
from cocanet.layers.coca import CocaLayer
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.coca_net import CocaNet, Encoding
from cocanet.models.hierarchy import HierarchyLevel

_AT_ONCE = 2**22


class CompactnessMaps(NamedTuple):
    """The compactness that each pixel's mask has on each level, and as part of its object."""

    levels: tuple[Float[Tensor, "b rows columns"], ...]
    """The affinity mask's of the node that holds most of the pixel, about that node: what anchors are chosen by. Over
    the first level's cells, which are the pixels unless the backbone shrinks the image."""
    objects: Float[Tensor, "b h w"]
    """The encoder mask's that holds most of the pixel, about the pixel: what Figure 1 shows."""


def node_compactness(
    layer: CocaLayer, nodes: Float[Tensor, "b w n d"], geometry: Geometry, temperature: float | None = None
) -> Float[Tensor, "b w n"]:
    """Compactness of the affinity mask of every node of a layer's input, candidate or not."""
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
    """Compactness about each pixel of the mask that holds most of it (Eq. 3, as in Figure 1).

    The disc's inertia is the mask's own, whatever the pixel; the mask's follows from the one about its centre of mass
    by the parallel-axis theorem.
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
    found: Encoding | None = None,
    temperature: float | None = None,
) -> CompactnessMaps:
    """Compactness of every pixel's masks, level by level and as objects.

    `found` is what the model made of the images, where that is known, with the last level's `temperature` of that call.
    """
    found = model.encode(images) if found is None else found
    maps, last = [], len(found.levels) - 1
    for number, (layer, level) in enumerate(zip(model.hierarchy.levels, found.levels, strict=True)):
        assert isinstance(layer, HierarchyLevel)
        geometry = node_geometry(found.levels, number)
        asked = temperature if number == last else None
        scores = node_compactness(layer.coca, level.clusters.nodes, geometry, asked)
        maps.append(spread_to_owners(found.levels, number, scores))
    return CompactnessMaps(levels=tuple(maps), objects=object_compactness(found.masks))
