"""From pixels to features: a stack of convolutions, and with it an embedding of position."""

from __future__ import annotations

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import AttentionConfig
from cocanet.layers.position import PositionEmbedding
from cocanet.models.baselines.mlp import ReluMLP

KERNEL = 5


class ConvEncoder(nn.Module):
    """5×5 convolutions with ReLUs between them, and one after the last if `rectify_last`."""

    def __init__(self, channels: int, strides: tuple[int, ...], rectify_last: bool = True) -> None:
        super().__init__()
        self.rectify_last = rectify_last
        widths = [3] + [channels] * len(strides)
        self.layers = nn.ModuleList(
            _conv(width, channels, stride) for width, stride in zip(widths[:-1], strides, strict=True)
        )

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b c h w"]:
        x = self.layers[0](images)
        for layer in self.layers[1:]:
            x = layer(F.relu_(x))
        return F.relu_(x) if self.rectify_last else x


class PixelEncoder(nn.Module):
    """Convolutions, position added, then each position by itself: normalised and through an MLP."""

    def __init__(self, config: AttentionConfig, hidden: int, outputs: int, eps: float) -> None:
        super().__init__()
        self.look = ConvEncoder(config.channels, config.encoder_strides)
        self.position = PositionEmbedding(*config.grid, config.channels)
        self.norm = nn.LayerNorm(config.channels, eps=eps)
        self.mlp = ReluMLP(config.channels, hidden, outputs)

    def forward(self, images: Float[Tensor, "b 3 height width"]) -> Float[Tensor, "b n d"]:
        look = rearrange(self.look(images), "b c h w -> b (h w) c")
        out: Tensor = self.mlp(self.norm(look + self.position().flatten(0, 1)))
        return out


def _conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, KERNEL, stride=stride, padding=KERNEL // 2)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer
