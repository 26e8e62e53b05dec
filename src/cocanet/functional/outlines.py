"""How well a box or a ball tells the outline of a segment.

A segment's outline is where it begins and ends in each of its rows. Things stand upright: a box has two upright edges,
a ball is an ellipse as high as the segment, and every other shape is told by whichever of them fits better.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

THING = 0.2
"""Share of an image up to which a segment may be a thing."""


class Outlines(NamedTuple):
    """Of segments, row by row; `left` and `right` mean nothing in rows that are not `filled`."""

    left: Float[Tensor, "*segments h"]
    right: Float[Tensor, "*segments h"]
    """The column behind the last."""
    filled: Float[Tensor, "*segments h"]
    """1 where the segment has a pixel, 0 elsewhere."""


def outlines(own: Float[Tensor, "*segments h w"]) -> Outlines:
    """Of segments of whole pixels."""
    width = own.shape[-1]
    return Outlines(own.argmax(-1).to(own.dtype), width - own.flip(-1).argmax(-1).to(own.dtype), own.amax(-1))


def outline_error(of: Outlines, rows: Float[Tensor, "*segments parts h"]) -> Float[Tensor, "*segments parts"]:
    """Pixels between the edges of a part of the rows and those of the box or the ball that fits it better.

    A box has the mean edges. A ball reaches from the part's first row to its last, about the mean centre.
    """
    left, right = of.left.unsqueeze(-2), of.right.unsqueeze(-2)

    def error(from_left: Tensor, from_right: Tensor) -> Tensor:
        return (rows * ((left - from_left).abs() + (right - from_right).abs())).sum(-1)

    def mean(x: Tensor) -> Tensor:
        return (rows * x).sum(-1, keepdim=True) / rows.sum(-1, keepdim=True).clamp(min=1)

    box = error(mean(left), mean(right))
    height = rows.shape[-1]
    first = rows.argmax(-1, keepdim=True).to(rows.dtype)
    behind = height - rows.flip(-1).argmax(-1, keepdim=True).to(rows.dtype)
    row = torch.arange(height, device=rows.device)
    arc = (1 - (2 * (row - (first + behind - 1) / 2) / (behind - first)).square()).clamp(min=0).sqrt()
    wide = (rows * arc * (right - left) / 2).sum(-1, keepdim=True) / (rows * arc**2).sum(-1, keepdim=True).clamp(
        min=1e-3
    )
    centre = mean((left + right) / 2)
    return torch.minimum(box, error(centre - wide * arc, centre + wide * arc))
