"""What the models with iterative attention have in common: attend, paint, and show both."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cocanet.config import ConvConfig, DecoderConfig
from cocanet.config.rivals import AttentionConfig
from cocanet.models.baselines.attention_masks import enlarge, share, stretch
from cocanet.models.baselines.iterative_attention import Attended
from cocanet.models.decoder import BroadcastDecoder, Painting
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

EVALUATION_SEED = 0
"""Of what evaluation draws in place of chance: the same for every image, so no score depends on the batch."""


class AttentionModel(ObjectModel):
    """Slots by iterative attention over features of the image, painted by a decoder."""

    decoder: nn.Module

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Output:
        if images.shape[-2:] != self.config.image_size:
            (height, width), (rows, columns) = images.shape[-2:], self.config.image_size
            raise ValueError(f"this model takes images of {rows}×{columns} pixels; got {height}×{width}")
        slots, attention = self.attend(images)
        painting = self.paint(slots)
        return Output(
            slots=slots,
            slot_images=painting.slot_images,
            decoder_masks=painting.masks,
            encoder_masks=self.encoder_masks(attention),
            in_use=torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device),
            mixture=painting.mixture,
        )

    def attend(self, images: Float[Tensor, "b 3 h w"]) -> Attended:
        """Slots, and the softmax over slots of the last round."""
        raise NotImplementedError

    def paint(self, slots: Float[Tensor, "b k d"]) -> Painting:
        out: Painting = self.decoder(slots, slots.new_ones(slots.shape[:2], dtype=torch.bool))
        return out

    def encoder_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        if self.config.encoder_masks == "paper":
            return self.paper_masks(attention)
        return share(enlarge(attention, self.config.grid, self.config.image_size))

    def paper_masks(self, attention: Float[Tensor, "b k n"]) -> Float[Tensor, "b k h w"]:
        """The masks that the COCA paper's tables evaluate for this model; they need not sum to 1."""
        return stretch(enlarge(attention, self.config.grid, self.config.image_size))


def broadcast_decoder(config: AttentionConfig) -> BroadcastDecoder:
    """The decoder of Slot Attention and BO-QSA: 5×5 convolutions, and a 3×3 one for colours and mask."""
    hidden = tuple(ConvConfig(config.channels, kernel=5, stride=stride) for stride in config.decoder_strides)
    return BroadcastDecoder(DecoderConfig(config.broadcast, (*hidden, ConvConfig(channels=4, kernel=3))), config.dim)
