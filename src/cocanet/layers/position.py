"""Positions relative to the image's edges or to another pixel, and learned embeddings of them."""

from __future__ import annotations

import math

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor, nn

from cocanet.functional.geometry import EMPTY
from cocanet.layers.linear import MLP, linear

WINDOW = 0.2
"""Standard deviation of a slot's window, as a share of the image's side."""


def edge_distances(height: int, width: int) -> Float[Tensor, "height width 4"]:
    """Distance of each pixel to the top, bottom, left and right edge, each from 0 to 1."""
    rows, columns = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    return torch.stack((rows, 1 - rows, columns, 1 - columns), -1)


def fourier_features(height: int, width: int, octaves: int) -> Float[Tensor, "height width features"]:
    """Sine and cosine of row and column at `octaves` doubling frequencies, from half a wave across the image."""
    waves = math.pi * 2.0 ** torch.arange(octaves)
    phases = edge_distances(height, width)[..., [0, 2], None] * waves
    return torch.cat((phases.sin(), phases.cos()), -1).flatten(-2)


class PositionEmbedding(nn.Module):
    """A learned linear map of each pixel's position; with `octaves` also of its Fourier features."""

    features: Tensor

    def __init__(self, height: int, width: int, dim: int, octaves: int = 0) -> None:
        super().__init__()
        features = torch.cat((edge_distances(height, width), fourier_features(height, width, octaves)), -1)
        self.register_buffer("features", features, persistent=False)
        self.embed = linear(features.shape[-1], dim)

    def forward(self) -> Float[Tensor, "height width dim"]:
        out: Tensor = self.embed(self.features)
        return out


def offset_waves(side: int, octaves: int) -> Float[Tensor, "offsets features"]:
    """1, sine and cosine of the offsets from 1 - side to side - 1, at frequencies from half a wave across `side`."""
    offsets = torch.arange(1 - side, side) / max(1, side - 1)
    phases = offsets[:, None] * (math.pi * 2.0 ** torch.arange(-1, octaves))
    return torch.cat((torch.ones(len(offsets), 1), phases.sin(), phases.cos()), -1)


def window_about(
    centres: Float[Tensor, "b k 2"] | Int[Tensor, "b k 2"], size: tuple[int, int]
) -> Float[Tensor, "b k h w"]:
    """A Gaussian window on an image about each centre."""
    row, column = (
        (torch.arange(side, device=centres.device) - at.unsqueeze(-1)).div(WINDOW * side).square().mul(-0.5).exp()
        for side, at in zip(size, centres.unbind(-1), strict=True)
    )
    return row.unsqueeze(-1) * column.unsqueeze(-2)


class OffsetEmbedding(nn.Module):
    """A learned linear map of every offset between two pixels: of the products of its waves along rows and columns."""

    features: Tensor

    def __init__(self, height: int, width: int, dim: int, octaves: int) -> None:
        super().__init__()
        rows, columns = offset_waves(height, octaves), offset_waves(width, octaves)
        features = einsum(rows, columns, "h f, w g -> h w f g").flatten(2)
        self.register_buffer("features", features, persistent=False)
        self.embed = linear(features.shape[-1], dim)

    def forward(self) -> Float[Tensor, "row_offsets column_offsets dim"]:
        out: Tensor = self.embed(self.features)
        return out


class ShapeEmbedding(nn.Module):
    """Shape of a mask about a pixel: its lowest Fourier coefficients there, through an MLP.

    Pooled features hold a cluster's position and colour, and little of its outline. The coefficients do not depend on
    where the mask lies. A Gaussian window about the pixel keeps one slot from describing two objects that lie apart.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, height: int, width: int, dim: int, octaves: int) -> None:
        super().__init__()
        for name, side in (("rows", height), ("columns", width)):
            waves = offset_waves(side, octaves)
            # Row i holds the waves of all pixels of a line as pixel i sees them.
            self.register_buffer(name, waves.unfold(0, side, 1).flip(0).contiguous(), persistent=False)
        self.mlp = MLP(waves.shape[-1] ** 2, dim, dim)

    def embed(self, masks: Float[Tensor, "b k h w"], centres: Int[Tensor, "b k 2"]) -> Float[Tensor, "b k dim"]:
        """Embedding of each mask about its centre."""
        row, column = centres.unbind(-1)
        seen = masks * window_about(centres, (masks.shape[-2], masks.shape[-1]))
        share = seen / seen.sum((-2, -1), keepdim=True).clamp(min=EMPTY)
        spectrum = self.rows[row] @ share @ self.columns[column].mT
        out: Tensor = self.mlp(spectrum.flatten(-2))
        return out
