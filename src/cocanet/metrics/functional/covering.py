"""Mean segmentation covering (Engelcke et al., 2019) of each image of a batch."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor


def segmentation_covering(
    table: Int[Tensor, "b segments slots"], ignored: int = 0, *, by_area: bool = False
) -> Float64[Tensor, b]:
    """Mean over the true segments of the best IoU that any predicted segment has with them.

    Segments with one of the first `ignored` labels are not counted, but predicted segments keep their pixels there,
    so that spilling over is punished. `by_area` weighs segments by their size. NaN for an image without segments.
    """
    counts = table.double()
    size = counts.sum(2)
    union = size.unsqueeze(2) + counts.sum(1).unsqueeze(1) - counts
    best = (counts / union.clamp(min=1)).amax(2)[:, ignored:]
    size = size[:, ignored:]
    weight = size if by_area else (size > 0).double()
    return torch.where(weight.sum(1) > 0, (best * weight).sum(1) / weight.sum(1), torch.nan)
