"""Top-down feedback in closed form: slots and neighbours correct the masks that were made below them.

The paper's conclusion asks for it: a cell's mistake is never put right by the levels above. A round is one step of
mean field inference. A pixel listens to what came from below, to its neighbours, and to every slot:

    q ∝ q⁰ · exp(ν·votes + φ·ownership + σ·explanation + ρ·palettes)

Nothing here is learned, so that it also corrects masks of weights that were trained without it.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.functional.cuts import cut_level, cut_upright
from cocanet.functional.ground import join_ground
from cocanet.functional.joins import join_wholes
from cocanet.functional.palettes import binned_colours, palette_evidence
from cocanet.functional.parting import part_pieces
from cocanet.functional.regrouping import SPREAD, places, regroup_masks
from cocanet.functional.rims import settle_rims
from cocanet.functional.tracing import repeat

FLOOR = 1e-6
"""Least value of a mask before its logarithm."""
EMPTIEST = 1e-4
"""Share of an image that even an empty slot is taken to have."""


def correct_masks(
    masks: Float[Tensor, "b k h w"],
    images: Float[Tensor, "b 3 h w"],
    in_use: Bool[Tensor, "b k"],
    *,
    rounds: int,
    neighbours: float,
    contrast: float,
    reach: int,
    figure: float,
    smallest: float,
    slots: float,
    noise: float,
    light: float,
    palette: float = 0.0,
    regroup: bool = False,
    regroup_noise: float | None = None,
    rim: float = 0.0,
    ground: bool = False,
    whole: float = 0.0,
    pieces: bool = False,
    upright: float = 0.0,
    level: float = 0.0,
    spare: Bool[Tensor, "b k"] | None = None,
) -> Float[Tensor, "b k h w"]:
    """Masks after `rounds` of feedback; they sum to 1, and slots that are neither in use nor spare stay empty.

    `neighbours`, `figure`, `slots` and `palette` weigh the voices, a 0 silences one. All but palettes see colours in
    which brightness counts only `light`: a shaded side is still of the object's hue. With `regroup` the pieces of the
    corrected masks are grouped anew, and as many rounds correct the groups. Last, `rim` settles the borders of
    figures, `ground` joins what lies behind them, `whole` joins what is one thing by its outline, `pieces` parts what
    lies apart, `upright` cuts a large segment, and `level` small ones. Slots that are `spare` get nothing but what is
    grouped anew, parted or cut off.
    """
    if not rounds:
        return masks
    bins = binned_colours(images) if palette else None
    colours = images - (1 - light) * images.mean(1, keepdim=True)
    alike = likeness(colours, reach, contrast) if neighbours else None

    def corrected(masks: Float[Tensor, "b k h w"], in_use: Bool[Tensor, "b k"]) -> Float[Tensor, "b k h w"]:
        below = masks.clamp(min=FLOOR).log().masked_fill(~in_use[..., None, None], -torch.inf)

        def one_round(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
            logits = below
            if alike is not None:
                logits = logits + neighbours * votes(masks, alike)
            if figure:
                logits = logits + figure * border_ownership(masks, smallest)[..., None, None]
            if slots:
                logits = logits + slots * explanation(masks, colours, noise)
            if bins is not None:
                logits = logits + palette * palette_evidence(masks, bins)
            return logits.softmax(1)

        return repeat(one_round, masks, rounds)

    masks = corrected(masks, in_use)
    in_use = in_use if spare is None else in_use | spare
    if regroup:
        told = noise if regroup_noise is None else regroup_noise
        masks = corrected(regroup_masks(masks, colours, in_use, smallest=smallest, noise=told), in_use)
    if rim:
        masks = settle_rims(masks, colours, part=rim)
    if ground:
        masks = join_ground(masks)
    if whole:
        masks = join_wholes(masks, least=whole)
    if pieces:
        masks = part_pieces(masks, in_use, smallest=smallest)
    if upright:
        masks = cut_upright(masks, images, in_use, least=upright, smallest=smallest)
    if level:
        masks = cut_level(masks, in_use, least=level, smallest=smallest)
    return masks


def likeness(images: Float[Tensor, "b c h w"], reach: int, contrast: float) -> Float[Tensor, "b offsets h w"]:
    """How much each neighbour's vote counts: less with its distance, and less the more its colour differs.

    Neighbours are those at most `reach` rows and columns away, in the order of `_offsets`. Those of one colour with a
    pixel count 1 together; `contrast` is the deviation of colour at which a vote counts e^(-1/2) of that.
    """
    near = [math.exp(-0.5 * (row**2 + column**2)) for row, column in _offsets(reach)]
    nearness = torch.tensor(near, dtype=images.dtype, device=images.device) / math.fsum(near)
    differences = torch.stack([(other - images).square().sum(1) for other in _neighbours(images, reach)], 1)
    return differences.mul(-0.5 / contrast**2).exp() * nearness[:, None, None]


def votes(masks: Float[Tensor, "b k h w"], alike: Float[Tensor, "b offsets h w"]) -> Float[Tensor, "b k h w"]:
    """Σ_j likeness_ij · q_j over the neighbours j of each pixel i: the mean field of pairs that want to agree."""
    reach = (math.isqrt(alike.shape[1] + 1) - 1) // 2
    total = torch.zeros_like(masks)
    for weight, near in zip(alike.unbind(1), _neighbours(masks, reach), strict=True):
        total.addcmul_(weight.unsqueeze(1), near)
    return total


def border_ownership(masks: Float[Tensor, "b k h w"], smallest: float) -> Float[Tensor, "b k"]:
    """−log share: of two segments the smaller, the figure, owns the border; the ground goes on behind it.

    A segment of less than the share `smallest` is taken for a stray, and has to give way.
    """
    share = _share(masks)
    return -share.log() - (smallest / share).square()


def explanation(
    masks: Float[Tensor, "b k h w"], images: Float[Tensor, "b c h w"], noise: float
) -> Float[Tensor, "b k h w"]:
    """How well a slot explains each pixel: log of its share, and of two Gaussians of its mean colour and place.

    One variance for all channels of colour, with `noise` added to it; a full covariance for the place.
    """
    part, colours = masks.flatten(2), rearrange(images, "b c h w -> b (h w) c")
    area = part.sum(-1, keepdim=True).clamp(min=FLOOR)
    mean = part @ colours / area
    lengths = colours.square().sum(-1)
    channels = colours.shape[-1]
    variance = (part @ lengths.unsqueeze(-1) / area - mean.square().sum(-1, keepdim=True)).clamp(min=0) / channels
    variance = variance + noise
    distance = lengths.unsqueeze(1) - 2 * mean @ colours.mT + mean.square().sum(-1, keepdim=True)
    by_colour = -0.5 * (distance / variance + channels * variance.log())
    place = _place_log_density(part / area, (images.shape[-2], images.shape[-1]))
    return (_share(masks).log().unsqueeze(-1) + by_colour + place).view_as(masks)


def _place_log_density(weights: Float[Tensor, "b k n"], size: tuple[int, int]) -> Float[Tensor, "b k n"]:
    """Log density of every pixel under the Gaussian of a slot's pixels; `weights` sum to 1 over them."""
    row, column = (grid.flatten() for grid in places(size, weights))
    moments = weights @ torch.stack((row, column, row**2, row * column, column**2), -1)
    r, c, rr, rc, cc = moments.unbind(-1)
    a, b, d = rr - r**2 + SPREAD, rc - r * c, cc - c**2 + SPREAD
    determinant = a * d - b**2
    # The exponent is a polynomial of the pixel's place, so that all pixels are one matrix product.
    polynomial = torch.stack((row**2, row * column, column**2, row, column, torch.ones_like(row)))
    constant = d * r**2 - 2 * b * r * c + a * c**2
    terms = torch.stack((d, -2 * b, a, 2 * (b * c - d * r), 2 * (b * r - a * c), constant), -1)
    distance = terms / determinant.unsqueeze(-1) @ polynomial
    return -0.5 * (distance + determinant.log().unsqueeze(-1))


