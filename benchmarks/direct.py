"""COCA-Net transcribed directly: what the paper's equations cost when they are run as they are written.

It uses the weights of a `CocaNet` and computes the same function with none of its shortcuts: all affinities under
autograd, the n³ minimum of Eq. 3, means and variances by hand, attention as two products and a softmax, neighbourhoods
copied for every query, and slots laid out on the whole grid. It is the baseline for speed, and the tests compare
outputs and gradients with it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor

from cocanet.config import InertiaRule
from cocanet.functional.geometry import Geometry, partition_geometry, pixel_geometry
from cocanet.functional.windows import partition, unpartition
from cocanet.layers.attention import GlobalReach, NeighbourhoodReach, RefineBlock
from cocanet.layers.coca import CocaLayer
from cocanet.models.backbone import Backbone
from cocanet.models.coca_net import CocaNet
from cocanet.models.decoder import BroadcastDecoder
from cocanet.models.hierarchy import HierarchyLevel


class Direct(NamedTuple):
    """The outputs that both computations have."""

    slots: Tensor
    reconstruction: Tensor
    encoder_masks: Tensor


def forward(model: CocaNet, images: Tensor) -> Direct:
    """`model(images)` the long way; needs fixed slots and a spatial broadcast decoder in the image's frame."""
    assert isinstance(model.backbone, Backbone)
    pixels = _backbone(model.backbone, 2 * images**model.backbone.input_gamma - 1)
    grid, geometry = pixels.unsqueeze(3), _pixels(model, images)
    outputs, masks, levels = [pixels.unsqueeze(3)], [], _levels(model)
    for number, level in enumerate(levels):
        nodes = partition(grid, level.window)
        for block in level.refine:
            assert isinstance(block, RefineBlock)
            nodes = _refine(block, nodes)
        features, level_masks, geometry = _cluster(level.coca, nodes, partition_geometry(geometry, level.window))
        masks.append(level_masks)
        if number:
            merged = _merge(masks[-2:], levels[number - 1 : number + 1])
            source = _flat_windows(outputs[-2], levels[number - 1 : number + 1])
            mean = _norm((merged @ source) / merged.sum(-1, keepdim=True))
            assert level.skip is not None
            features = features + _norm(mean + level.skip(mean))
        rows, columns = level.grid[0] // level.window[0], level.grid[1] // level.window[1]
        grid = _on_grid(features, rows, columns)
        geometry = geometry.each(partial(_on_grid, rows=rows, columns=columns))
        outputs.append(grid)
    slots = _norm(features.squeeze(1))
    slots = slots + model.hierarchy.mlp(slots)
    assert isinstance(model.decoder, BroadcastDecoder), "the token decoder is not transcribed"
    assert model.decoder.frame is None, "the slot frame is not transcribed"
    return Direct(slots, _decode(model.decoder, slots), _dendrogram(masks, model))


def _levels(model: CocaNet) -> list[HierarchyLevel]:
    return [level for level in model.hierarchy.levels if isinstance(level, HierarchyLevel)]


def _on_grid(x: Tensor, rows: int, columns: int) -> Tensor:
    return x.reshape(len(x), rows, columns, *x.shape[2:])


def _norm(x: Tensor) -> Tensor:
    grouped = x.unflatten(-1, (4, -1))
    mean = grouped.mean(-1, keepdim=True)
    variance = (grouped - mean).square().mean(-1, keepdim=True)
    out: Tensor = ((grouped - mean) / (variance + 1e-3).sqrt()).flatten(-2)
    return out


def _backbone(backbone: Backbone, images: Tensor) -> Tensor:
    appearance = backbone.conv(F.pad(images, [backbone.padding] * 4, mode="replicate"))
    appearance = F.leaky_relu(_norm(rearrange(appearance, "b c h w -> b h w c")))
    x = _norm(backbone.mix(appearance) + backbone.position())
    out: Tensor = backbone.direct(x) + backbone.mlp(x)
    return out


