"""What models return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.layers.coca import Clusters


class Level(NamedTuple):
    """One level of COCA-Net's hierarchy."""

    window: Window
    grid: tuple[int, int]
    """Rows and columns of cells that the windows divide."""
    clusters: Clusters


class Encoding(NamedTuple):
    """The encoder's output for a batch of images."""

    slots: Float[Tensor, "b k d"]
    masks: Float[Tensor, "b k h w"]
    """Encoder masks over the pixels; for COCA-Net the product of the masks of all levels (Eq. 13)."""
    in_use: Bool[Tensor, "b k"]
    """False for slots that pad an image with fewer slots than others of its batch."""
    levels: tuple[Level, ...] = ()
    """COCA-Net's hierarchy; other models have none."""


class Decoded(NamedTuple):
    """The decoder's output for a batch: an image and a mask of each slot, and the reconstruction; colours in [0, 1]."""

    slot_images: Float[Tensor, "b k 3 h w"]
    masks: Float[Tensor, "b k h w"]
    reconstruction: Float[Tensor, "b 3 h w"]
    loss: Float[Tensor, ""] | None = None
    """The training loss of a decoder that has its own; others minimise the error of the reconstruction."""


@dataclass(frozen=True)
class Output:
    """The output of every model for a batch of images; colours are in [0, 1] and not clamped."""

    slots: Float[Tensor, "b k d"]
    slot_images: Float[Tensor, "b k 3 h w"]
    decoder_masks: Float[Tensor, "b k h w"]
    encoder_masks: Float[Tensor, "b k h w"]
    in_use: Bool[Tensor, "b k"]
    reconstruction: Float[Tensor, "b 3 h w"]
    levels: tuple[Level, ...] = ()
    decoder_loss: Float[Tensor, ""] | None = None

    @classmethod
    def of(cls, encoding: Encoding, decoded: Decoded) -> Output:
        return cls(
            slots=encoding.slots,
            slot_images=decoded.slot_images,
            decoder_masks=decoded.masks,
            encoder_masks=encoding.masks,
            in_use=encoding.in_use,
            reconstruction=decoded.reconstruction,
            levels=encoding.levels,
            decoder_loss=decoded.loss,
        )
