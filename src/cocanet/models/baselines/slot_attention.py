"""Slot Attention: slots drawn from one learned Gaussian compete for the pixels (Locatello et al., 2020)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.baselines import SlotAttentionConfig
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.parts import (
    EVALUATION_SEED,
    Attended,
    AttentionModel,
    PixelEncoder,
    SlotIteration,
    SlotUpdate,
    broadcast_decoder,
    feature_parts,
)

EPS = 1e-3
"""In every layer normalisation."""


class SlotAttention(AttentionModel):
    """Gradients flow through all iterations."""

    evaluation_draw: Tensor

    def __init__(self, config: SlotAttentionConfig) -> None:
        super().__init__(config)
        channels, dim = config.channels, config.dim
        features = feature_parts(config, channels)
        self.encoder = features[0] if features else PixelEncoder(config, hidden=channels, outputs=channels, eps=EPS)
        self.norm = nn.LayerNorm(channels, eps=EPS)
        self.iteration = SlotIteration(channels, dim, SlotUpdate(dim, config.hidden, EPS), mean_weights, EPS)
        self.decoder = features[1] if features else broadcast_decoder(config)
        self.mean = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, dim)))
        self.log_deviation = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, dim)))
        draw = torch.randn(config.slots, dim, generator=torch.Generator().manual_seed(EVALUATION_SEED))
        self.register_buffer("evaluation_draw", draw, persistent=False)

    def attend(self, images: Float[Tensor, "b 3 h w"]) -> Attended:
        features = self.encoder(2 * images - 1)
        with full_precision(features):
            inputs, slots = self.norm(features.float()), self.first_slots(len(images))
            for _ in range(self.config.iterations):
                slots, attention = self.iteration(inputs, slots)
        return Attended(slots, attention)

    def first_slots(self, batch: int) -> Float[Tensor, "b k d"]:
        """Slots drawn anew for each image in training; always the same ones in evaluation."""
        draw = self.evaluation_draw.expand(batch, -1, -1)
        if self.training:
            draw = torch.randn_like(draw)
        return self.mean + self.log_deviation.exp() * draw


def mean_weights(attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k n"]:
    """Weights of a mean over positions; a slot that won nothing takes the mean of all."""
    attention = attention + 1e-8
    return attention / attention.sum(-1, keepdim=True)


MODEL = SlotAttention
