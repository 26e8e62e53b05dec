"""IoU, Dice and mean best overlap of the foreground, with and without an oracle that chooses the slot.

The foreground is everything but the first `background_labels` true labels. Images without foreground score NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float64, Int, Int64
from torch import Tensor

from cocanet.metrics.functional.contingency import contingency
from cocanet.metrics.functional.covering import pairwise_iou

EPSILON = 1e-8


class Overlap(NamedTuple):
    """Agreement of two regions, from 0 to 1."""

    iou: Float64[Tensor, " *b"]
    dice: Float64[Tensor, " *b"]


def best_slot_overlap(table: Int[Tensor, "b segments slots"], background_labels: int = 1) -> Overlap:
    """Overlap of the foreground with its best slot; the ground truth chooses the slot, for IoU and Dice separately."""
    inside = _foreground(table, background_labels)
    best = _best_slot(inside, _sizes(table))
    return Overlap(*(_where_any(inside, score) for score in best))


def both_regions_overlap(table: Int[Tensor, "b segments slots"], background_labels: int = 1) -> Overlap:
    """Mean of the best slot's overlap with the foreground and the best slot's overlap with the background.

    An image that is all foreground has only the first of the two.
    """
    inside, sizes = _foreground(table, background_labels), _sizes(table)
    outside = sizes - inside
    pairs = zip(_best_slot(inside, sizes), _best_slot(outside, sizes), strict=True)
    all_foreground = outside.sum(1) == 0
    means = (torch.where(all_foreground, fore, (fore + back) / 2) for fore, back in pairs)
    return Overlap(*(_where_any(inside, mean) for mean in means))


def united_overlap(
    table: Int[Tensor, "b segments slots"], background_slot: Int[Tensor, " b"], background_labels: int = 1
) -> Overlap:
    """Overlap of the foreground with the union of all slots but the background's; no oracle."""
    inside, sizes = _foreground(table, background_labels), _sizes(table)
    chosen = background_slot.unsqueeze(1)
    united_inside, united_size = (x.sum(1) - x.gather(1, chosen).squeeze(1) for x in (inside, sizes))
    united = _overlap(united_inside, united_size, inside.sum(1))
    return Overlap(*(_where_any(inside, score) for score in united))


def mean_best_overlap(
    table: Int[Tensor, "b segments slots"],
    background_labels: int = 1,
    background_slot: Int[Tensor, " b"] | None = None,
) -> Float64[Tensor, " b"]:
    """Mean over the objects of the best IoU of any slot except `background_slot`.

    If that is None, this is the segmentation covering of the foreground under its other name.
    """
    iou = pairwise_iou(table)
    if background_slot is not None:
        iou = iou.scatter(2, background_slot.view(-1, 1, 1).expand(-1, iou.shape[1], 1), 0.0)
    present = table.sum(2)[:, background_labels:] > 0
    best = iou[:, background_labels:].amax(2)
    return (best * present).sum(1) / present.sum(1)


def border_slot(predicted: Int[Tensor, "b h w"], slots: int) -> Int64[Tensor, " b"]:
    """The presumed background slot: the one with most pixels along the image's border.

    The border seldom cuts an object of interest, although the object may fill most of the image. Ties go to the larger
    slot, then to the first.
    """
    height, width = predicted.shape[1:]
    edge = torch.ones(height, width, dtype=torch.bool, device=predicted.device)
    edge[1:-1, 1:-1] = False
    at_border, everywhere = (
        contingency(torch.zeros_like(labels), labels, 1, slots).squeeze(1)
        for labels in (predicted[:, edge], predicted.flatten(1))
    )
    return (at_border * (height * width + 1) + everywhere).max(1).indices


def _foreground(table: Tensor, background_labels: int) -> Float64[Tensor, "b slots"]:
    """Foreground pixels in each slot."""
    return table[:, background_labels:].sum(1).double()


def _sizes(table: Tensor) -> Float64[Tensor, "b slots"]:
    return table.sum(1).double()


def _best_slot(inside: Tensor, sizes: Tensor) -> Overlap:
    overlap = _overlap(inside, sizes, inside.sum(1, keepdim=True))
    return Overlap(overlap.iou.amax(1), overlap.dice.amax(1))


def _overlap(inside: Tensor, size: Tensor, region: Tensor) -> Overlap:
    """Overlap of segments of `size` pixels with a region, of which they share `inside` pixels."""
    iou = (inside + EPSILON) / (size + region - inside + EPSILON)
    dice = (2 * inside + EPSILON) / (size + region + EPSILON)
    return Overlap(iou, dice)


def _where_any(inside: Tensor, score: Tensor) -> Tensor:
    return torch.where(inside.sum(1) > 0, score, torch.nan)
