"""GECO: the KL divergence counts for more while the reconstruction is better than a goal, and for less while worse."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cocanet.config.rivals import GecoConfig

_PIXELS = 64**2
"""What the step is given for."""


def next_beta(
    beta: Float[Tensor, ""], average: Float[Tensor, ""], goal: float, step: float, config: GecoConfig
) -> Float[Tensor, ""]:
    """β after one step: it grows in proportion to how far the average error is below the goal, or shrinks."""
    lead = goal - average
    rate = torch.where(lead > 0, config.speed_up * step, step)
    return (beta * (rate * lead).exp()).clamp(*config.beta_range)


class Geco(nn.Module):
    """The error plus β times the divergence; β and the average error that moves it change in training only."""

    beta: Float[Tensor, ""]
    average: Float[Tensor, ""]
    begun: Bool[Tensor, ""]

    def __init__(self, config: GecoConfig, image_size: tuple[int, int]) -> None:
        super().__init__()
        height, width = image_size
        self.config = config
        self.goal = config.goal * 3 * height * width
        self.step = config.step * _PIXELS / (height * width)
        self.register_buffer("beta", torch.tensor(config.beta))
        self.register_buffer("average", torch.tensor(0.0))
        self.register_buffer("begun", torch.tensor(False))

    def forward(self, error: Float[Tensor, ""], divergence: Float[Tensor, ""]) -> Float[Tensor, ""]:
        # A copy: the gradient needs the β of this step, which is about to change in place.
        loss = error + self.beta.clone() * divergence
        if self.training:
            self.update(error.detach())
        return loss

    @torch.no_grad()
    def update(self, error: Float[Tensor, ""]) -> None:
        """Take a step's error into the average, which begins with the first, and move β."""
        average = torch.lerp(error, self.average, self.config.momentum)
        self.average.copy_(torch.where(self.begun, average, error))
        self.begun.fill_(True)
        self.beta.copy_(next_beta(self.beta, self.average, self.goal, self.step, self.config))
