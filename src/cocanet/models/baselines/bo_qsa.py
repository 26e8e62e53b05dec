"""BO-QSA: Slot Attention from learned queries, optimised on two levels (Jia et al., 2023); of mixtures or of tokens."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.baselines import BoQsaConfig
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.parts import (
    Attended,
    AttentionModel,
    PixelEncoder,
    SlotIteration,
    SlotUpdate,
    broadcast_decoder,
    feature_parts,
)
from cocanet.models.tokens import TokenDecoder

EPS = 1e-5
"""In every layer normalisation."""


class BoQsa(AttentionModel):
    """All iterations but the last are a search without gradient; the queries get the gradient of where it ended."""

    config: BoQsaConfig
    noise: Tensor

    def __init__(self, config: BoQsaConfig) -> None:
        super().__init__(config)
        dim = config.dim
        features = feature_parts(config, dim)
        self.encoder = features[0] if features else PixelEncoder(config, hidden=config.hidden, outputs=dim, eps=EPS)
        self.norm = nn.LayerNorm(dim, eps=EPS)
        update = SlotUpdate(dim, config.hidden, EPS, config.drop_path)
        nn.init.kaiming_uniform_(update.mlp.inner.weight, nonlinearity="relu")
        self.iteration = SlotIteration(dim, dim, update, damped_weights, EPS)
        if features:
            self.decoder = features[1]
        elif config.tokens:
            self.decoder = TokenDecoder(config.tokens, config.image_size, dim)
        else:
            self.decoder = broadcast_decoder(config)
        own = () if features else self.encoder.modules()
        mixture = () if features or config.tokens else self.decoder.modules()
        for layer in (*own, *mixture):
            # Its authors keep torch's initial values here; Slot Attention's are Xavier's.
            if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
                layer.reset_parameters()
        self.queries = nn.Parameter(nn.init.xavier_uniform_(torch.empty(config.slots, dim)))
        self.register_buffer("noise", torch.ones(()))

    def attend(self, images: Float[Tensor, "b 3 h w"]) -> Attended:
        features = self.encoder(2 * images - 1)
        with full_precision(features):
            inputs, first = self.norm(features.float()), self.first_slots(len(images))
            slots = self.search(inputs, first)
            # Straight through: the value of the search's end, the gradient to its beginning.
            out: Attended = self.iteration(inputs, slots + (first - first.detach()))
        return out

    def first_slots(self, batch: int) -> Float[Tensor, "b k d"]:
        """The queries; in training with noise that is proportional to them."""
        queries = self.queries.expand(batch, -1, -1)
        if not self.training:
            return queries
        return queries + self.noise * torch.randn_like(queries) * queries.detach()

    @torch.no_grad()
    def search(self, inputs: Float[Tensor, "b n d"], slots: Float[Tensor, "b k d"]) -> Float[Tensor, "b k d"]:
        """Slots after all iterations but the last."""
        slots = slots.detach()
        for _ in range(self.config.iterations - 1):
            slots = self.iteration(inputs, slots).slots
        return slots

    def anneal(self, done: float) -> None:
        """Lower the noise from 1 to 0 along half a cosine, and keep it there."""
        super().anneal(done)
        share = min(1.0, done / self.config.noisy_share) if self.config.noisy_share else 1.0
        self.noise.fill_(0.5 * (1 + math.cos(math.pi * share)))

    def paper_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        return super().paper_masks(attention).softmax(1)


def damped_weights(attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k n"]:
    """Weights of a mean over positions; a slot that won less than about one position takes up next to nothing."""
    return attention / (attention.sum(-1, keepdim=True) + 1)


MODEL = BoQsa