def _refine(block: RefineBlock, nodes: Tensor) -> Tensor:
    x = _norm(nodes)
    queries, keys, values = _norm(block.query(x)), _norm(block.key(x)), block.value(x)
    reach = block.reach
    if isinstance(reach, NeighbourhoodReach):
        attended = _attend_around(reach, queries, keys, values, block.heads)
    elif isinstance(reach, GlobalReach):
        queries, keys, values = (rearrange(z, "b w n d -> b 1 (w n) d") for z in (queries, keys, values))
        attended = _attend(queries, keys, values, block.heads)
        attended = rearrange(attended, "b 1 (w n) d -> b w n d", n=nodes.shape[2])
    else:
        attended = _attend(queries, keys, values, block.heads)
    out: Tensor = nodes + block.out(attended) + block.mlp(x)
    return out


def _attend(queries: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    """Of the queries of each group to its keys."""
    queries, keys, values = (rearrange(z, "b w n (h d) -> b w h n d", h=heads) for z in (queries, keys, values))
    weights = torch.softmax(queries @ keys.mT / math.sqrt(queries.shape[-1]), -1)
    return rearrange(weights @ values, "b w h n d -> b w n (h d)")


def _attend_around(reach: NeighbourhoodReach, queries: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    """Each cell is a group: its keys are those of the cells around it, and those beyond the image weigh nothing."""
    queries, keys, values = (unpartition(z, reach.window, reach.grid) for z in (queries, keys, values))
    rows, columns, _, dim = queries.shape[1:]
    inside = torch.ones_like(keys[..., :1])
    around = []
    for part in (keys, values, inside):
        padded = F.pad(part, (0, 0, 0, 0, *[reach.halo] * 4))
        offsets = range(2 * reach.halo + 1)
        copies = [padded[:, row : row + rows, column : column + columns] for row in offsets for column in offsets]
        around.append(rearrange(torch.cat(copies, 3), "b r c n d -> b (r c) n d"))
    keys, values, seen = around
    each = rearrange(queries, "b r c n d -> b (r c) n d")
    each, keys, values = (rearrange(z, "b w n (h d) -> b w h n d", h=heads) for z in (each, keys, values))
    logits = each @ keys.mT / math.sqrt(dim // heads)
    logits = logits.masked_fill(rearrange(seen, "b w m 1 -> b w 1 1 m") == 0, -math.inf)
    attended = rearrange(logits.softmax(-1) @ values, "b (r c) h n d -> b r c n (h d)", r=rows)
    return partition(attended, reach.window)


def _cluster(coca: CocaLayer, nodes: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor, Geometry]:
    x = _norm(nodes)
    y = _norm(coca.query(x))
    distances = coca.scale * (y.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)
    soft = torch.softmax(-distances, -1)
    low, high = soft.amin(-1, keepdim=True), soft.amax(-1, keepdim=True)
    affinities = (soft - low) / (high - low)
    affinities = affinities + (affinities.clamp(1e-5, 1 - 1e-5) - affinities).detach()
    chosen = torch.zeros_like(affinities[0, 0, 0]).index_fill(0, coca.candidates, 1)
    scores = _compactness(affinities, geometry) * chosen
    scope, masks = torch.ones_like(affinities[..., 0, :]), []
    for _ in range(coca.clusters - 1):
        anchor = (scores * scope).argmax(-1)
        row = affinities.gather(-2, anchor[..., None, None].expand(-1, -1, 1, affinities.shape[-1])).squeeze(-2)
        masks.append(scope * row)
        scope = scope * (1 - row)
    mask = torch.stack([*masks, scope], -2)
    mean = mask / mask.sum(-1, keepdim=True)
    features = mean @ nodes + mean @ coca.mlp(x) + coca.out(mean @ coca.value(x))
    return features, mask, _pool(mask, geometry, coca.inertia)


def _compactness(masks: Tensor, nodes: Geometry) -> Tensor:
    area, density = masks * nodes.area.unsqueeze(-2), masks * nodes.density.unsqueeze(-2)
    inertia, mass = masks * nodes.inertia.unsqueeze(-2), area * density
    pairs = torch.minimum(density.unsqueeze(-1), density.unsqueeze(-2)) * area.unsqueeze(-1) * area.unsqueeze(-2)
    offsets = (nodes.position.unsqueeze(-2) - nodes.position.unsqueeze(-3)).square().sum(-1)
    return pairs.sum((-1, -2)) / (2 * math.pi * (inertia + mass * offsets).sum(-1))


def _pool(masks: Tensor, nodes: Geometry, rule: InertiaRule) -> Geometry:
    area = masks * nodes.area.unsqueeze(-2)
    mass = masks * area * nodes.density.unsqueeze(-2)
    position = (mass @ nodes.position) / mass.sum(-1, keepdim=True)
    spread = (nodes.position.unsqueeze(-3) - position.unsqueeze(-2)).square().sum(-1)
    own = masks * nodes.inertia.unsqueeze(-2)
    if rule == "released":
        own = own * nodes.density.unsqueeze(-2)
    inertia = own if rule == "printed" else own + mass * spread
    return Geometry(area.sum(-1), mass.sum(-1) / area.sum(-1), inertia.sum(-1), position)


def _pixels(model: CocaNet, images: Tensor) -> Geometry:
    pixels = pixel_geometry(*model.config.image_size, images.device, images.dtype)
    return pixels.each(lambda x: repeat(x, "h w ... -> b h w 1 ...", b=len(images)))


def _flat_windows(grid: Tensor, levels: list[HierarchyLevel]) -> Tensor:
    """Nodes two levels down, sorted into the windows of the upper of two levels."""
    (h, v), (height, width) = levels[0].window, levels[1].window
    return rearrange(
        grid,
        "b (gr i h) (gc j v) c d -> b (gr gc) (i j h v c) d",
        i=height,
        j=width,
        h=h,
        v=v,
    )


def _merge(masks: list[Tensor], levels: list[HierarchyLevel]) -> Tensor:
    """Masks of the upper of two levels over the nodes that go into the lower one."""
    (height, width), lower = levels[1].window, levels[0]
    rows, columns = lower.grid[0] // lower.window[0] // height, lower.grid[1] // lower.window[1] // width
    below = rearrange(masks[0], "b (gr i gc j) c n -> b (gr gc) (i j) c n", gr=rows, i=height, gc=columns, j=width)
    above = rearrange(masks[1], "b w k (cells c) -> b w cells k c", c=below.shape[3])
    return rearrange(above @ below, "b w cells k n -> b w k (cells n)")


def _dendrogram(masks: list[Tensor], model: CocaNet) -> Tensor:
    """Masks merged level by level, and their pixels put back where they came from."""
    levels = _levels(model)
    height, width = model.config.image_size
    merged, order = masks[0], torch.arange(height * width, dtype=torch.float64).view(1, height, width, 1, 1)
    for number, level in enumerate(levels):
        if number:
            merged = _merge([merged, masks[number]], levels[number - 1 : number + 1])
        rows, columns = level.grid[0] // level.window[0], level.grid[1] // level.window[1]
        order = partition(order, level.window).flatten(2).unflatten(1, (rows, columns)).unsqueeze(3)
    image = torch.empty_like(merged.squeeze(1))
    image[..., order.flatten().long()] = merged.squeeze(1)
    return image.view(*image.shape[:2], height, width)


def _decode(decoder: BroadcastDecoder, slots: Tensor) -> Tensor:
    position = decoder.position()
    height, width = position.shape[:2]
    x = repeat(slots, "b k d -> (b k) h w d", h=height, w=width) + position
    x = decoder.first.conv(rearrange(x, "m h w d -> m d h w"))
    for layer in decoder.rest:
        x = layer(F.relu(x))
    x = x.view(*slots.shape[:2], *x.shape[1:])
    out: Tensor = ((x[:, :, :3] + 1) / 2 * x[:, :, 3:].softmax(1)).sum(1)
    return out
