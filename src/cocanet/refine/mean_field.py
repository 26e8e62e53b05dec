"""Mean-field refinement of masks: colours, positions and neighbours correct each pixel's assignment.

One update is

    q ∝ q⁰ · exp(λ_p · pairwise messages + λ_s · small-segment prior + λ_u · unary log-likelihood)

with q⁰ the network's masks. Nothing here is learned.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.config.refine import RefineConfig
from cocanet.functional.tracing import repeat
from cocanet.refine.merge import POSITION_VARIANCE, pixel_positions

FLOOR = 1e-6
"""Smallest mask value before its logarithm."""
SMALLEST_SHARE = 1e-4
"""Share of the image that an empty slot counts with."""


def mean_field(
    masks: Float[Tensor, "b k h w"],
    colours: Float[Tensor, "b c h w"],
    in_use: Bool[Tensor, "b k"],
    config: RefineConfig,
) -> Float[Tensor, "b k h w"]:
    """Masks after `config.rounds` updates; a weight of 0 leaves a term out."""
    if not config.rounds:
        return masks
    initial = masks.clamp(min=FLOOR).log().masked_fill(~in_use[..., None, None], -torch.inf)
    weights = pairwise_weights(colours, config.radius, config.colour_sigma) if config.pairwise_weight else None

    def update(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k h w"]:
        logits = initial
        if weights is not None:
            logits = logits + config.pairwise_weight * pairwise_messages(masks, weights)
        if config.small_segment_prior:
            prior = small_segment_prior(masks, config.min_area)
            logits = logits + config.small_segment_prior * prior[..., None, None]
        if config.unary_weight:
            logits = logits + config.unary_weight * unary_log_likelihood(masks, colours, config.noise)
        return logits.softmax(1)

    return repeat(update, masks, config.rounds)


def pairwise_weights(
    images: Float[Tensor, "b c h w"], radius: int, colour_sigma: float
) -> Float[Tensor, "b offsets h w"]:
    """Weight of each neighbour's message: it falls with distance and with difference in colour.

    Neighbours are in the order of `_offsets`. The weights of neighbours that share a pixel's colour sum to 1.
    """
    near = [math.exp(-0.5 * (row**2 + column**2)) for row, column in _offsets(radius)]
    nearness = torch.tensor(near, dtype=images.dtype, device=images.device) / math.fsum(near)
    differences = torch.stack([(other - images).square().sum(1) for other in _neighbours(images, radius)], 1)
    return differences.mul(-0.5 / colour_sigma**2).exp() * nearness[:, None, None]


def pairwise_messages(
    masks: Float[Tensor, "b k h w"], weights: Float[Tensor, "b offsets h w"]
) -> Float[Tensor, "b k h w"]:
    """Σ_j w_ij · q_j over the neighbours j of each pixel i."""
    radius = (math.isqrt(weights.shape[1] + 1) - 1) // 2
    total = torch.zeros_like(masks)
    for weight, near in zip(weights.unbind(1), _neighbours(masks, radius), strict=True):
        total.addcmul_(weight.unsqueeze(1), near)
    return total


def small_segment_prior(masks: Float[Tensor, "b k h w"], min_area: float) -> Float[Tensor, "b k"]:
    """−log share: of two segments the smaller owns their border. Segments below `min_area` are suppressed."""
    share = _share(masks)
    return -share.log() - (min_area / share).square()


def unary_log_likelihood(
    masks: Float[Tensor, "b k h w"], images: Float[Tensor, "b c h w"], noise: float
) -> Float[Tensor, "b k h w"]:
    """Log-likelihood of each pixel under each slot: its share, and Gaussians of its colour and position.

    All channels of colour share one variance, to which `noise` is added. Position has a full covariance.
    """
    part, colours = masks.flatten(2), rearrange(images, "b c h w -> b (h w) c")
    area = part.sum(-1, keepdim=True).clamp(min=FLOOR)
    mean = part @ colours / area
    lengths = colours.square().sum(-1)
    channels = colours.shape[-1]
    variance = (part @ lengths.unsqueeze(-1) / area - mean.square().sum(-1, keepdim=True)).clamp(min=0) / channels
    variance = variance + noise
    distance = lengths.unsqueeze(1) - 2 * mean @ colours.mT + mean.square().sum(-1, keepdim=True)
    colour = -0.5 * (distance / variance + channels * variance.log())
    position = _position_log_density(part / area, (images.shape[-2], images.shape[-1]))
    return (_share(masks).log().unsqueeze(-1) + colour + position).view_as(masks)


def _position_log_density(weights: Float[Tensor, "b k n"], size: tuple[int, int]) -> Float[Tensor, "b k n"]:
    """Log density of every position under the Gaussian of a slot's pixels; `weights` sum to 1 over them."""
    row, column = (grid.flatten() for grid in pixel_positions(size, weights))
    moments = weights @ torch.stack((row, column, row**2, row * column, column**2), -1)
    r, c, rr, rc, cc = moments.unbind(-1)
    a, b, d = rr - r**2 + POSITION_VARIANCE, rc - r * c, cc - c**2 + POSITION_VARIANCE
    determinant = a * d - b**2
    # The exponent is a polynomial of the pixel's position, so that all pixels are one matrix product.
    polynomial = torch.stack((row**2, row * column, column**2, row, column, torch.ones_like(row)))
    constant = d * r**2 - 2 * b * r * c + a * c**2
    terms = torch.stack((d, -2 * b, a, 2 * (b * c - d * r), 2 * (b * r - a * c), constant), -1)
    distance = terms / determinant.unsqueeze(-1) @ polynomial
    return -0.5 * (distance + determinant.log().unsqueeze(-1))


def _share(masks: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k"]:
    return masks.mean((-2, -1)).clamp(min=SMALLEST_SHARE)


def _offsets(radius: int) -> list[tuple[int, int]]:
    line = range(-radius, radius + 1)
    return [(row, column) for row in line for column in line if (row, column) != (0, 0)]


def _neighbours(grid: Float[Tensor, "b c h w"], radius: int) -> list[Float[Tensor, "b c h w"]]:
    """The grid shifted by every offset, with replicated edges."""
    height, width = grid.shape[-2:]
    padded = F.pad(grid, [radius] * 4, mode="replicate")
    return [
        padded[..., radius + row : radius + row + height, radius + column : radius + column + width]
        for row, column in _offsets(radius)
    ]
