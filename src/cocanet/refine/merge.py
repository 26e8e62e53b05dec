"""Merge connected components of masks into segments.

Components merge in pairs, always the pair that shortens the description of the image most. A segment is described by
its share of the image and by Gaussians of its colours and positions, as in `mean_field.unary_log_likelihood`. So two
halves side by side merge, and two objects apart do not.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.functional.tracing import while_changed

POSITION_VARIANCE = 0.005
"""Added to the variance of positions, where an image is 2 × 2, so that one pixel has a density."""
UNIFORM_SHARE = 0.1
"""Share of each merged mask that is spread over all slots, so that refinement can still change it."""
COMPONENTS_PER_SLOT = 4
"""Components that are considered for each slot, largest first."""


def merge_components(
    masks: Float[Tensor, "b k h w"],
    colours: Float[Tensor, "b c h w"],
    in_use: Bool[Tensor, "b k"],
    *,
    min_area: float,
    noise: float,
) -> Float[Tensor, "b k h w"]:
    """Masks of merged components; a segment keeps the slot that held most of it.

    Components below the share `min_area` are spread evenly over all slots. `noise` is added to a segment's variance
    of colour.
    """
    slots = masks.shape[1]
    labels = masks.argmax(1)
    ranks, counted = largest(connected_components(labels), COMPONENTS_PER_SLOT * slots, min_area)
    group = merge_pairs(moments(ranks, colours, counted.shape[-1]), counted, in_use.sum(-1), noise)
    slot = _slots_of(group, _overlap(ranks, labels, counted.shape[-1], slots), in_use)
    share_of_all = in_use / in_use.sum(-1, keepdim=True)
    chosen = F.one_hot(F.pad(slot, (0, 1)), slots).to(masks.dtype)
    table = (1 - UNIFORM_SHARE) * chosen + UNIFORM_SHARE * share_of_all.unsqueeze(1)
    table[:, -1] = share_of_all
    return rearrange(_rows(table, ranks.flatten(1)), "b (h w) k -> b k h w", h=masks.shape[-2])


def connected_components(labels: Int[Tensor, "b h w"]) -> Int[Tensor, "b h w"]:
    """Connected components of equal labels (8-neighbourhood), each named by the largest index of its pixels."""
    height, width = labels.shape[-2:]
    alike = _neighbours(labels, -1) == labels.unsqueeze(1)
    own = torch.arange(height * width, device=labels.device)

    def spread(names: Int[Tensor, "b h w"]) -> tuple[Bool[Tensor, ""], tuple[Tensor]]:
        near = torch.where(alike, _neighbours(names, -1), -1).amax(1)
        # Names spread to neighbours, and then along the names themselves (pointer jumping).
        best = torch.maximum(names, near).flatten(1)
        known = own.expand_as(best).scatter_reduce(1, names.flatten(1), best, "amax")
        found = known.gather(1, known.gather(1, best)).view_as(labels)
        return (found != names).any(), (found,)

    (names,) = while_changed(spread, (own.view(height, width).expand_as(labels),), height * width)
    return names


def largest(
    names: Int[Tensor, "b h w"], most: int, min_area: float
) -> tuple[Int[Tensor, "b h w"], Bool[Tensor, "b p"]]:
    """Each pixel's component as a rank by area, `most` where it is too small; and which ranks exist.

    Ties are broken by the larger name.
    """
    flat = names.flatten(1)
    pixels = flat.shape[1]
    most = min(most, pixels)
    area = torch.zeros_like(flat).scatter_add(1, flat, torch.ones_like(flat))
    # Keys are unique, so that the order is the same on every device.
    key, index = (area * pixels + torch.arange(pixels, device=names.device)).topk(most, -1)
    counted = key // pixels >= max(1.0, min_area * pixels)
    rank = torch.arange(most, device=names.device).expand_as(index)
    table = torch.full_like(flat, most).scatter(1, index, torch.where(counted, rank, most))
    return table.gather(1, flat).view_as(names), counted


def moments(ranks: Int[Tensor, "b h w"], colours: Float[Tensor, "b c h w"], count: int) -> Float[Tensor, "b p moments"]:
    """Pixels, Σ position, Σ position ⊗ position, Σ |colour|² and Σ colour of each component; they add under union."""
    row, column = pixel_positions((ranks.shape[-2], ranks.shape[-1]), colours)
    position = torch.stack((torch.ones_like(row), row, column, row**2, row * column, column**2))
    values = torch.cat(
        (position.expand(ranks.shape[0], -1, -1, -1), reduce(colours**2, "b c h w -> b 1 h w", "sum"), colours), 1
    )
    member = F.one_hot(ranks.flatten(1), count + 1).to(colours.dtype)
    return (values.flatten(2) @ member).mT[:, :count]


def pixel_positions(size: tuple[int, int], like: Tensor) -> tuple[Float[Tensor, "h w"], Float[Tensor, "h w"]]:
    """Row and column of every pixel in [-1, 1], with the dtype and device of another tensor."""
    lines = [torch.linspace(-1, 1, side, device=like.device, dtype=like.dtype) for side in size]
    row, column = torch.meshgrid(*lines, indexing="ij")
    return row, column


def description_length(of: Float[Tensor, "*shape moments"], noise: float) -> Float[Tensor, "*shape"]:
    """Nats that describe a segment's pixels by its share and its two Gaussians, up to a constant per pixel."""
    pixels = of[..., 0].clamp(min=1e-6)
    row, column, rows, product, columns, lengths = (of[..., 1:7] / pixels.unsqueeze(-1)).unbind(-1)
    colour = of[..., 7:] / pixels.unsqueeze(-1)
    channels = colour.shape[-1]
    variance = (lengths - colour.square().sum(-1)).clamp(min=0) / channels + noise
    determinant = (rows - row**2 + POSITION_VARIANCE) * (columns - column**2 + POSITION_VARIANCE) - (
        product - row * column
    ) ** 2
    return pixels * (0.5 * (determinant.log() + channels * variance.log()) - pixels.log())


