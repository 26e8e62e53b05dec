"""Where a pixel is: distances to the four edges, optionally with Fourier features, and their learned embedding."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.layers.linear import linear


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
