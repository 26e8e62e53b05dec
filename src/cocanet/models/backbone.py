"""Pixel feature encoder: appearance by convolution, position by a learned embedding (supplement, Sec. B.1)."""

from __future__ import annotations

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import BackboneConfig, NormScope
from cocanet.layers.linear import MLP, conv, linear
from cocanet.layers.norm import GroupNorm
from cocanet.layers.position import PositionEmbedding


class Backbone(nn.Module):
    """Features of each pixel from its appearance and position."""

    def __init__(self, config: BackboneConfig, grid: tuple[int, int], dim: int, norm: NormScope) -> None:
        super().__init__()
        channels, (first, *further) = config.channels, config.strides
        self.padding, self.input_gamma = config.kernel // 2, config.input_gamma
        self.conv = conv(3, channels, config.kernel, bias=False, stride=first)
        self.convs = nn.ModuleList(conv(channels, channels, config.kernel, stride=stride) for stride in further)
        self.mix = linear(channels, channels, bias=False)
        self.position = PositionEmbedding(*grid, channels)
        self.norm = GroupNorm(channels, norm)
        self.direct = linear(channels, dim)
        self.mlp = MLP(channels, dim, dim)

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b h w d"]:
        x = self.conv(self._padded(2 * (images if self.input_gamma == 1 else images**self.input_gamma) - 1))
        for layer in self.convs:
            x = layer(self._padded(F.leaky_relu(x)))
        appearance = self.norm(rearrange(x, "b c h w -> b h w c"))
        x = self.norm(self.mix(F.leaky_relu(appearance)) + self.position())
        out: Tensor = self.direct(x) + self.mlp(x)
        return out

    def _padded(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c rows columns"]:
        return F.pad(x, [self.padding] * 4, mode="replicate")
