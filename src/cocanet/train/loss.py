"""What training minimises."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.output import Output


class Objective(nn.Module):
    """A model and its loss as one module, so that wrappers for many devices see a scalar only."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        return reconstruction_loss(self.model(images), images)


def reconstruction_loss(output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
    """Mean squared error of the unclamped reconstruction, in the range [-1, 1] that the paper reports it in."""
    return 4 * (output.mixture - images).square().mean()
