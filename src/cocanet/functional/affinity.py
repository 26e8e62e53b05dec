"""Affinity of nodes from the distance of their features (Eq. 1, soft-argmin and min-max of the supplement)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from cocanet.functional.windows import Window

FLOOR = 1e-5
"""Affinities are kept in [FLOOR, 1 - FLOOR], so that products of many of them stay away from 0."""


def distance_scale(temperature: float, window: Window, dim: int) -> float:
    """τ / √(h·w·d), the factor of Eq. 1. Cells count, not the nodes in them: the temperatures were tuned so."""
    return temperature / math.sqrt(window[0] * window[1] * dim)


def squared_distances(
    queries: Float[Tensor, "*batch m d"], nodes: Float[Tensor, "*batch n d"]
) -> Float[Tensor, "*batch m n"]:
    """‖Y_i − Y_j‖² by one matrix product."""
    lengths = queries.square().sum(-1).unsqueeze(-1) + nodes.square().sum(-1).unsqueeze(-2)
    return torch.sub(lengths, queries @ nodes.mT, alpha=2).clamp(min=0)


def affinity(distances: Float[Tensor, "*batch m n"]) -> Float[Tensor, "*batch m n"]:
    """Soft-argmin of each row of distances, stretched to [0, 1] by its own minimum and maximum.

    The softmax's normaliser cancels in the stretch, and the nearest node is at distance 0, so
    Λ = (e^(−E) − e^(−max E)) / (1 − e^(−max E)), written here so that nothing overflows or cancels.
    Where all distances are rounding errors there is nothing to tell the nodes apart, and all are fully akin.
    """
    farthest = distances.amax(-1, keepdim=True)
    flat = farthest <= 64 * torch.finfo(distances.dtype).eps
    farthest = farthest.masked_fill(flat, 1.0)
    stretched = torch.exp(-distances) * torch.expm1(distances - farthest) / torch.expm1(-farthest)
    return clamp_straight_through(torch.where(flat, torch.ones_like(stretched), stretched))


def clamp_straight_through(masks: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Clamp to [FLOOR, 1 - FLOOR]; the gradient passes as if nothing had been clamped."""
    return masks + (masks.detach().clamp(FLOOR, 1 - FLOOR) - masks.detach())
