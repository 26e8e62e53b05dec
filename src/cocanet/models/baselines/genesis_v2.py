"""GENESIS-v2 (Engelcke, Parker Jones and Posner, 2021): U-Net → masks by stick breaking → latents → pictures.

Masks grow around randomly chosen pixels in a learned embedding of colours; what each covers becomes a latent, whose
prior depends on the latents before it; every latent paints a picture and a mask of its own. A variational
autoencoder: the loss is the negative log-likelihood of a mixture plus the KL divergence, weighed by GECO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import GenesisV2Config
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.autoregressive_prior import AutoregressivePrior
from cocanet.models.baselines.gaussian import Gaussian, divergence, mixture_error
from cocanet.models.baselines.geco import Geco
from cocanet.models.baselines.genesis_decoder import GenesisDecoder
from cocanet.models.baselines.instance_colouring import InstanceColouring
from cocanet.models.baselines.unet import UNet, conv_block
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output


@dataclass(frozen=True, kw_only=True)
class GenesisOutput(Output):
    """With what the loss needs besides: a probabilistic model is more than its best picture."""

    log_masks: Float[Tensor, "b k h w"]
    """Logarithms of the decoder's masks."""
    divergence: Float[Tensor, " b"]
    """Of each image's slots from their prior, in nats."""


class Draws(NamedTuple):
    """All that is left to chance in an image."""

    scores: Float[Tensor, "b n"]
    """Which pixels are seeds."""
    noise: Float[Tensor, "b k d"]
    """Where in its posterior a slot lies."""


class Posterior(nn.Module):
    """What a mask covers becomes the distribution of a slot."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.look = nn.Sequential(conv_block(dim, dim), nn.Conv2d(dim, 2 * dim, 1))
        self.head = nn.Sequential(
            nn.LayerNorm(2 * dim), nn.Linear(2 * dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, 2 * dim)
        )

    def forward(self, features: Float[Tensor, "b d h w"], masks: Float[Tensor, "b k n"]) -> Gaussian:
        pixels = self.look(features).flatten(2)
        with full_precision(masks):
            total = masks @ pixels.to(masks.dtype).mT
            mean, spread = self.head(total / (masks.sum(2, keepdim=True) + 1e-5)).chunk(2, -1)
            return Gaussian(mean, F.softplus(spread + 0.5) + 1e-8)


class GenesisV2(ObjectModel):
    """Finds objects in square images of one size, and paints the images from them.

    Seeds and latents are drawn in evaluation too, but there every image gets the same draws.
    """

    scores: Tensor
    noise: Tensor

    def __init__(self, config: GenesisV2Config) -> None:
        super().__init__()
        self.config = config
        self.unet = UNet(config.image_size[0], config.features)
        self.colouring = InstanceColouring(config)
        self.posterior = Posterior(config.features)
        self.prior = AutoregressivePrior(config.features)
        self.decoder = GenesisDecoder(config.image_size, config.features)
        self.geco = Geco(config.geco, config.image_size)
        height, width = config.image_size
        fixed = torch.Generator().manual_seed(0)
        self.register_buffer("scores", torch.rand(1, height * width, generator=fixed), persistent=False)
        self.register_buffer("noise", torch.randn(1, config.slots, config.features, generator=fixed), persistent=False)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> GenesisOutput:
        if images.shape[-2:] != self.config.image_size:
            (height, width), (rows, columns) = images.shape[-2:], self.config.image_size
            raise ValueError(f"this model takes images of {rows}×{columns} pixels; got {height}×{width}")
        draws = self._draw(len(images))
        features = self.unet(images)
        masks = self.colouring(features, draws.scores).exp()
        posterior = self.posterior(features, masks)
        with full_precision(masks):
            slots = posterior.sample(draws.noise)
            surprise = divergence(posterior, self.prior(slots), slots)
        layers = self.decoder(slots).to(masks.dtype)
        slot_images, log_masks = layers[:, :, :3].sigmoid(), layers[:, :, 3].log_softmax(1)
        decoder_masks = log_masks.exp()
        return GenesisOutput(
            slots=slots,
            slot_images=slot_images,
            decoder_masks=decoder_masks,
            encoder_masks=masks.unflatten(2, self.config.image_size),
            in_use=torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device),
            mixture=(slot_images * decoder_masks.unsqueeze(2)).sum(1),
            log_masks=log_masks,
            divergence=surprise,
        )

    def loss(self, output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        """Negative log-likelihood plus β times the KL divergence, per image; in training it also moves β."""
        assert isinstance(output, GenesisOutput)
        error = mixture_error(images, output.slot_images, output.log_masks, self.config.pixel_deviation)
        loss: Tensor = self.geco(error.mean(), output.divergence.mean())
        return loss

    def _draw(self, batch: int) -> Draws:
        scores, noise = self.scores.expand(batch, -1), self.noise.expand(batch, -1, -1)
        return Draws(torch.rand_like(scores), torch.randn_like(noise)) if self.training else Draws(scores, noise)
