"""COCA-Nets of a few thousand weights, and images for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from cocanet.config import (
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DecoderConfig,
    LevelConfig,
    ModelConfig,
    TokenDecoderConfig,
)


def small(**changes: Any) -> CocaNetConfig:
    """Two levels on images of 8×12 pixels."""
    config = CocaNetConfig(
        image_size=(8, 12),
        dim=16,
        backbone=BackboneConfig(channels=8, kernel=3),
        levels=(
            LevelConfig(window=(4, 3), clusters=3, temperature=1.0, depth=1),
            LevelConfig(window=(2, 4), clusters=4, temperature=1.0, depth=1),
        ),
        decoder=DecoderConfig((8, 12), (ConvConfig(8, 5), ConvConfig(8, 5), ConvConfig(4, 3))),
    )
    return replace(config, **changes)


SHALLOW = DecoderConfig((8, 12), (ConvConfig(8, 5), ConvConfig(4, 3)))
"""A decoder of one layer less."""
FLAT = small(levels=(LevelConfig((8, 12), 4, 1.0, 1),))
THREE = small(
    levels=(
        LevelConfig(window=(2, 3), clusters=2, temperature=1.0, depth=1),
        LevelConfig(window=(2, 2), clusters=3, temperature=1.0, depth=0),
        LevelConfig(window=(2, 2), clusters=4, temperature=1.0, depth=1),
    ),
    decoder=SHALLOW,
)
DEEP = small(
    image_size=(16, 8),
    levels=(
        LevelConfig((2, 2), 2, 1.0, 1, attention="neighbourhood", kernel=3),
        LevelConfig((2, 2), 3, 1.0, 1),
        LevelConfig((2, 1), 3, 1.0, 0),
        LevelConfig((2, 2), 4, 1.0, 1, attention="global"),
    ),
    decoder=DecoderConfig((8, 4), (ConvConfig(8, 5, stride=2), ConvConfig(4, 3))),
)
SQUARE = small(
    image_size=(32, 32),
    dim=8,
    levels=(
        LevelConfig(window=(4, 4), clusters=2, temperature=1.0, depth=0),
        LevelConfig(window=(8, 8), clusters=4, temperature=1.0, depth=1),
    ),
    decoder=DecoderConfig((8, 8), (ConvConfig(8, 3, stride=4), ConvConfig(4, 3))),
)
"""For Tetrominoes."""


TOKENS = TokenDecoderConfig(vocabulary=11, dim=8, blocks=2, heads=2, channels=8)


def token_net(**changes: Any) -> CocaNetConfig:
    """COCA-Net on cells of 2×2 pixels, with a token decoder."""
    levels = (LevelConfig((2, 2), 2, 1.0, 1), LevelConfig((2, 4), 3, 1.0, 1))
    backbone = BackboneConfig(channels=8, kernel=3, strides=(2, 1))
    return replace(small(image_size=(8, 16), backbone=backbone, levels=levels, decoder=TOKENS), **changes)


def in_slot_frame(config: CocaNetConfig) -> CocaNetConfig:
    return replace(config, decoder=replace(config.decoder, octaves=2, frame="slot"))


def images(config: ModelConfig, batch: int = 2, seed: int = 0) -> torch.Tensor:
    """Noise of the size that a model takes."""
    return torch.rand(batch, 3, *config.image_size, generator=torch.Generator().manual_seed(seed))
