"""Scores of object discovery in photographs: pairs of pixels, panoptic quality, and boxes.

The field's mBO over instances is the segmentation covering of the foreground.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from cocanet.metrics.functional.covering import pairwise_iou
from cocanet.metrics.functional.overlap import border_slot

MATCHED = 0.5
"""IoU from which a segment or box is found; at most one segment has more with another."""


class PairScores(NamedTuple):
    """Of the pairs of foreground pixels in one slot, the share in one object; and the other way round."""

    precision: Float64[Tensor, " b"]
    recall: Float64[Tensor, " b"]


def pair_scores(table: Int[Tensor, "b segments slots"], ignored: int = 0) -> PairScores:
    """Whether ARI errs by merging (low precision) or by splitting objects (low recall); NaN without pairs.

    Pixels of the first `ignored` true labels are left out.
    """
    counts = table[:, ignored:].double()
    both, predicted, true = (_pairs(x).flatten(1).sum(1) for x in (counts, counts.sum(1), counts.sum(2)))
    return PairScores(*(torch.where(each > 0, both / each, torch.nan) for each in (predicted, true)))


def _pairs(counts: Tensor) -> Tensor:
    return counts * (counts - 1) / 2


def panoptic_quality(table: Int[Tensor, "b segments slots"]) -> Float64[Tensor, " b"]:
    """IoU of the matched segments, over matched ones and half of the others (Kirillov et al., 2019).

    The background counts as a segment like any other. NaN for an image without segments.
    """
    iou = pairwise_iou(table)
    matched = iou > MATCHED
    segments = (table.sum(2) > 0).sum(1) + (table.sum(1) > 0).sum(1)
    return torch.where(segments > 0, 2 * (iou * matched).sum((1, 2)) / segments, torch.nan)


def localised(
    labels: Int[Tensor, "b h w"], predicted: Int[Tensor, "b h w"], slots: int, background_labels: int = 1
) -> Float64[Tensor, " b"]:
    """CorLoc: 1 if the box of a slot has an IoU of .5 or more with that of an object, else 0; NaN without objects.

    The presumed background's slot, which has most of the image's border, does not count.
    """
    largest = int(labels.max()) if labels.numel() else 0
    objects = boxes(labels, largest + 1)[:, background_labels:]
    found = boxes(predicted, slots)
    iou = box_iou(objects, found)
    iou = iou.scatter(2, border_slot(predicted, slots).view(-1, 1, 1).expand(-1, iou.shape[1], 1), 0.0)
    hit = (iou >= MATCHED).flatten(1).any(1).double()
    return torch.where((objects[..., 2] > objects[..., 0]).any(1), hit, torch.nan)


def boxes(labels: Int[Tensor, "b h w"], count: int) -> Int[Tensor, "b count 4"]:
    """Top, left, bottom and right of each label; bottom and right are exclusive, and 0 where there is no pixel."""
    inside = labels.unsqueeze(1) == torch.arange(count, device=labels.device).view(-1, 1, 1)
    ends = []
    for axis in (3, 2):
        line = inside.any(axis)
        place = torch.arange(line.shape[-1], device=labels.device)
        first = place.masked_fill(~line, line.shape[-1]).amin(-1)
        last = (place + 1).masked_fill(~line, 0).amax(-1)
        ends.append((torch.where(last > 0, first, 0), last))
    (top, bottom), (left, right) = ends
    return torch.stack((top, left, bottom, right), -1)


def box_iou(one: Int[Tensor, "b n 4"], other: Int[Tensor, "b m 4"]) -> Float64[Tensor, "b n m"]:
    """IoU of each box with each other; 0 where one is empty."""
    low = torch.maximum(one[:, :, None, :2], other[:, None, :, :2])
    high = torch.minimum(one[:, :, None, 2:], other[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1).double()
    areas = [(each[..., 2:] - each[..., :2]).prod(-1).double() for each in (one, other)]
    return shared / (areas[0].unsqueeze(2) + areas[1].unsqueeze(1) - shared).clamp(min=1)
