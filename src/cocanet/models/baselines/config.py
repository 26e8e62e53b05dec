"""Configurations of the paper's rivals; they need nothing of `cocanet.config`, which may name them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

EncoderMasks = Literal["slots", "paper"]


@dataclass(frozen=True)
class AttentionConfig:
    """What the models with iterative attention have in common. A tuple of strides has one entry a layer."""

    image_size: tuple[int, int]
    slots: int
    channels: int = 64
    """Of the encoder's convolutions, and of the decoder's hidden ones."""
    encoder_strides: tuple[int, ...] = (1, 1, 1, 1)
    """Of 5×5 convolutions; each shrinks its input by as much."""
    broadcast: tuple[int, int] = (8, 8)
    """Cells on which the decoder lays out a slot."""
    decoder_strides: tuple[int, ...] = (2, 2, 2, 2, 1)
    """Of the decoder's hidden layers; each enlarges its input by as much. One more layer makes colours and mask."""
    dim: int = 64
    """Features of a slot."""
    hidden: int = 128
    """Hidden features of the MLPs."""
    iterations: int = 3
    encoder_masks: EncoderMasks = "slots"
    """The softmax over slots, or what the COCA paper evaluates, which need not sum to 1."""

    def __post_init__(self) -> None:
        _positive(
            image_height=self.image_size[0],
            image_width=self.image_size[1],
            slots=self.slots,
            channels=self.channels,
            broadcast_height=self.broadcast[0],
            broadcast_width=self.broadcast[1],
            dim=self.dim,
            hidden=self.hidden,
            iterations=self.iterations,
        )
        for name, strides in (("encoder", self.encoder_strides), ("decoder", self.decoder_strides)):
            if not strides or min(strides) < 1:
                raise ValueError(f"the {name} needs at least one layer and strides of 1 or more; got {strides}")
        shrinks = math.prod(self.encoder_strides)
        if any(side % shrinks for side in self.image_size):
            raise ValueError(f"the encoder shrinks by {shrinks}, which does not divide {_by(self.image_size)} images")
        enlarges = math.prod(self.decoder_strides)
        made = (self.broadcast[0] * enlarges, self.broadcast[1] * enlarges)
        if made != self.image_size:
            raise ValueError(f"the decoder makes {_by(made)} images; expected {_by(self.image_size)}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the features that slots attend to."""
        shrinks = math.prod(self.encoder_strides)
        return self.image_size[0] // shrinks, self.image_size[1] // shrinks


@dataclass(frozen=True)
class SlotAttentionConfig(AttentionConfig):
    """Slot Attention (Locatello et al., 2020); the defaults are those for CLEVR."""

    kind: Literal["slot-attention"] = "slot-attention"


@dataclass(frozen=True)
class InvSaConfig(AttentionConfig):
    """Invariant Slot Attention (Biza et al., 2023); the defaults are those for images of 128×128."""

    encoder_strides: tuple[int, ...] = (2, 2, 2, 1)
    broadcast: tuple[int, int] = (16, 16)
    decoder_strides: tuple[int, ...] = (2, 2, 2, 1, 1)
    decoder_channels: int = 64
    decoder_kernel: int = 5
    """Of the hidden layers; 1 makes the decoder an MLP of each pixel."""
    scale_unit: float | None = 5.0
    """A slot's own coordinates count in so many times its scale (δ); None leaves scale out: translation only."""
    kind: Literal["inv-sa"] = "inv-sa"

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(decoder_channels=self.decoder_channels, decoder_kernel=self.decoder_kernel)
        if self.decoder_kernel % 2 == 0:
            raise ValueError(f"a decoder kernel must be odd to keep the resolution; got {self.decoder_kernel}")
        if self.scale_unit is not None:
            _positive(scale_unit=self.scale_unit)


@dataclass(frozen=True)
class BoQsaConfig(AttentionConfig):
    """BO-QSA with a mixture decoder (Jia et al., 2023); the defaults are those for images of 128×128."""

    encoder_strides: tuple[int, ...] = (2, 1, 1, 1)
    drop_path: float = 0.2
    """Chance that training skips an image's residual MLP."""
    noisy_share: float = 0.12
    """Share of the run over which the noise on the queries falls from 1 to 0."""
    kind: Literal["bo-qsa"] = "bo-qsa"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must be 0 or more and below 1; got {self.drop_path}")
        if not 0 <= self.noisy_share <= 1:
            raise ValueError(f"noisy_share must lie between 0 and 1; got {self.noisy_share}")


def _positive(**values: int | float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ValueError(f"{name} must be positive; got {value}")


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"
