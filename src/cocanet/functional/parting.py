"""Two things apart that share a slot: each gets one, as long as there are slots without pixels.

Grouping may have been short of slots that joins then left empty.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cocanet.functional.ground import reaches_sides
from cocanet.functional.ownership import as_masks
from cocanet.functional.regrouping import PIECES_PER_SLOT, largest, pieces


def part_pieces(
    masks: Float[Tensor, "b k h w"], in_use: Bool[Tensor, "b k"], *, smallest: float
) -> Float[Tensor, "b k h w"]:
    """Give pieces that lie apart from their segment's largest to slots in use without pixels, the largest first.

    A slot gives all that it has of the pixels of a piece. The ground, which things part, stays one, and so does what is
    smaller than the share `smallest`.
    """
    owner = masks.argmax(1)
    own = as_masks(owner, masks)
    ranks, counted = largest(pieces(owner), PIECES_PER_SLOT * masks.shape[1], smallest)
    slot = _slot_of_pieces(ranks, owner, counted.shape[1])
    moves = counted & ~_first_of_slot(slot) & ~reaches_sides(own).gather(1, slot)
    to, found = _free_slots(moves, in_use & ~own.flatten(2).any(-1))
    # Pixels of no piece that counts have a rank beyond the last.
    stay = torch.zeros_like(found[:, :1])
    moved = torch.cat((found, stay), 1).gather(1, ranks.flatten(1)).view_as(owner)
    taker = torch.cat((to, stay.long()), 1).gather(1, ranks.flatten(1)).view_as(owner)
    giver, taker = owner.unsqueeze(1), taker.unsqueeze(1)
    given = masks.gather(1, giver) * moved.unsqueeze(1).to(masks.dtype)
    return masks.scatter_add(1, taker, given).scatter_add(1, giver, -given)


def _slot_of_pieces(ranks: Int[Tensor, "b h w"], owner: Int[Tensor, "b h w"], count: int) -> Int[Tensor, "b p"]:
    slot = torch.zeros(ranks.shape[0], count + 1, dtype=owner.dtype, device=owner.device)
    return slot.scatter(1, ranks.flatten(1), owner.flatten(1))[:, :count]


def _first_of_slot(slot: Int[Tensor, "b p"]) -> Bool[Tensor, "b p"]:
    """Which pieces, largest first, are the largest of their slot."""
    same = slot.unsqueeze(1) == slot.unsqueeze(2)
    return ~same.tril(-1).any(-1)


def _free_slots(
    moves: Bool[Tensor, "b p"], free: Bool[Tensor, "b k"]
) -> tuple[Int[Tensor, "b p"], Bool[Tensor, "b p"]]:
    """The free slot of each piece that moves, the first of them for the first, and whether there is one for it."""
    match = moves.cumsum(1).unsqueeze(2) == free.cumsum(1).unsqueeze(1)
    match = match & moves.unsqueeze(2) & free.unsqueeze(1)
    return match.long().argmax(-1), match.any(-1)
