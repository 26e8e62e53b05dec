"""A preset: model, data and training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cocanet.config.baselines import BaselineConfig, BoQsaConfig
from cocanet.config.coca_net import CocaNetConfig, DecoderConfig
from cocanet.config.resolution import at_image_size
from cocanet.config.tokens import TokenDecoderConfig
from cocanet.config.training import Reconstruction, Stage, TrainConfig

ModelConfig = CocaNetConfig | BaselineConfig

Fit = Literal["stretch", "pad", "crop"]
"""How an image gets another shape: stretched, padded with its edges, or cropped to its centre."""


@dataclass(frozen=True)
class DataConfig:
    """The data set of a preset."""

    name: str
    background_labels: int = 1
    max_objects: int | None = None
    """Most objects in a generated scene."""
    resize: bool = False
    """Whether images of another size are resized to the model's size or refused."""
    fit: Fit | None = None
    """How the images were fitted to the store's shape, where known; prediction fits images the same way."""


@dataclass(frozen=True)
class Preset:
    """Everything that a run needs but its seed: model, data and training."""

    name: str
    model: ModelConfig
    data: DataConfig
    train: TrainConfig = field(default_factory=TrainConfig)

    @property
    def has_token_decoder(self) -> bool:
        """Whether an autoregressive token decoder takes the place of the spatial broadcast decoder."""
        if isinstance(self.model, CocaNetConfig):
            return isinstance(self.model.decoder, TokenDecoderConfig)
        return isinstance(self.model, BoQsaConfig) and self.model.tokens is not None

    def __post_init__(self) -> None:
        decoder = self.model.decoder if isinstance(self.model, CocaNetConfig) else None
        pointwise = isinstance(decoder, DecoderConfig) and decoder.pointwise
        for stage in self.train.stages:
            self.model_at(stage)
            for loss in stage.losses:
                if isinstance(loss, Reconstruction) and loss.pixels < 1 and not pointwise:
                    raise ValueError(f"a loss on a share of the pixels needs a pointwise decoder; got {loss.pixels:g}")

    def model_at(self, stage: Stage) -> ModelConfig:
        """The model at a stage's image size."""
        size = stage.image_size
        if size is None or size == self.model.image_size:
            return self.model
        if not isinstance(self.model, CocaNetConfig):
            raise ValueError(f"only a coca-net trains at other image sizes; got {size} for a {self.model.kind}")
        return at_image_size(self.model, size)
