"""What the trainer, the evaluation and the pictures expect of a model, whichever it is."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.output import Output


class ObjectModel(nn.Module):
    """Finds objects in images in [0, 1] and paints the images from them.

    Whatever training must carry from step to step (a noise level, a multiplier) is a buffer, so that it is in every
    checkpoint; evaluation never changes it.
    """

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Output:
        raise NotImplementedError

    def loss(self, output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        """What training minimises."""
        return reconstruction_loss(output, images) if output.decoder_loss is None else output.decoder_loss

    def anneal(self, done: float) -> None:
        """Called before each training step with the share of the run that lies behind, from 0 to 1."""


def check_size(images: Float[Tensor, "b 3 h w"], image_size: tuple[int, int]) -> None:
    """Refuse images of any size but the one that a model was built for."""
    if images.shape[-2:] != image_size:
        (height, width), (rows, columns) = images.shape[-2:], image_size
        raise ValueError(f"this model takes images of {rows}×{columns} pixels; got {height}×{width}")


def reconstruction_loss(output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
    """Mean squared error of the unclamped mixture, in the range [-1, 1] that the paper reports it in."""
    return 4 * (output.mixture - images).square().mean()
