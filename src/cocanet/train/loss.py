"""What training minimises: a model's own loss, and what the quick recipe adds to it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

FLOOR = 1e-6
GUIDED_FROM, GUIDED_FULLY = 0.4, 0.6
"""Shares of a run between which guidance grows: earlier, the decoder would learn the encoder's first mistakes."""


class Objective(nn.Module):
    """A model and its loss as one module, so that wrappers for many devices see a scalar only."""

    def __init__(self, model: ObjectModel, guidance: float = 0.0) -> None:
        super().__init__()
        self.model, self.guidance = model, guidance

    def forward(self, images: Float[Tensor, "b 3 h w"], done: float = 0.0) -> Float[Tensor, ""]:
        output = self.model(images)
        loss = self.model.loss(output, images)
        weight = self.guidance * min(1.0, max(0.0, (done - GUIDED_FROM) / (GUIDED_FULLY - GUIDED_FROM)))
        return loss + weight * mask_guidance(output) if weight else loss


def mask_guidance(output: Output) -> Float[Tensor, ""]:
    """Cross-entropy of the decoder's masks against the encoder's segmentation, which gets no gradient from it.

    By reconstruction alone a decoder shades an object by mixing in a dark background: the picture is right, the
    masks are full of holes.
    """
    owner = output.encoder_masks.detach().argmax(1, keepdim=True)
    return -output.decoder_masks.gather(1, owner).clamp(min=FLOOR).log().mean()
