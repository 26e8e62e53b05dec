"""A complete run: model, data and training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cocanet.config.coca_net import CocaNetConfig
from cocanet.config.rivals import BoQsaConfig, RivalConfig
from cocanet.config.tokens import TokenDecoderConfig
from cocanet.config.training import TrainConfig

ModelConfig = CocaNetConfig | RivalConfig

Fit = Literal["stretch", "pad", "crop"]
"""How an image gets another shape: each side by itself, with its edges repeated around it, or cut to its middle."""


@dataclass(frozen=True)
class DataConfig:
    """The data set a preset is for."""

    name: str
    background_labels: int = 1
    max_objects: int | None = None
    """Most objects in a scene, where scenes are made."""
    resize: bool = False
    """Whether images of another size are resized to the model's, or refused."""
    fit: Fit | None = None
    """How images of other shapes were fitted to the store's, where that is known; what is segmented later is fitted
    so too."""


@dataclass(frozen=True)
class Preset:
    """A complete published run: model, data and training."""

    name: str
    model: ModelConfig
    data: DataConfig
    train: TrainConfig = field(default_factory=TrainConfig)

    @property
    def by_tokens(self) -> bool:
        """Whether the decoder tells tokens instead of mixing pictures: its masks are then where each token looked."""
        if isinstance(self.model, CocaNetConfig):
            return isinstance(self.model.decoder, TokenDecoderConfig)
        return isinstance(self.model, BoQsaConfig) and self.model.tokens is not None

    def __post_init__(self) -> None:
        train = self.train
        if (train.encoder_first or train.decoder_apart) and not isinstance(self.model, CocaNetConfig):
            raise ValueError(
                f"only the encoder of a coca-net learns without its decoder; got encoder_first={train.encoder_first} "
                f"and decoder_apart={train.decoder_apart} for a {self.model.kind}"
            )
        if not train.feedback and not isinstance(self.model, CocaNetConfig):
            raise ValueError(f"only a coca-net has feedback to train without; feedback=False is no {self.model.kind}'s")
        if train.figure and not (isinstance(self.model, CocaNetConfig) and self.model.feedback.rounds):
            raise ValueError(
                f"a figure is learned from the feedback of a coca-net; got figure={train.figure} for a "
                f"{self.model.kind} without any"
            )
