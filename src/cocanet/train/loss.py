"""What training minimises: a model's own loss, and what the quick recipe adds to it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import TrainConfig
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

FLOOR = 1e-6
GUIDANCE_GROWS = 0.2
"""Share of a run in which guidance grows: at once, the decoder would learn the encoder's first mistakes."""


class Objective(nn.Module):
    """A model and its loss as one module, so that wrappers for many devices see a scalar only."""

    def __init__(self, model: ObjectModel, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, images: Float[Tensor, "b 3 h w"], done: float = 0.0) -> Float[Tensor, ""]:
        """`done` is the share of the run before this step."""
        output = self.model(images)
        loss = self.model.loss(output, images)
        grown = min(1.0, max(0.0, (done - self.config.guided_from) / GUIDANCE_GROWS))
        if guidance := self.config.mask_guidance * grown:
            loss = loss + guidance * mask_guidance(output)
        if self.config.colour_code:
            code = colour_code(output.encoder_masks, images, self.config.colour_entropy)
            loss = loss + self.config.colour_code * code
        return loss


def mask_guidance(output: Output) -> Float[Tensor, ""]:
    """Cross-entropy of the decoder's masks against the encoder's segmentation, which gets no gradient from it.

    By reconstruction alone a decoder shades an object by mixing in a dark background: the picture is right, the
    masks are full of holes.
    """
    owner = output.encoder_masks.detach().argmax(1, keepdim=True)
    return -output.decoder_masks.gather(1, owner).clamp(min=FLOOR).log().mean()


def colour_code(masks: Float[Tensor, "b k h w"], images: Float[Tensor, "b 3 h w"], entropy: float) -> Float[Tensor, ""]:
    """What it costs to describe an image by its masks and one colour for each: squared error and entropy of the masks.

    It tells the encoder what to part long before a decoder can. `entropy` is the price of a nat. It keeps one
    background in one mask: a background in two halves costs most of a nat, an object of its own very little.
    """
    part, pixels = masks.flatten(2), images.flatten(2).mT
    area = part.sum(-1, keepdim=True)
    colours = part @ pixels / area.clamp(min=1.0)
    error = (part.mT @ colours - pixels).square().mean()
    share = (area / part.shape[-1]).clamp(min=FLOOR)
    return error - entropy * (share * share.log()).sum(1).mean()
