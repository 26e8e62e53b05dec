"""The interface of every model."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.output import Output


class ObjectModel(nn.Module):
    """Discovers objects in images in [0, 1] and reconstructs the images from them.

    State that training carries from step to step, such as a noise level, is a buffer, so that every checkpoint has
    it. Evaluation never changes it.
    """

    decoder: nn.Module

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Output:
        raise NotImplementedError

    def loss(self, output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        """The loss that training minimises."""
        return reconstruction_loss(output, images) if output.decoder_loss is None else output.decoder_loss

    def anneal(self, done: float) -> None:
        """Called before each training step with the share of the run that lies behind, from 0 to 1."""
        anneal = getattr(self.decoder, "anneal", None)
        if anneal is not None:
            anneal(done)


def check_size(images: Float[Tensor, "b 3 h w"], image_size: tuple[int, int]) -> None:
    """Refuse images of another size than the model's."""
    if images.shape[-2:] != image_size:
        (height, width), (rows, columns) = images.shape[-2:], image_size
        raise ValueError(f"this model takes images of {rows}×{columns} pixels; got {height}×{width}")


def reconstruction_loss(output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
    """Mean squared error of the reconstruction, in the range [-1, 1] that the paper reports it in."""
    return 4 * (output.reconstruction - images).square().mean()
