"""The losses of a stage; each owns its numbers."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import Reconstruction, Stage
from cocanet.models.coca_net import CocaNet
from cocanet.models.decoder import BroadcastDecoder, mix_pixels
from cocanet.models.model import ObjectModel
from cocanet.models.pretrained import known_features


class Objective(nn.Module):
    """A model and the losses of a stage as one module, so that wrappers for many devices return a scalar."""

    def __init__(self, model: ObjectModel, stage: Stage) -> None:
        super().__init__()
        self.model, self.losses = model, stage.losses

    def forward(
        self, images: Float[Tensor, "b 3 h w"], features: Float[Tensor, "b n"] | None = None
    ) -> Float[Tensor, ""]:
        """`features` are the kept maps of a frozen network; a model that needs them computes them if there are none."""
        with known_features(self.model, images, features):
            first, *others = (reconstruction(self.model, images, loss) for loss in self.losses)
            return sum(others, first)


def reconstruction(model: ObjectModel, images: Float[Tensor, "b 3 h w"], config: Reconstruction) -> Float[Tensor, ""]:
    """The model's own loss, of all pixels or of a sample of them."""
    if config.pixels == 1:
        return config.weight * model.loss(model(images), images)
    return config.weight * sampled_reconstruction(model, images, config.pixels)


def sampled_reconstruction(model: ObjectModel, images: Float[Tensor, "b 3 h w"], share: float) -> Float[Tensor, ""]:
    """Mean squared error in [-1, 1] at pixels drawn at random: an unbiased estimate of the loss of all pixels."""
    assert isinstance(model, CocaNet)
    assert isinstance(model.decoder, BroadcastDecoder)
    height, width = model.config.image_size
    pixels = torch.randperm(height * width, device=images.device)[: max(1, round(share * height * width))]
    encoding = model.encode(images)
    layers = model.decoder.decode_pixels(encoding, pixels)
    return 4 * (mix_pixels(layers, encoding.in_use) - images.flatten(2)[..., pixels].mT).square().mean()
