"""The decoder of GENESIS-v2: a slot on a small grid, enlarged sixteenfold to a picture and a mask."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import NORM_GROUPS
from cocanet.models.baselines.instance_colouring import coordinates

ENLARGED = 16
_DOUBLINGS = 4


class GenesisDecoder(nn.Module):
    """Each slot in every cell of a grid, beside the cell's row and column; transposed convolutions double it."""

    position: Tensor

    def __init__(self, image_size: tuple[int, int], dim: int) -> None:
        super().__init__()
        height, width = image_size
        self.register_buffer("position", coordinates(height // ENLARGED, width // ENLARGED), persistent=False)
        layers: list[nn.Module] = []
        for inputs in [dim + 2] + [dim] * (_DOUBLINGS - 1):
            layers += [
                nn.ConvTranspose2d(inputs, dim, 5, stride=2, padding=2, output_padding=1),
                nn.GroupNorm(NORM_GROUPS, dim),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers, nn.Conv2d(dim, 4, 1))

    def forward(self, slots: Float[Tensor, "b k d"]) -> Float[Tensor, "b k 4 h w"]:
        """Three channels of colour and one of the mask, all before their squashing."""
        every = slots.flatten(0, 1)
        grid = every[:, :, None, None].expand(-1, -1, *self.position.shape[1:])
        placed = torch.cat((grid, self.position.expand(len(every), -1, -1, -1)), 1)
        out: Tensor = self.layers(placed).unflatten(0, slots.shape[:2])
        return out
