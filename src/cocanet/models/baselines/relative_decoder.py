"""INV-SA's decoder: each slot paints in its own coordinates."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import InvSaConfig
from cocanet.layers.linear import conv, linear, transposed_conv
from cocanet.models.decoder import Painting


class RelativeDecoder(nn.Module):
    """A slot on a grid, with the grid's place in its coordinates added; convolutions; a linear head of each pixel."""

    def __init__(self, config: InvSaConfig) -> None:
        super().__init__()
        self.broadcast = config.broadcast
        self.position = linear(2, config.dim)
        channels, kernel = config.decoder_channels, config.decoder_kernel
        widths = [config.dim] + [channels] * (len(config.decoder_strides) - 1)
        self.layers = nn.ModuleList(
            _layer(width, channels, kernel, stride)
            for width, stride in zip(widths, config.decoder_strides, strict=True)
        )
        self.head = conv(channels, 4, kernel=1)

    def forward(self, slots: Float[Tensor, "b k d"], relative: Float[Tensor, "b k n 2"]) -> Painting:
        """Colours are in [0, 1] as they leave the head."""
        x = self.position.weight @ relative.mT + (slots + self.position.bias).unsqueeze(-1)
        x = x.flatten(0, 1).unflatten(-1, self.broadcast)
        for layer in self.layers:
            x = F.relu_(layer(x))
        painted = self.head(x).unflatten(0, slots.shape[:2]).float()
        slot_images, masks = painted[:, :, :3], painted[:, :, 3].softmax(1)
        return Painting(slot_images, masks, (slot_images * masks.unsqueeze(2)).sum(1))


def _layer(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Conv2d | nn.ConvTranspose2d:
    if stride == 1:
        return conv(inputs, outputs, kernel, padding=kernel // 2)
    return transposed_conv(inputs, outputs, kernel, stride)
