"""The bright side and the dark top of one thing: two segments that side by side are one box or ball become one.

What shines mirrors the room, and grouping by colour takes it apart; its outline is still that of one thing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from cocanet.functional.outlines import THING, Outlines, outline_error, outlines
from cocanet.functional.ownership import hand_over, owned
from cocanet.functional.tracing import repeat

JOINS = 4
"""Pairs that are joined in an image at most."""
REACH = 2
"""Rows and columns within which two segments touch."""
CONTACT = 2.5
"""Pixels in touch, for each pixel of the smaller segment's size, from which two may be one."""
ROUGH = 8.0
"""Pixels of error, for each pixel of its size, up to which the outline of both is still that of one thing."""


def join_wholes(masks: Float[Tensor, "b k h w"], *, least: float) -> Float[Tensor, "b k h w"]:
    """Join the pairs that gain most by it, if that saves `least` pixels of outline for each of size (`join_gain`).

    The larger of the two gets all that the other has.
    """
    slots = masks.shape[1]

    def once(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
        own = owned(masks)
        gain, pair = join_gain(own).flatten(1).max(-1)
        area = own.sum((-2, -1))
        one, other = pair // slots, pair % slots
        larger = (area.gather(1, one.unsqueeze(1)) >= area.gather(1, other.unsqueeze(1))).squeeze(1)
        taker, giver = torch.where(larger, one, other), torch.where(larger, other, one)
        return hand_over(masks, giver, taker, (gain > least)[:, None, None])

    return repeat(once, masks, JOINS)


def join_gain(own: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k k"]:
    """Pixels by which one shape tells the outline of a pair better than two do, for each pixel of the pair's size.

    A size is the root of an area. Nothing of pairs that hardly touch, are no box or ball, or too large for a thing.
    """
    outline, area = outlines(own), own.sum((-2, -1))
    size = (area.unsqueeze(1) + area.unsqueeze(2)).clamp(min=1).sqrt()
    alone = outline_error(outline, outline.filled.unsqueeze(-2)).squeeze(-1)
    pairs = _united(outline)
    together = outline_error(pairs, pairs.filled.unsqueeze(-2)).squeeze(-1)
    around = F.max_pool2d(own, 2 * REACH + 1, 1, REACH)
    touching = einsum(around, own, "b i h w, b j h w -> b i j")
    smaller = torch.minimum(area.unsqueeze(1), area.unsqueeze(2)).clamp(min=1).sqrt()
    thing = (area > 0) & (own.mean((-2, -1)) <= THING)
    may = thing.unsqueeze(1) & thing.unsqueeze(2) & (torch.minimum(touching, touching.mT) > CONTACT * smaller)
    itself = torch.eye(own.shape[1], dtype=torch.bool, device=own.device)
    may = may & (together < ROUGH * size) & ~itself
    return torch.where(may, (alone.unsqueeze(1) + alone.unsqueeze(2) - together) / size, 0.0)


def _united(of: Outlines) -> Outlines:
    """The outline of every pair of segments together."""
    width = torch.where(of.filled > 0, of.right, 0.0)
    start = torch.where(of.filled > 0, of.left, torch.inf)
    left, right = (
        torch.minimum(start.unsqueeze(2), start.unsqueeze(1)),
        torch.maximum(width.unsqueeze(2), width.unsqueeze(1)),
    )
    filled = torch.maximum(of.filled.unsqueeze(2), of.filled.unsqueeze(1))
    return Outlines(torch.where(filled > 0, left, 0.0), right, filled)
