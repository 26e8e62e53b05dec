"""The input of a hierarchy of features: frozen features and position of each cell, through a small trained network."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import NormScope
from cocanet.layers.linear import MLP, linear
from cocanet.layers.norm import GroupNorm
from cocanet.layers.position import PositionEmbedding
from cocanet.models.pretrained import PretrainedFeatures


class FeatureBackbone(nn.Module):
    """Features of each cell, from pretrained features and position."""

    def __init__(self, pretrained: PretrainedFeatures, dim: int, norm: NormScope = "node") -> None:
        super().__init__()
        self.pretrained = pretrained
        self.embed = linear(pretrained.channels, dim)
        self.position = PositionEmbedding(*pretrained.config.grid, dim)
        self.norm = GroupNorm(dim, norm)
        self.mlp = MLP(dim, dim, dim)

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b h w d"]:
        x = self.norm(self.embed(self.pretrained(images)) + self.position())
        out: Tensor = x + self.mlp(x)
        return out
