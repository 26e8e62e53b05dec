"""Mean segmentation covering (Engelcke et al., 2019) of each image of a batch."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor


def segmentation_covering(
    table: Int[Tensor, "b segments slots"], ignored: int = 0, *, by_area: bool = False
) -> Float64[Tensor, " b"]:
    """Mean over the true segments of the best IoU that any predicted segment has with them.

    Segments of the first `ignored` labels do not count, but predicted segments keep their pixels there, so that
    a mask that spills over scores less. `by_area` weights segments by their size. NaN for an image without segments.
    """
    size = table.sum(2)[:, ignored:].double()
    weight = size if by_area else (size > 0).double()
    best = pairwise_iou(table)[:, ignored:].amax(2)
    return torch.where(weight.sum(1) > 0, (best * weight).sum(1) / weight.sum(1), torch.nan)


def pairwise_iou(table: Int[Tensor, "b segments slots"]) -> Float64[Tensor, "b segments slots"]:
    """IoU of each true segment with each predicted one; 0 where both are empty."""
    counts = table.double()
    union = counts.sum(2, keepdim=True) + counts.sum(1, keepdim=True) - counts
    return counts / union.clamp(min=1)
