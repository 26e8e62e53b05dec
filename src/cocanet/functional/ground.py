"""The ground in one piece: a chequered floor has two colours, and yet things stand on one floor.

Things lie inside a picture, or are cut off by one of its sides; what reaches two sides goes on behind them. And things
have a plain outline: what consists of many small pieces, or is all edge, is of the ground's pattern.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.functional.ownership import owned

SIDES = 2
"""Sides of a picture that the ground reaches at least."""
REACHED = 0.03
"""Part of a side that a segment must have to reach it."""
RAGGED = 15.0
"""Length of an outline, for each pixel of a segment's size, from which it is no thing's; a square's is 4."""


def join_ground(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """Give the largest segment that reaches enough sides, if any does, all that the others and ragged ones have."""
    own = owned(masks)
    behind = reaches_sides(own)
    largest = F.one_hot((own.sum((-2, -1)) * behind).argmax(1), masks.shape[1])
    ground = (behind | is_ragged(own)) & behind.any(1, keepdim=True)
    given = masks * ground[..., None, None].to(masks.dtype)
    return masks - given + given.sum(1, keepdim=True) * largest[..., None, None].to(masks.dtype)


def reaches_sides(own: Float[Tensor, "b k h w"]) -> Bool[Tensor, "b k"]:
    """Which segments of whole pixels reach at least so many sides of the picture as the ground does."""
    sides = own[..., 0, :], own[..., -1, :], own[..., 0], own[..., -1]
    return torch.stack([side.mean(-1) >= REACHED for side in sides]).sum(0) >= SIDES


def is_ragged(own: Float[Tensor, "b k h w"]) -> Bool[Tensor, "b k"]:
    """Which segments have an outline much longer than their size, the root of their area. A picture's edge is none."""
    across, down = own.diff(dim=-1).abs().sum((-2, -1)), own.diff(dim=-2).abs().sum((-2, -1))
    return across + down > RAGGED * own.sum((-2, -1)).sqrt()
