"""Affinity of nodes from the distance of their features (Eq. 1, soft-argmin and min-max of the supplement)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cocanet.config.windows import Window

FLOOR = 1e-5
"""Affinities are kept in [FLOOR, 1 - FLOOR], so that products of many of them stay away from 0."""


def distance_scale(temperature: float, window: Window, dim: int) -> float:
    """τ / √(h·w·d), the factor of Eq. 1. Cells count, not the nodes in them: the temperatures were tuned so."""
    return temperature / math.sqrt(window[0] * window[1] * dim)


class Points(NamedTuple):
    """Features with their squared lengths, which every distance needs."""

    features: Float[Tensor, "*batch n d"]
    lengths: Float[Tensor, "*batch n"]

    @classmethod
    def of(cls, features: Float[Tensor, "*batch n d"]) -> Points:
        return cls(features, features.square().sum(-1))

    def take(self, index: Int[Tensor, "*batch m"]) -> Points:
        """The points at `index`, each batch element's own."""
        rows = index.unsqueeze(-1).expand(*index.shape, self.features.shape[-1])
        return Points(self.features.gather(-2, rows), self.lengths.gather(-1, index))


def distances(rows: Points, nodes: Points, scale: float) -> Float[Tensor, "*batch m n"]:
    """scale·‖Y_i − Y_j‖² (Eq. 1), by one matrix product."""
    lengths = rows.lengths.unsqueeze(-1) + nodes.lengths.unsqueeze(-2)
    return torch.sub(lengths, rows.features @ nodes.features.mT, alpha=2).clamp_(min=0).mul_(scale)


def affinity(distances: Float[Tensor, "*batch m n"]) -> Float[Tensor, "*batch m n"]:
    """Soft-argmin of each row of distances, stretched to [0, 1] by its own minimum and maximum.

    The softmax's normaliser cancels in the stretch, and the nearest node is at distance 0, so
    Λ = (e^(−E) − e^(−max E)) / (1 − e^(−max E)) = 1 + (e^(−E) − 1) / (1 − e^(−max E)).
    Where all distances are rounding errors, no node differs from another, and all affinities are 1.
    """
    farthest = distances.amax(-1, keepdim=True)
    farthest = farthest.masked_fill(farthest <= 64 * torch.finfo(distances.dtype).eps, 1.0)
    return clamp_straight_through(1 - torch.expm1(-distances) / torch.expm1(-farthest))


def clamp_straight_through(masks: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Clamp to [FLOOR, 1 - FLOOR]; the gradient passes as if nothing had been clamped."""
    clamped = masks.detach().clamp(FLOOR, 1 - FLOOR)
    return masks + (clamped - masks.detach()) if masks.requires_grad else clamped
