"""Instance-colouring stick breaking (IC-SBP): masks grown one by one around pixels drawn from what is left."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import GenesisV2Config, Kernel
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.unet import conv_block

LIMITS = (0.01, 0.99)
"""What a pixel gives to a mask of what it has left."""


def likeness(
    colours: Float[Tensor, "b c n"], seed: Float[Tensor, "b c 1"], width: Float[Tensor, ""], kernel: Kernel
) -> Float[Tensor, "b n"]:
    """How alike the pixels' colours are to that of a seed: 1 if they are the same, 0 far away."""
    offset = colours - seed
    if kernel == "laplacian":
        norm: Tensor = torch.linalg.vector_norm(offset, dim=1)
        return (-norm / width).exp()
    distance = offset.square().sum(1) / width
    return (-distance).exp() if kernel == "gaussian" else (1 - distance).relu()


def first_width(kernel: Kernel, slots: int) -> float:
    """The kernel's width before training."""
    if kernel == "epanechnikov":
        return 2 / slots
    return 1 / ((slots if kernel == "gaussian" else math.sqrt(slots)) * math.log(2))


def limited(share: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Shares clamped to `LIMITS`; the gradient passes as if they were not."""
    return share + (share.detach().clamp(*LIMITS) - share.detach())


def break_sticks(
    colours: Float[Tensor, "b c n"],
    scores: Float[Tensor, "b n"],
    width: Float[Tensor, ""],
    slots: int,
    kernel: Kernel = "gaussian",
) -> Float[Tensor, "b {slots} n"]:
    """Logarithms of masks that sum to 1: each takes a share of the scope around a seed, the last all that remains.

    A seed is the pixel with the largest product of its score and its scope. It is chosen without a gradient, which
    flows through its colour only.
    """
    scope = torch.zeros_like(scores)
    masks = []
    for _ in range(slots - 1):
        chosen = (scores * scope.detach().exp()).argmax(1)
        seed = colours.gather(2, chosen[:, None, None].expand(-1, colours.shape[1], 1))
        share = limited(likeness(colours, seed, width, kernel))
        masks.append(scope + share.log())
        scope = scope + (-share).log1p()
    return torch.stack([*masks, scope], 1)


def coordinates(height: int, width: int) -> Float[Tensor, "2 {height} {width}"]:
    """Row and column of each pixel, from -1 to 1."""
    return torch.stack(torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"))


class InstanceColouring(nn.Module):
    """Colours every pixel by where it is and, as far as the gate has opened, by what it looks like; masks follow."""

    position: Tensor

    def __init__(self, config: GenesisV2Config) -> None:
        super().__init__()
        self.slots, self.kernel = config.slots, config.kernel
        self.head = nn.Sequential(
            conv_block(config.features, config.features), nn.Conv2d(config.features, config.colours, 1)
        )
        self.gate = nn.Parameter(torch.zeros(()))
        self.log_width = nn.Parameter(torch.tensor(math.log(first_width(config.kernel, config.slots))))
        place = coordinates(*config.image_size).flatten(1)
        position = torch.cat((place.new_zeros(config.colours - 2, place.shape[1]), place))
        self.register_buffer("position", position, persistent=False)

    def forward(self, features: Float[Tensor, "b d h w"], scores: Float[Tensor, "b n"]) -> Float[Tensor, "b k n"]:
        """Logarithms of the masks over the pixels, row by row."""
        look = self.head(features).flatten(2)
        with full_precision(features):
            colours = self.gate * look.to(self.position.dtype) + self.position
            return break_sticks(colours, scores, self.log_width.exp(), self.slots, self.kernel)
