"""INV-SA: Slot Attention that a shift of the scene, or its scale, does not change (Biza et al., 2023; ISA-TS)."""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config.rivals import InvSaConfig
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.attention_masks import enlarge
from cocanet.models.baselines.attention_model import EVALUATION_SEED, AttentionModel
from cocanet.models.baselines.conv_encoder import ConvEncoder
from cocanet.models.baselines.invariant_attention import (
    EPS,
    SCALES,
    Frames,
    InvariantAttention,
    coordinates,
    find_frames,
    in_frames,
    position_weights,
)
from cocanet.models.baselines.iterative_attention import Attended
from cocanet.models.baselines.lecun import initialise
from cocanet.models.baselines.relative_decoder import RelativeDecoder
from cocanet.models.baselines.slot_update import SlotUpdate
from cocanet.models.decoder import Painting
from cocanet.models.output import Output


class InvSa(AttentionModel):
    """A slot is learned features and a frame, position and scale, that is drawn at first and then found."""

    config: InvSaConfig
    grid: Tensor
    canvas: Tensor
    evaluation_frames: Tensor

    def __init__(self, config: InvSaConfig) -> None:
        super().__init__(config)
        self.encoder = ConvEncoder(config.channels, config.encoder_strides, rectify_last=False)
        self.attention = InvariantAttention(config.channels, config.dim, config.hidden)
        self.update = SlotUpdate(config.dim, config.hidden, EPS)
        self.decoder = RelativeDecoder(config)
        self.apply(initialise)
        self.features = nn.Parameter(torch.randn(config.slots, config.dim))
        self.register_buffer("grid", coordinates(*config.grid), persistent=False)
        self.register_buffer("canvas", coordinates(*config.broadcast), persistent=False)
        frames = _draw(config.slots, generator=torch.Generator().manual_seed(EVALUATION_SEED))
        self.register_buffer("evaluation_frames", frames, persistent=False)

    def attend(self, images: Float[Tensor, "b 3 h w"]) -> Attended:
        """Slots are their features, position and scale."""
        features = rearrange(self.encoder(images), "b c h w -> b (h w) c")
        with full_precision(features):
            slots = self.features.expand(len(images), -1, -1)
            return self.rounds(features.float(), slots, self.first_frames(len(images)))

    def rounds(self, features: Float[Tensor, "b n c"], slots: Float[Tensor, "b k d"], frames: Frames) -> Attended:
        """So many iterations, and one round more that only finds the frames of the final slots."""
        keys, values = self.attention.project(features)
        for left in reversed(range(self.config.iterations + 1)):
            relative = in_frames(self.grid, frames, self.config.scale_unit)
            attention = self.attention.attention(slots, keys, relative)
            weights = position_weights(attention)
            frames = find_frames(weights, self.grid)
            if left:
                slots = self.update(slots, self.attention.updates(weights, values, relative))
        return Attended(torch.cat((slots, *frames), -1), attention)

    def first_frames(self, batch: int) -> Frames:
        """Drawn anew for each slot and image in training; always the same in evaluation."""
        frames = self.evaluation_frames.expand(batch, -1, -1)
        if self.training:
            frames = _draw(batch, self.config.slots, device=frames.device)
        return Frames(frames[..., :2], frames[..., 2:])

    def paint(self, slots: Float[Tensor, "b k d"]) -> Painting:
        features, positions, scales = slots.split((self.config.dim, 2, 2), -1)
        out: Painting = self.decoder(
            features, in_frames(self.canvas, Frames(positions, scales), self.config.scale_unit)
        )
        return out

    def paper_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        return enlarge(position_weights(attention), self.config.grid, self.config.image_size)

    def loss(self, output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        """Squared error in [0, 1], summed over an image; the clipping of its gradient is tuned to that."""
        return (output.mixture - images).square().sum((1, 2, 3)).mean()


def _draw(
    *shape: int, device: torch.device | None = None, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape 4"]:
    """Positions from U(-1, 1), scales from N(0.1, 0.1) within their bounds."""
    positions = 2 * torch.rand(*shape, 2, device=device, generator=generator) - 1
    scales = 0.1 + 0.1 * torch.randn(*shape, 2, device=device, generator=generator)
    return torch.cat((positions, scales.clamp(*SCALES)), -1)