def merge_pairs(
    of: Float[Tensor, "b p moments"], counted: Bool[Tensor, "b p"], most: Int[Tensor, " b"], noise: float
) -> Int[Tensor, "b p"]:
    """The segment of each component, named by one of its components.

    Pairs merge while that shortens the description, or while there are more than `most` segments.
    """
    batch, count = counted.shape
    group = torch.arange(count, device=of.device).repeat(batch, 1)
    image = torch.arange(batch, device=of.device)
    itself = torch.eye(count, dtype=torch.bool, device=of.device)

    def merge(of: Tensor, alive: Tensor, group: Tensor) -> tuple[Bool[Tensor, ""], tuple[Tensor, Tensor, Tensor]]:
        alone = description_length(of, noise)
        together = description_length(of.unsqueeze(1) + of.unsqueeze(2), noise)
        price = together - alone.unsqueeze(1) - alone.unsqueeze(2)
        price = price.masked_fill(itself | ~(alive.unsqueeze(1) & alive.unsqueeze(2)), torch.inf)
        cheapest, pair = price.flatten(1).min(-1)
        merges = cheapest.isfinite() & ((cheapest < 0) | (alive.sum(-1) > most))
        into, gone = pair // count, pair % count
        of, alive = of.clone(), alive.clone()
        of[image, into] += of[image, gone] * merges.unsqueeze(-1)
        alive[image, gone] &= ~merges
        group = torch.where((group == gone.unsqueeze(-1)) & merges.unsqueeze(-1), into.unsqueeze(-1), group)
        return merges.any(), (of, alive, group)

    return while_changed(merge, (of, counted, group), count - 1)[-1]


def _slots_of(
    group: Int[Tensor, "b p"], overlap: Float[Tensor, "b p k"], in_use: Bool[Tensor, "b k"]
) -> Int[Tensor, "b p"]:
    """The slot of each component's segment: the largest overlap of segment and slot is assigned first."""
    batch, _, slots = overlap.shape
    shared = torch.zeros_like(overlap).scatter_add(1, group.unsqueeze(-1).expand_as(overlap), overlap)
    wish = shared.masked_fill(~(shared.sum(-1, keepdim=True) > 0) | ~in_use.unsqueeze(1), -torch.inf)
    image = torch.arange(batch, device=overlap.device)
    slot = torch.zeros_like(group)
    for _ in range(slots):
        best, pair = wish.flatten(1).max(-1)
        which, chosen = pair // slots, pair % slots
        slot[image, which] = torch.where(best.isfinite(), chosen, slot[image, which])
        wish[image, which] = -torch.inf
        wish[image, :, chosen] = -torch.inf
    return slot.gather(1, group)


def _overlap(
    ranks: Int[Tensor, "b h w"], labels: Int[Tensor, "b h w"], count: int, slots: int
) -> Float[Tensor, "b p k"]:
    pair = ranks.flatten(1) * slots + labels.flatten(1)
    pixels = torch.zeros(ranks.shape[0], (count + 1) * slots, device=ranks.device)
    return pixels.scatter_add(1, pair, torch.ones_like(pair, dtype=pixels.dtype)).view(-1, count + 1, slots)[:, :count]


def _rows(table: Float[Tensor, "b p k"], index: Int[Tensor, "b n"]) -> Float[Tensor, "b n k"]:
    return table.gather(1, index.unsqueeze(-1).expand(-1, -1, table.shape[-1]))


def _neighbours(grid: Int[Tensor, "b h w"], outside: int) -> Int[Tensor, "b 8 h w"]:
    """The eight neighbours of every pixel."""
    height, width = grid.shape[-2:]
    padded = F.pad(grid, [1] * 4, value=outside)
    steps = [(row, column) for row in range(3) for column in range(3) if (row, column) != (1, 1)]
    return torch.stack([padded[:, row : row + height, column : column + width] for row, column in steps], 1)
