"""Whose is a pixel at a border? Its colour is a mixture of the two sides, and the figure's part in it decides.

A camera blurs an edge over a pixel, and feedback weighs such a pixel by how likely its colour is: the same half and
half pixel is the figure's on one ground and the ground's on another. Here the part of the figure is measured against
the colours on either side, whatever their contrast.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.functional.ownership import as_masks

REACH = 2
"""Rows and columns around a pixel in which the colours of either side are looked for."""
SMALLER = 0.25
"""A figure has at most this part of its ground's area: of two walls neither is one."""
CONTRAST = 1e-3
"""Squared difference of colours below which no part can be told."""


def settle_rims(
    masks: Float[Tensor, "b k h w"], colours: Float[Tensor, "b c h w"], *, part: float
) -> Float[Tensor, "b k h w"]:
    """Masks in which a pixel at the border of a figure is its own from the `part` of its colour on, and else is not.

    A pixel that changes sides exchanges what the two slots have of it.
    """
    labels = masks.argmax(1)
    own = as_masks(labels, masks)
    beside = _around(own, 1).round() * (1 - own)  # whole numbers: ties are the same on every device
    most, other = beside.max(1)
    area = own.sum((-2, -1))
    here, there = (area.gather(1, index.flatten(1)).view_as(labels) for index in (labels, other))
    figure, ground = torch.where(here < there, labels, other), torch.where(here < there, other, labels)
    mixed = figure_part(colours, side_colours(own, colours), figure, ground)
    bordering = (most > 0.5) & (torch.minimum(here, there) <= SMALLER * torch.maximum(here, there)) & mixed.isfinite()
    changes = bordering & (torch.where(mixed > part, figure, ground) != labels)
    return _exchanged(masks, labels, other, changes)


def side_colours(own: Float[Tensor, "b k h w"], colours: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k c h w"]:
    """Mean colour of each segment around every pixel, of what is inside it where there is any: borders are mixed."""
    inside = 1 - F.max_pool2d(1 - own, 3, 1, 1)

    def mean(of: Float[Tensor, "b k h w"], count: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k c h w"]:
        parts = rearrange(of.unsqueeze(2) * colours.unsqueeze(1), "b k c h w -> b (k c) h w")
        total = rearrange(_around(parts, REACH), "b (k c) h w -> b k c h w", k=of.shape[1])
        return total / count.unsqueeze(2).clamp(min=1)

    count = _around(inside, REACH)
    return torch.where((count > 0.5).unsqueeze(2), mean(inside, count), mean(own, _around(own, REACH)))


def figure_part(
    colours: Float[Tensor, "b c h w"],
    sides: Float[Tensor, "b k c h w"],
    figure: Int[Tensor, "b h w"],
    ground: Int[Tensor, "b h w"],
) -> Float[Tensor, "b h w"]:
    """α of colour = α · figure + (1 − α) · ground by least squares; NaN where the two are too much alike."""

    def side(index: Int[Tensor, "b h w"]) -> Float[Tensor, "b c h w"]:
        chosen = index[:, None, None].expand(-1, 1, colours.shape[1], -1, -1)
        return sides.gather(1, chosen).squeeze(1)

    behind = side(ground)
    difference = side(figure) - behind
    contrast = difference.square().sum(1)
    found = ((colours - behind) * difference).sum(1) / contrast.clamp(min=CONTRAST)
    return found.masked_fill(contrast < CONTRAST, torch.nan)


def _exchanged(
    masks: Float[Tensor, "b k h w"],
    labels: Int[Tensor, "b h w"],
    other: Int[Tensor, "b h w"],
    where: Bool[Tensor, "b h w"],
) -> Float[Tensor, "b k h w"]:
    one, two = as_masks(labels, masks), as_masks(other, masks)
    gain = (masks * (one - two)).sum(1, keepdim=True) * where.unsqueeze(1)
    return masks + gain * (two - one)


def _around(grid: Float[Tensor, "b c h w"], reach: int) -> Float[Tensor, "b c h w"]:
    """Sums over the square around each pixel; nothing lies beyond the edge."""
    side = 2 * reach + 1
    return side**2 * F.avg_pool2d(grid, side, 1, reach)  # a divisor of its own would be lost in an export
