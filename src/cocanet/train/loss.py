"""What training minimises."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from cocanet.models.output import Output


def reconstruction_loss(output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
    """Mean squared error of the unclamped reconstruction, in the range [-1, 1] that the paper reports it in."""
    return 4 * (output.mixture - images).square().mean()
