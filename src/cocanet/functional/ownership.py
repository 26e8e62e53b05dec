"""Whole pixels instead of parts of them: each belongs to one slot."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def owned(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """1 where a slot has most of a pixel, 0 elsewhere."""
    return as_masks(masks.argmax(1), masks)


def as_masks(owner: Int[Tensor, "b h w"], like: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """Masks of so many slots, and of that type, in which every pixel is its owner's."""
    return F.one_hot(owner, like.shape[1]).movedim(-1, 1).to(like.dtype)
