"""What colour cannot part: two walls of one colour that meet in a corner, two blocks of one colour in a stack.

A segment is cut along an upright or a level line, and a slot without pixels gets one side of it. Cameras stand upright,
and so do the corners of rooms and the things that stand on one another.

*Upright* cuts are of large segments, by brightness. Light falls on two walls in different strengths. Pixel by pixel
their texture hides that; of hundreds of pixels on either side of a line it does not. Light also fades with distance,
mostly up and down a picture: no ground or sky is cut for its gradient.

*Level* cuts are of small segments, by outline: two things on top of each other have one that two boxes or balls tell
better than one.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.functional.outlines import THING, outline_error, outlines
from cocanet.functional.ownership import hand_over, owned
from cocanet.functional.tracing import repeat

DARKEST = 0.05
"""Added to brightness before its logarithm: shade is a factor, but for the darkest."""
NOISE = 1e-4
"""Added to a variance of log brightness."""
WALL = 0.1
"""Share of an image from which a segment may be cut upright."""
SIDE = 0.12
"""Share of a segment that either side of an upright cut has at least."""
HIGH = 0.07
"""Share of an image's height that either side of a level cut has at least: a ball's cap is lower."""
LEVELS = 3
"""Level cuts in an image at most."""


def cut_upright(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b c h w"],
    in_use: Bool[Tensor, "b k"],
    *,
    least: float,
    smallest: float,
) -> Float[Tensor, "b k h w"]:
    """Cut the segment that gains most by it, along a column, if that saves `least` nats (`upright_gain`)."""
    width = masks.shape[-1]
    own = owned(masks)
    gain = upright_gain(own, (images.mean(1) + DARKEST).log())
    column = torch.arange(width, device=masks.device)
    right = (column > column.unsqueeze(1)).unsqueeze(1)
    return _cut(masks, own, gain, right, in_use, least, smallest)


def cut_level(
    masks: Float[Tensor, "b k h w"], in_use: Bool[Tensor, "b k"], *, least: float, smallest: float
) -> Float[Tensor, "b k h w"]:
    """Cut those segments that gain most by it, along a row, if that saves `least` pixels of outline (`level_gain`)."""
    row = torch.arange(masks.shape[-2], device=masks.device)
    below = (row > row.unsqueeze(1)).unsqueeze(-1)

    def once(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
        own = owned(masks)
        return _cut(masks, own, level_gain(own), below, in_use, least, smallest)

    return repeat(once, masks, LEVELS)


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
    large = (whole[..., 0] >= WALL * height * width) & (torch.minimum(left, right)[..., 0] >= SIDE * whole[..., 0])
    return torch.where(large, 0.5 * pixels * (one / two).log(), 0.0)


def level_gain(own: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h"]:
    """Pixels by which two shapes, above and below a line behind each row, tell a segment's outline better than one.

    Nothing where a side would be too low, and of segments that are too large for a thing.
    """
    outline, height = outlines(own), own.shape[-2]
    row = torch.arange(height, device=own.device)
    filled = outline.filled.unsqueeze(-2)
    above = (row <= row.unsqueeze(1)).to(own.dtype) * filled
    upper, lower = outline_error(outline, above), outline_error(outline, filled - above)
    high = torch.minimum(above.sum(-1), (filled - above).sum(-1)) >= HIGH * height
    thing = own.mean((-2, -1)).unsqueeze(-1) <= THING
    return torch.where(thing & high, upper[..., -1:] - upper - lower, 0.0)


def _cut(
    masks: Float[Tensor, "b k h w"],
    own: Float[Tensor, "b k h w"],
    gain: Float[Tensor, "b k lines"],
    beyond: Bool[Tensor, "lines h_ w_"],
    in_use: Bool[Tensor, "b k"],
    least: float,
    smallest: float,
) -> Float[Tensor, "b k h w"]:
    """In each image the segment that gains most gives what lies beyond its best line to a slot without pixels.

    A slot with less than the share `smallest` of an image has no pixels to speak of; without one there is no cut.
    """
    lines = gain.shape[-1]
    most, where = gain.flatten(1).max(-1)
    share, free = own.mean((-2, -1)).masked_fill(~in_use, torch.inf).min(-1)
    cuts = (most > least) & (share < smallest)
    return hand_over(masks, where // lines, free, beyond[where % lines] & cuts[:, None, None])


def _scatter(sums: Float[Tensor, "*shape 3"]) -> Float[Tensor, "*shape"]:
    """Σ (x - mean)², from the number of values, their sum and the sum of their squares."""
    count, total, squares = sums.unbind(-1)
    return (squares - total**2 / count.clamp(min=1)).clamp(min=0)
