"""COCA-Net transcribed directly: what the paper's equations cost when they are run as they are written.

It borrows the weights of a `CocaNet` and computes the same function with none of its shortcuts: all affinities under
autograd, the n³ minimum of Eq. 3, means and variances by hand, attention as two products and a softmax, and slots laid
out on the whole grid. It is the yardstick for speed, and the tests compare outputs and gradients with it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor

from cocanet.functional.geometry import Geometry, partition_geometry, pixel_geometry
from cocanet.functional.windows import partition
from cocanet.layers.attention import RefineBlock, WindowReach
from cocanet.layers.coca import CocaLayer
from cocanet.models.coca_net import CocaNet
from cocanet.models.decoder import BroadcastDecoder
from cocanet.models.hierarchy import HierarchyLevel


class Direct(NamedTuple):
    """What both computations can be compared by."""

    slots: Tensor
    mixture: Tensor
    encoder_masks: Tensor


def forward(model: CocaNet, images: Tensor) -> Direct:
    """`model(images)` the long way; needs window attention and fixed slots."""
    pixels = _backbone(model, 2 * images - 1)
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
    assert isinstance(model.decoder, BroadcastDecoder), "the direct model paints pictures"
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


def _backbone(model: CocaNet, images: Tensor) -> Tensor:
    backbone = model.backbone
    look = backbone.look(F.pad(images, [backbone.padding] * 4, mode="replicate"))
    look = F.leaky_relu(_norm(rearrange(look, "b c h w -> b h w c")))
    x = _norm(backbone.mix(look) + backbone.position())
    out: Tensor = backbone.direct(x) + backbone.mlp(x)
    return out


def _refine(block: RefineBlock, nodes: Tensor) -> Tensor:
    assert isinstance(block.reach, WindowReach), "the transcription has attention within windows only"
    x = _norm(nodes)
    queries, keys, values = _norm(block.query(x)), _norm(block.key(x)), block.value(x)
    queries, keys, values = (rearrange(z, "b w n (h d) -> b w h n d", h=block.heads) for z in (queries, keys, values))
    weights = torch.softmax(queries @ keys.mT / math.sqrt(queries.shape[-1]), -1)
    attended = rearrange(weights @ values, "b w h n d -> b w n (h d)")
    out: Tensor = nodes + block.out(attended) + block.mlp(x)
    return out


def _cluster(coca: CocaLayer, nodes: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor, Geometry]:
    x = _norm(nodes)
    y = _norm(coca.query(x))
    distances = coca.scale * (y.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)
    soft = torch.softmax(-distances, -1)
    low, high = soft.amin(-1, keepdim=True), soft.amax(-1, keepdim=True)
    affinities = (soft - low) / (high - low)
    affinities = affinities + (affinities.clamp(1e-5, 1 - 1e-5) - affinities).detach()
    scores = _compactness(affinities, geometry)
    scope, masks = torch.ones_like(affinities[..., 0, :]), []
    for _ in range(coca.clusters - 1):
        anchor = (scores * scope).argmax(-1)
        row = affinities.gather(-2, anchor[..., None, None].expand(-1, -1, 1, affinities.shape[-1])).squeeze(-2)
        masks.append(scope * row)
        scope = scope * (1 - row)
    mask = torch.stack([*masks, scope], -2)
    mean = mask / mask.sum(-1, keepdim=True)
    features = mean @ nodes + mean @ coca.mlp(x) + coca.out(mean @ coca.value(x))
    return features, mask, _pool(mask, geometry)


def _compactness(masks: Tensor, nodes: Geometry) -> Tensor:
    area, density = masks * nodes.area.unsqueeze(-2), masks * nodes.density.unsqueeze(-2)
    inertia, mass = masks * nodes.inertia.unsqueeze(-2), area * density
    pairs = torch.minimum(density.unsqueeze(-1), density.unsqueeze(-2)) * area.unsqueeze(-1) * area.unsqueeze(-2)
    offsets = (nodes.position.unsqueeze(-2) - nodes.position.unsqueeze(-3)).square().sum(-1)
    return pairs.sum((-1, -2)) / (2 * math.pi * (inertia + mass * offsets).sum(-1))


def _pool(masks: Tensor, nodes: Geometry) -> Geometry:
    area = masks * nodes.area.unsqueeze(-2)
    mass = masks * area * nodes.density.unsqueeze(-2)
    position = (mass @ nodes.position) / mass.sum(-1, keepdim=True)
    spread = (nodes.position.unsqueeze(-3) - position.unsqueeze(-2)).square().sum(-1)
    inertia = (masks * nodes.inertia.unsqueeze(-2) + mass * spread).sum(-1)
    return Geometry(area.sum(-1), mass.sum(-1) / area.sum(-1), inertia, position)


def _pixels(model: CocaNet, images: Tensor) -> Geometry:
    pixels = pixel_geometry(*model.config.image_size)
    return pixels.each(lambda x: repeat(x.to(images), "h w ... -> b h w 1 ...", b=len(images)))


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
    merged, order = masks[0], torch.arange(height * width, dtype=torch.float32).view(1, height, width, 1, 1)
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
