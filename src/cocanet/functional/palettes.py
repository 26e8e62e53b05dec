"""Palettes: a slot told by how often each colour occurs in it, for things of many colours.

A slot's mean colour says little of a bird that is black, white and red. Its histogram does, and so does that of the
leaves behind it. Colours are binned, each channel by itself, so that nothing has to be learned.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

BINS = 4
"""Of each channel: 64 colours in all."""
BORROWED = 0.05
"""Pixels, as a share of the image, that every palette borrows from the image's own: none is sure of a rare colour."""
MOST = 0.96
"""Even in the very middle, and in the very corner, a pixel may be of another slot."""
LEAST = 1e-4
"""Least value of a mask before its logarithm."""


def binned_colours(images: Float[Tensor, "b 3 h w"]) -> Int[Tensor, "b h w"]:
    """The bin of each pixel's colour, the mean over its 3×3 pixels; beyond the edge its pixels are repeated."""
    smooth = F.avg_pool2d(F.pad(images, [1] * 4, mode="replicate"), 3, 1)
    red, green, blue = (smooth * BINS).long().clamp(0, BINS - 1).unbind(1)
    return (red * BINS + green) * BINS + blue


def palettes(masks: Float[Tensor, "b k h w"], colours: Int[Tensor, "b h w"]) -> Float[Tensor, "b k colours"]:
    """How often each binned colour occurs under each mask, mixed with how often it does in the whole image."""
    part = masks.flatten(2)
    index = colours.flatten(1).unsqueeze(1).expand_as(part)
    counts = torch.zeros(*part.shape[:2], BINS**3, dtype=part.dtype, device=part.device).scatter_add_(2, index, part)
    borrowed = BORROWED * counts.sum(1, keepdim=True)
    return (counts + borrowed) / (counts + borrowed).sum(-1, keepdim=True)


def palette_evidence(masks: Float[Tensor, "b k h w"], colours: Int[Tensor, "b h w"]) -> Float[Tensor, "b k h w"]:
    """Log of how often each slot's palette has a pixel's colour."""
    table = palettes(masks, colours)
    index = colours.flatten(1).unsqueeze(1).expand(-1, masks.shape[1], -1)
    return table.gather(2, index).log().view_as(masks)


def middle_first(masks: Float[Tensor, "b k h w"], spread: float, trust: float) -> Float[Tensor, "b k h w"]:
    """Where to begin if the thing is taken to be in the middle: masks that sum to 1 over the slots.

    The slot that lies most in the middle, a Gaussian blob of deviation `spread` in half image sides, is given it whole;
    the others share what lies around as they did. `trust` of 1 begins from the masks themselves instead, and anything
    between from the geometric mean.
    """
    blob = (1 - MOST) / 2 + MOST * _blob(masks, spread)
    in_middle = (masks * blob).sum((-2, -1)) / masks.sum((-2, -1)).clamp(min=1.0)
    figure = F.one_hot(in_middle.argmax(1), masks.shape[1]).bool()[..., None, None]
    others = masks.masked_fill(figure, 0) + LEAST * ~figure
    begun = torch.where(figure, blob, (1 - blob) * others / others.sum(1, keepdim=True))
    mixed = (1 - trust) * begun.clamp(min=LEAST).log() + trust * masks.clamp(min=LEAST).log()
    return mixed.softmax(1)


def _blob(like: Float[Tensor, "b k h w"], spread: float) -> Float[Tensor, "h w"]:
    rows, columns = (
        torch.linspace(-1, 1, side, dtype=like.dtype, device=like.device).div(spread).square().mul(-0.5).exp()
        for side in like.shape[-2:]
    )
    return rows[:, None] * columns
