"""The one result type of every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.layers.coca import Clusters


class Level(NamedTuple):
    """One level of COCA-Net's hierarchy, for those who want to look inside."""

    window: Window
    grid: tuple[int, int]
    """Rows and columns of cells that the windows divide."""
    clusters: Clusters


@dataclass(frozen=True)
class Output:
    """What a model found in a batch of images: everything is per slot, colours are in [0, 1]."""

    slots: Float[Tensor, "b k d"]
    slot_images: Float[Tensor, "b k 3 h w"]
    """Each slot's own picture, not clamped."""
    decoder_masks: Float[Tensor, "b k h w"]
    encoder_masks: Float[Tensor, "b k h w"]
    in_use: Bool[Tensor, "b k"]
    """False for slots that only pad an image with fewer slots than others of its batch."""
    mixture: Float[Tensor, "b 3 h w"]
    """The slots' pictures mixed by the decoder's masks, not clamped: what a loss compares."""
    masks_from_below: Float[Tensor, "b k h w"] | None = None
    """Encoder masks before feedback corrected them, of a model that has any."""
    levels: tuple[Level, ...] = ()
    decoder_loss: Float[Tensor, ""] | None = None
    """What a decoder by tokens minimises while it trains; one that mixes slots has the mixture's error."""

    @property
    def reconstruction(self) -> Float[Tensor, "b 3 h w"]:
        return self.mixture.clamp(0, 1)
