"""The paper's baselines as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from cocanet.config.checks import by, positive
from cocanet.config.features import FeatureBackboneConfig, FeatureDecoderConfig
from cocanet.config.tokens import TokenDecoderConfig

EncoderMasks = Literal["slots", "paper"]
Kernel = Literal["gaussian", "laplacian", "epanechnikov"]

SMALLEST_SIDE = 16
"""The decoder enlarges by 16, the U-Net shrinks to 4×4."""
NORM_GROUPS = 8


@dataclass(frozen=True)
class AttentionConfig:
    """What the models with iterative attention have in common. A tuple of strides has one entry a layer."""

    image_size: tuple[int, int]
    slots: int
    channels: int = 64
    """Channels of the encoder's convolutions and of the decoder's hidden ones."""
    encoder_strides: tuple[int, ...] = (1, 1, 1, 1)
    """Strides of 5×5 convolutions; each shrinks its input by as much."""
    broadcast: tuple[int, int] = (8, 8)
    """Cells on which the decoder lays out a slot."""
    decoder_strides: tuple[int, ...] = (2, 2, 2, 2, 1)
    """Strides of the decoder's hidden layers; each enlarges its input by as much. One more makes colours and mask."""
    dim: int = 64
    """Features of a slot."""
    hidden: int = 128
    """Hidden features of the MLPs."""
    iterations: int = 3
    encoder_masks: EncoderMasks = "slots"
    """The softmax over slots, or what the COCA paper evaluates, which need not sum to 1."""
    backbone: FeatureBackboneConfig | None = None
    """Pretrained features instead of the encoder's convolutions, for Slot Attention and BO-QSA."""
    decoder: FeatureDecoderConfig | None = None
    """The decoder that predicts these features, instead of the model's own."""

    def __post_init__(self) -> None:
        positive(
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
        if (self.backbone is None) != (self.decoder is None):
            raise ValueError(
                "a feature decoder goes with a feature backbone and only with it; expected both or neither"
            )
        if self.backbone is not None:
            self.backbone.grid_of(self.image_size)
            return
        shrinks = math.prod(self.encoder_strides)
        if any(side % shrinks for side in self.image_size):
            raise ValueError(f"the encoder shrinks by {shrinks}, which does not divide {by(self.image_size)} images")
        self._check_decoder()

    def _check_decoder(self) -> None:
        enlarges = math.prod(self.decoder_strides)
        made = (self.broadcast[0] * enlarges, self.broadcast[1] * enlarges)
        if made != self.image_size:
            raise ValueError(f"the decoder makes {by(made)} images; expected {by(self.image_size)}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the features that slots attend to."""
        if self.backbone is not None:
            return self.backbone.grid
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
    """Kernel of the hidden layers; 1 makes the decoder an MLP of each pixel."""
    scale_unit: float | None = 5.0
    """A slot's own coordinates count in this multiple of its scale (δ); None leaves scale out: translation only."""
    kind: Literal["inv-sa"] = "inv-sa"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backbone is not None:
            raise ValueError("inv-sa has an encoder of its own; expected no backbone of features")
        positive(decoder_channels=self.decoder_channels, decoder_kernel=self.decoder_kernel)
        if self.decoder_kernel % 2 == 0:
            raise ValueError(f"a decoder kernel must be odd to keep the resolution; got {self.decoder_kernel}")
        if self.scale_unit is not None:
            positive(scale_unit=self.scale_unit)


@dataclass(frozen=True)
class BoQsaConfig(AttentionConfig):
    """BO-QSA (Jia et al., 2023); the defaults are those for images of 128×128 with a mixture decoder."""

    encoder_strides: tuple[int, ...] = (2, 1, 1, 1)
    drop_path: float = 0.2
    """Chance that training skips an image's residual MLP."""
    noisy_share: float = 0.12
    """Share of the run over which the noise on the queries falls from 1 to 0."""
    tokens: TokenDecoderConfig | None = None
    """SLATE's decoder, which its authors take for photographs, instead of the mixture."""
    kind: Literal["bo-qsa"] = "bo-qsa"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must be 0 or more and below 1; got {self.drop_path}")
        if not 0 <= self.noisy_share <= 1:
            raise ValueError(f"noisy_share must lie between 0 and 1; got {self.noisy_share}")

    def _check_decoder(self) -> None:
        if self.tokens is None:
            super()._check_decoder()
        else:
            self.tokens.grid(self.image_size)


@dataclass(frozen=True)
class GecoConfig:
    """How the KL divergence's weight β follows the reconstruction error."""

    goal: float = 0.5655
    """Error per pixel and colour to aim at, in nats; with a deviation of 0.7 it is a squared error of 0.0032."""
    step: float = 1e-5
    """Rate at which β moves, for 64×64 pixels; it is inverse to their number."""
    speed_up: float = 10.0
    """How many times faster β grows, once the goal is reached, than it shrinks."""
    momentum: float = 0.99
    """Momentum of the error's moving average."""
    beta: float = 1.0
    """Where β begins."""
    beta_range: tuple[float, float] = (1e-10, 1e10)

    def __post_init__(self) -> None:
        positive(goal=self.goal, step=self.step, speed_up=self.speed_up)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be 0 or more and below 1; got {self.momentum}")
        low, high = self.beta_range
        if not 0 < low <= self.beta <= high:
            raise ValueError(f"beta must lie in its range of positive numbers; got {self.beta} and {low} to {high}")


@dataclass(frozen=True)
class GenesisV2Config:
    """GENESIS-v2 for square images of one size."""

    image_size: tuple[int, int]
    slots: int
    features: int = 64
    """Channels of a pixel's features, and numbers in a slot."""
    colours: int = 8
    """Channels of a pixel's colour in the embedding that the masks are grown in."""
    kernel: Kernel = "gaussian"
    """How likeness falls with the distance of two colours."""
    pixel_deviation: float = 0.7
    """Standard deviation of a pixel around the colour of a slot's image."""
    geco: GecoConfig = field(default_factory=GecoConfig)
    kind: Literal["genesis-v2"] = "genesis-v2"

    def __post_init__(self) -> None:
        height, width = self.image_size
        if height != width or height < SMALLEST_SIDE or height & (height - 1):
            raise ValueError(
                f"GENESIS-v2 takes square images whose side is a power of two from {SMALLEST_SIDE}; "
                f"got {height}×{width}"
            )
        if self.slots < 2:
            raise ValueError(f"slots must be at least 2; got {self.slots}")
        if not 0 < self.features <= 64 or self.features % NORM_GROUPS:
            raise ValueError(f"features must be a multiple of {NORM_GROUPS} up to 64; got {self.features}")
        if self.colours < 2:
            raise ValueError(f"colours must be at least 2, for row and column; got {self.colours}")
        positive(pixel_deviation=self.pixel_deviation)


BaselineConfig = SlotAttentionConfig | InvSaConfig | BoQsaConfig | GenesisV2Config
