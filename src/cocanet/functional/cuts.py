"""Two walls of one colour that meet in a corner: a large segment is cut along an upright edge of its brightness.

Light falls on planes of one colour in different strengths. Pixel by pixel their texture hides that; of hundreds of
pixels on either side of a line it does not. Cameras stand upright and so do the corners of rooms, while light fades
with distance, mostly up and down a picture: so lines are upright, and no ground or sky is cut for its gradient.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

DARKEST = 0.05
"""Added to brightness before its logarithm: shade is a factor, but for the darkest."""
NOISE = 1e-4
"""Added to a variance of log brightness."""
LARGE = 0.1
"""Share of an image from which a segment may be cut."""
SIDE = 0.12
"""Share of a segment that either side has at least."""


def cut_upright(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b c h w"],
    in_use: Bool[Tensor, "b k"],
    *,
    least: float,
    smallest: float,
) -> Float[Tensor, "b k h w"]:
    """In each image the segment that gains most by a cut gives what lies to the right of it to a slot without pixels.

    A cut must save `least` nats (`upright_gain`). A slot with less than the share `smallest` of an image has no pixels
    to speak of; without such a slot there is no cut.
    """
    slots, width = masks.shape[1], masks.shape[-1]
    own = F.one_hot(masks.argmax(1), slots).movedim(-1, 1).to(masks.dtype)
    gain, where = upright_gain(own, (images.mean(1) + DARKEST).log()).flatten(1).max(-1)
    share, free = own.mean((-2, -1)).masked_fill(~in_use, torch.inf).min(-1)
    cuts = (gain > least) & (share < smallest)
    right = torch.arange(width, device=masks.device) > (where % width).unsqueeze(-1)
    side = (right & cuts.unsqueeze(-1))[:, None, None].to(masks.dtype)
    giver, taker = (F.one_hot(slot, slots)[..., None, None].to(masks.dtype) for slot in (where // width, free))
    given = (masks * giver).sum(1, keepdim=True) * side
    return masks + given * (taker - giver)


def upright_gain(own: Float[Tensor, "b k h w"], light: Float[Tensor, "b h w"]) -> Float[Tensor, "b k w"]:
    """Nats that it saves to tell a segment's light by two means, left and right of a line behind each column.

    n/2 · log of the variance about one mean over that about two. Nothing where a side would be too small.
    """
    light = light.unsqueeze(1)
    columns = torch.stack([(own * power).sum(-2) for power in (torch.ones_like(light), light, light**2)], -1)
    left = columns.cumsum(-2)
    whole = left[..., -1:, :]
    right = whole - left
    pixels = whole[..., 0].clamp(min=1)
    one, two = (parts / pixels + NOISE for parts in (_scatter(whole), _scatter(left) + _scatter(right)))
    height, width = own.shape[-2:]
    large = (whole[..., 0] >= LARGE * height * width) & (torch.minimum(left, right)[..., 0] >= SIDE * whole[..., 0])
    return torch.where(large, 0.5 * pixels * (one / two).log(), 0.0)


def _scatter(sums: Float[Tensor, "*shape 3"]) -> Float[Tensor, "*shape"]:
    """Σ (x - mean)², from the number of values, their sum and the sum of their squares."""
    count, total, squares = sums.unbind(-1)
    return (squares - total**2 / count.clamp(min=1)).clamp(min=0)