def _share(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k"]:
    return masks.mean((-2, -1)).clamp(min=EMPTIEST)


def _offsets(reach: int) -> list[tuple[int, int]]:
    line = range(-reach, reach + 1)
    return [(row, column) for row in line for column in line if (row, column) != (0, 0)]


def _neighbours(grid: Float[Tensor, "b c h w"], reach: int) -> list[Float[Tensor, "b c h w"]]:
    """The grid moved by every offset; beyond the edge its outermost pixels are repeated."""
    height, width = grid.shape[-2:]
    padded = F.pad(grid, [reach] * 4, mode="replicate")
    return [
        padded[..., reach + row : reach + row + height, reach + column : reach + column + width]
        for row, column in _offsets(reach)
    ]


def project_on_nodes(
    masks: Float[Tensor, "b k h w"], nodes: Float[Tensor, "b cells c rows columns"]
) -> Float[Tensor, "b k n"]:
    """Masks over the nodes of the last level: the part of each node's pixels that a slot has; sums to 1 over the slots.

    `nodes` are the masks of each cell's nodes over the cell's own pixels, as `merge_masks` gives them.
    """
    rows, columns = nodes.shape[-2:]
    parts = rearrange(masks, "b k (gr h) (gc v) -> b (gr gc) k h v", h=rows, v=columns)
    share = nodes / nodes.sum((-2, -1), keepdim=True).clamp(min=FLOOR)
    return rearrange(einsum(parts, share, "b w k h v, b w c h v -> b w k c"), "b w k c -> b k (w c)")
