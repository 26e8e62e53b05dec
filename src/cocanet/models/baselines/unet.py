"""The U-Net of GENESIS-v2: an image's features at full resolution, with all of it seen through a bottom of 4×4."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import NORM_GROUPS

BOTTOM = 4
_BOTTLENECK = 128


def conv_block(inputs: int, outputs: int) -> nn.Sequential:
    """A 3×3 convolution, normalised and rectified."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.GroupNorm(NORM_GROUPS, outputs),
        nn.ReLU(inplace=True),
    )


def widths(side: int, channels: int) -> tuple[list[int], list[int]]:
    """Channels after each block on the way down and on the way up: twice as many in the three lowest, then in two."""
    blocks = side.bit_length() - 2
    return [channels] * (blocks - 3) + [2 * channels] * 3, [2 * channels] * 2 + [channels] * (blocks - 2)


class UNet(nn.Module):
    """Down to 4×4 cells by dropping every second row and column, and up again with what each scale had."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        down, up = widths(side, channels)
        self.down = nn.ModuleList(conv_block(*pair) for pair in pairwise([3, *down]))
        self.up = nn.ModuleList(
            conv_block(under + beside, out)
            for (under, out), beside in zip(pairwise([down[-1], *up]), reversed(down), strict=True)
        )
        cells = BOTTOM**2 * down[-1]
        self.bottom = nn.Sequential(
            nn.Linear(cells, _BOTTLENECK),
            nn.ReLU(inplace=True),
            nn.Linear(_BOTTLENECK, _BOTTLENECK),
            nn.ReLU(inplace=True),
            nn.Linear(_BOTTLENECK, cells),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h w"]:
        x: Tensor = images
        beside: list[Tensor] = []
        for block in self.down:
            x = block(x if not beside else x[..., ::2, ::2])
            beside.append(x)
        x = self.bottom(x.flatten(1)).view_as(x)
        for block in self.up:
            skipped = beside.pop()
            if x.shape[-1] != skipped.shape[-1]:
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat((x, skipped), 1))
        return x
