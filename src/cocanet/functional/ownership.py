"""Whole pixels instead of parts of them: each belongs to one slot."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def owned(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """1 where a slot has most of a pixel, 0 elsewhere."""
    return as_masks(masks.argmax(1), masks)


def hand_over(
    masks: Float[Tensor, "b k h w"], giver: Int[Tensor, " b"], taker: Int[Tensor, " b"], where: Bool[Tensor, "b h_ w_"]
) -> Float[Tensor, "b k h w"]:
    """In each image one slot gives another all that it has of some pixels."""
    give, take = (F.one_hot(slot, masks.shape[1])[..., None, None].to(masks.dtype) for slot in (giver, taker))
    given = (masks * give).sum(1, keepdim=True) * where.unsqueeze(1).to(masks.dtype)
    return masks + given * (take - give)


def as_masks(owner: Int[Tensor, "b h w"], like: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
    """Masks of so many slots, and of that type, in which every pixel is its owner's."""
    return F.one_hot(owner, like.shape[1]).movedim(-1, 1).to(like.dtype)


def up_to_last_owner(
    masks: Float[Tensor, "b k h w"], in_use: Bool[Tensor, "b k"]
) -> tuple[Float[Tensor, "b k h w"], Bool[Tensor, "b k"]]:
    """Masks of the slots in use and those up to the last that has most of some pixel, and which these are.

    The others keep nothing; masks still sum to 1. Slots are numbered as their anchors were, and so without gaps.
    """
    wanted = in_use | (owned(masks).amax((-2, -1)) > 0)
    number = torch.arange(masks.shape[1], device=masks.device)
    used = number <= (wanted * number).amax(-1, keepdim=True)
    kept = masks * used[..., None, None].to(masks.dtype)
    return kept / kept.sum(1, keepdim=True), used
