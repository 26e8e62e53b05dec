"""Attention in each slot's own coordinates: from where it is, in units of its size (Biza et al., 2023)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.layers.linear import linear
from cocanet.models.baselines.mlp import ReluMLP

EPS = 1e-6
"""In every layer normalisation."""
SCALES = (0.001, 2.0)
"""The least and the greatest scale."""


class Frames(NamedTuple):
    """Where slots are and how far they spread, row and column each, in an image from -1 to 1."""

    positions: Float[Tensor, "b k 2"]
    scales: Float[Tensor, "b k 2"]


def coordinates(height: int, width: int) -> Float[Tensor, "n 2"]:
    """Row and column of each cell, from -1 to 1."""
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    return torch.stack((rows, columns), -1).flatten(0, 1)


def in_frames(grid: Float[Tensor, "n 2"], frames: Frames, scale_unit: float | None) -> Float[Tensor, "b k n 2"]:
    """The grid in each slot's own coordinates; without `scale_unit` only relative to its position."""
    offsets = grid - frames.positions.unsqueeze(2)
    return offsets if scale_unit is None else offsets / (scale_unit * frames.scales.unsqueeze(2))


def find_frames(weights: Float[Tensor, "b k n"], grid: Float[Tensor, "n 2"]) -> Frames:
    """Centre and standard deviation of where slots look."""
    positions = weights @ grid
    spread = (grid - positions.unsqueeze(2)).square()
    scales = ((weights + 1e-8).unsqueeze(2) @ spread).squeeze(2).sqrt()
    return Frames(positions, scales.clamp(*SCALES))


class Projected(NamedTuple):
    """Features of positions as `RelativeEncoder` needs them, whatever the slots."""

    inner: Float[Tensor, "b n h"]
    """Through the inner linear map."""
    square: Float[Tensor, "b n"]
    """Squared length."""
    along: Float[Tensor, "b n 2"]
    """Inner products with the two columns of the coordinates' embedding."""


class Hidden(NamedTuple):
    """The MLP's hidden features, each position's larger by a factor that its user divides out."""

    features: Float[Tensor, "b k n h"]
    factor: Float[Tensor, "b k n"]


class RelativeEncoder(nn.Module):
    """f(x + W r + b) for features x of n positions and coordinates r of k·n: f normalises and applies an MLP.

    The normalisation is linear up to a division by the standard deviation. So its mean and scale and the inner linear
    map are one matrix, which is applied to n features and to two columns of W instead of to k·n sums; the variance is
    a quadratic form in r; and the division passes through the ReLU. The outer linear map is the caller's: it applies
    it to the slots' queries and means, again not to k·n positions.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.position = linear(2, dim)
        self.norm = nn.LayerNorm(dim, eps=EPS)
        self.mlp = ReluMLP(dim, hidden, dim)

    def project(self, features: Float[Tensor, "b n d"]) -> Projected:
        centred = _centred(features + self.position.bias)
        return Projected(centred @ self._inner().T, centred.square().sum(-1), centred @ _centred(self._columns()).T)

    def hidden(self, projected: Projected, relative: Float[Tensor, "b k n 2"]) -> Hidden:
        columns = _centred(self._columns())
        squares = ((relative @ (columns @ columns.T) + 2 * projected.along.unsqueeze(1)) * relative).sum(-1)
        variance = (projected.square.unsqueeze(1) + squares).clamp(min=0) / columns.shape[1]
        deviation = (variance + EPS).sqrt()
        shift = F.linear(self.norm.bias, self.mlp.inner.weight, self.mlp.inner.bias)
        maps = torch.cat((columns @ self._inner().T, shift.unsqueeze(0)))
        features = torch.cat((relative, deviation.unsqueeze(-1)), -1) @ maps
        return Hidden(F.relu_(features.add_(projected.inner.unsqueeze(1))), deviation)

    def _columns(self) -> Float[Tensor, "2 d"]:
        return self.position.weight.T

    def _inner(self) -> Float[Tensor, "h d"]:
        return self.mlp.inner.weight * self.norm.weight


class InvariantAttention(nn.Module):
    """One round: slots compete for positions by keys of their own, and take up values of their own."""

    def __init__(self, inputs: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm_inputs = nn.LayerNorm(inputs, eps=EPS)
        self.norm_slots = nn.LayerNorm(dim, eps=EPS)
        self.query = linear(dim, dim, bias=False)
        self.key = linear(inputs, dim, bias=False)
        self.value = linear(inputs, dim, bias=False)
        self.encoder = RelativeEncoder(dim, hidden)

    def project(self, features: Float[Tensor, "b n c"]) -> tuple[Projected, Projected]:
        """Keys and values, before they are relative to any slot."""
        inputs = self.norm_inputs(features)
        return self.encoder.project(self.key(inputs)), self.encoder.project(self.value(inputs))

    def attention(
        self, slots: Float[Tensor, "b k d"], keys: Projected, relative: Float[Tensor, "b k n 2"]
    ) -> Float[Tensor, "b k n"]:
        """Softmax over slots."""
        outer = self.encoder.mlp.outer
        queries = self.query(self.norm_slots(slots)) * slots.shape[-1] ** -0.5
        hidden = self.encoder.hidden(keys, relative)
        products = (hidden.features @ (queries @ outer.weight).unsqueeze(-1)).squeeze(-1)
        logits: Tensor = products / hidden.factor + (queries @ outer.bias).unsqueeze(-1)
        return logits.softmax(1)

    def updates(
        self, weights: Float[Tensor, "b k n"], values: Projected, relative: Float[Tensor, "b k n 2"]
    ) -> Float[Tensor, "b k d"]:
        """Values, summed by weight over positions."""
        outer = self.encoder.mlp.outer
        hidden = self.encoder.hidden(values, relative)
        means = ((weights / hidden.factor).unsqueeze(2) @ hidden.features).squeeze(2)
        return means @ outer.weight.T + weights.sum(-1, keepdim=True) * outer.bias


def position_weights(attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k n"]:
    """Attention as weights of a mean over positions."""
    return attention / (attention.sum(-1, keepdim=True) + 1e-8)


def _centred(x: Float[Tensor, "*nodes d"]) -> Float[Tensor, "*nodes d"]:
    return x - x.mean(-1, keepdim=True)
