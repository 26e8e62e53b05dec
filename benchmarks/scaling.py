"""The encoder's time against the image's side: 4×4 windows, as many levels as it takes."""

from __future__ import annotations

import torch

from benchmarks.measure import duration
from cocanet.config import BackboneConfig, CocaNetConfig, ConvConfig, DecoderConfig, LevelConfig
from cocanet.models.build import build

PIXELS = 2 * 256 * 256
"""The same number of pixels at every side, so that only the depth of the hierarchy differs."""


def config_for(side: int, slots: int = 7) -> CocaNetConfig:
    """A hierarchy of 4×4 windows; what is left for the last level is a smaller one."""
    levels, rest = [], side
    while rest > 1:
        window = min(4, rest)
        rest //= window
        levels.append(LevelConfig((window, window), clusters=4 if rest > 1 else slots, temperature=1.0, depth=1))
    return CocaNetConfig(
        image_size=(side, side),
        dim=64,
        backbone=BackboneConfig(channels=64, kernel=3),
        levels=tuple(levels),
        decoder=DecoderConfig((side, side), (ConvConfig(4, 3),)),
    )


def encoder_seconds_per_pixel(side: int, repeats: int) -> float:
    model = build(config_for(side), seed=0).eval()
    images = torch.rand(PIXELS // side**2, 3, side, side)
    with torch.inference_mode():
        model.encode(images)
        return min(duration(lambda: model.encode(images)) for _ in range(repeats)) / PIXELS
