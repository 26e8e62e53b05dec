"""Slots that are one piece each: masks fall into their connected pieces, and pieces are grouped anew.

Two things of one colour share a slot, and a thing with a dark and a bright side has two. The pieces of all masks are
merged in pairs, always the pair that shortens the description of the picture most, by the description that
`feedback.explanation` reads: every group tells its share, and a Gaussian each of its colours and its places. So two
halves that lie side by side join at no cost of place, and two things apart do not.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.functional.tracing import settle

SPREAD = 0.005
"""Added to the variance of a place, where an image is 2 × 2: a group of one pixel is a disc of some pixels."""
DOUBT = 0.1
"""Part of a pixel that regrouped masks leave to all slots."""
PIECES_PER_SLOT = 4
"""Pieces that are grouped for each slot; the largest come first."""


def regroup_masks(
    masks: Float[Tensor, "b k h w"],
    colours: Float[Tensor, "b c h w"],
    in_use: Bool[Tensor, "b k"],
    *,
    smallest: float,
    noise: float,
) -> Float[Tensor, "b k h w"]:
    """Masks of whole groups of pieces; a group keeps the slot that had most of it.

    Pieces of less than the share `smallest` belong to nobody, and so evenly to all. `noise` is added to a group's
    variance of colour.
    """
    slots = masks.shape[1]
    labels = masks.argmax(1)
    ranks, counted = largest(pieces(labels), PIECES_PER_SLOT * slots, smallest)
    group = merge_pieces(moments(ranks, colours, counted.shape[-1]), counted, in_use.sum(-1), noise)
    slot = _slots_of(group, _overlap(ranks, labels, counted.shape[-1], slots), in_use)
    share_of_all = in_use / in_use.sum(-1, keepdim=True)
    chosen = F.one_hot(F.pad(slot, (0, 1)), slots).to(masks.dtype)
    table = (1 - DOUBT) * chosen + DOUBT * share_of_all.unsqueeze(1)
    table[:, -1] = share_of_all
    return rearrange(_rows(table, ranks.flatten(1)), "b (h w) k -> b k h w", h=masks.shape[-2])


def pieces(labels: Int[Tensor, "b h w"]) -> Int[Tensor, "b h w"]:
    """Connected pieces of equal labels, corners included, each called by the largest index of its pixels."""
    height, width = labels.shape[-2:]
    alike = _around(labels, -1) == labels.unsqueeze(1)
    own = torch.arange(height * width, device=labels.device)

    def spread(names: Int[Tensor, "b h w"]) -> tuple[Bool[Tensor, ""], tuple[Tensor]]:
        near = torch.where(alike, _around(names, -1), -1).amax(1)
        # A piece's name learns of what any of its pixels saw, then every pixel asks its name for its own.
        best = torch.maximum(names, near).flatten(1)
        known = own.expand_as(best).scatter_reduce(1, names.flatten(1), best, "amax")
        found = known.gather(1, known.gather(1, best)).view_as(labels)
        return (found != names).any(), (found,)

    (names,) = settle(spread, (own.view(height, width).expand_as(labels),), height * width)
    return names


def largest(
    names: Int[Tensor, "b h w"], most: int, smallest: float
) -> tuple[Int[Tensor, "b h w"], Bool[Tensor, "b p"]]:
    """Every pixel's piece as a rank by area, `most` where it is too small to have one; and which ranks there are.

    Of pieces of one area, such as two things of one kind, that with the larger name comes first.
    """
    flat = names.flatten(1)
    pixels = flat.shape[1]
    most = min(most, pixels)
    area = torch.zeros_like(flat).scatter_add(1, flat, torch.ones_like(flat))
    # No two keys are equal: which of equal ones comes first would differ from device to device.
    key, index = (area * pixels + torch.arange(pixels, device=names.device)).topk(most, -1)
    counted = key // pixels >= max(1.0, smallest * pixels)
    rank = torch.arange(most, device=names.device).expand_as(index)
    table = torch.full_like(flat, most).scatter(1, index, torch.where(counted, rank, most))
    return table.gather(1, flat).view_as(names), counted


def moments(ranks: Int[Tensor, "b h w"], colours: Float[Tensor, "b c h w"], count: int) -> Float[Tensor, "b p moments"]:
    """Pixels, Σ place, Σ place ⊗ place, Σ |colour|² and Σ colour of each piece; those of a union are their sums."""
    row, column = places((ranks.shape[-2], ranks.shape[-1]), colours)
    place = torch.stack((torch.ones_like(row), row, column, row**2, row * column, column**2))
    values = torch.cat(
        (place.expand(ranks.shape[0], -1, -1, -1), reduce(colours**2, "b c h w -> b 1 h w", "sum"), colours), 1
    )
    member = F.one_hot(ranks.flatten(1), count + 1).to(colours.dtype)
    return (values.flatten(2) @ member).mT[:, :count]


def places(size: tuple[int, int], like: Tensor) -> tuple[Float[Tensor, "h w"], Float[Tensor, "h w"]]:
    """Row and column of every pixel, where an image is 2 × 2; of the type and on the device of another tensor."""
    lines = [torch.linspace(-1, 1, side, device=like.device, dtype=like.dtype) for side in size]
    row, column = torch.meshgrid(*lines, indexing="ij")
    return row, column


def description_length(of: Float[Tensor, "*shape moments"], noise: float) -> Float[Tensor, "*shape"]:
    """Nats to tell a group's pixels by its share and its two Gaussians, less what all pixels cost anyway."""
    pixels = of[..., 0].clamp(min=1e-6)
    row, column, rows, product, columns, lengths = (of[..., 1:7] / pixels.unsqueeze(-1)).unbind(-1)
    colour = of[..., 7:] / pixels.unsqueeze(-1)
    channels = colour.shape[-1]
    variance = (lengths - colour.square().sum(-1)).clamp(min=0) / channels + noise
    determinant = (rows - row**2 + SPREAD) * (columns - column**2 + SPREAD) - (product - row * column) ** 2
    return pixels * (0.5 * (determinant.log() + channels * variance.log()) - pixels.log())


def merge_pieces(
    of: Float[Tensor, "b p moments"], counted: Bool[Tensor, "b p"], most: Int[Tensor, " b"], noise: float
) -> Int[Tensor, "b p"]:
    """The group of each piece, called by one of its pieces: pairs merge while that pays or they are too many."""
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

    return settle(merge, (of, counted, group), count - 1)[-1]


def _slots_of(
    group: Int[Tensor, "b p"], overlap: Float[Tensor, "b p k"], in_use: Bool[Tensor, "b k"]
) -> Int[Tensor, "b p"]:
    """The slot of each piece's group: groups choose in the order of what a slot already had of them."""
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


def _around(grid: Int[Tensor, "b h w"], outside: int) -> Int[Tensor, "b 8 h w"]:
    """The eight neighbours of every pixel."""
    height, width = grid.shape[-2:]
    padded = F.pad(grid, [1] * 4, value=outside)
    steps = [(row, column) for row in range(3) for column in range(3) if (row, column) != (1, 1)]
    return torch.stack([padded[:, row : row + height, column : column + width] for row, column in steps], 1)
