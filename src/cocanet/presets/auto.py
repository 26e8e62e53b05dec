"""`coca train auto`: a hierarchy and a decoder for images of any size, from what the paper's presets have in common."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

from cocanet.config import (
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DataConfig,
    DecoderConfig,
    Fit,
    LevelConfig,
    Preset,
    TokenDecoderConfig,
)
from cocanet.config.windows import Window
from cocanet.presets.photographs import QUICK_COURSE, quick_model
from cocanet.presets.quick import with_quick_recipe
from cocanet.words import plural

DecoderKind = Literal["pictures", "tokens"]
"""Each slot paints a picture of its own, or all tell one together."""
SMALLEST, LARGEST, UNIT = 32, 256, 16
TWO_LEVELS_UP_TO = 64
"""Pixels of the longer side; the paper goes from two levels to three between 64 and 128."""


class Choice(NamedTuple):
    """A preset, and why it is what it is."""

    preset: Preset
    reasons: tuple[str, ...]


def choose(
    image_size: tuple[int, int],
    slots: int,
    name: str = "auto",
    background_labels: int = 0,
    fit: Fit | None = None,
    decoder: DecoderKind = "pictures",
) -> Choice:
    """The model for images of `image_size` pixels, rows first, with `slots` slots."""
    check_slots(slots)
    size = working_size(image_size)
    data = DataConfig(name, background_labels=background_labels, resize=size != image_size, fit=fit)
    if decoder == "tokens":
        model = quick_model(size, slots)
        return Choice(Preset("auto", model, data, QUICK_COURSE), _reasons(image_size, model))
    windows = windows_for(size)
    three = len(windows) == 3
    model = CocaNetConfig(
        image_size=size,
        dim=64,
        backbone=BackboneConfig(channels=64, kernel=3),
        levels=_levels(windows, slots),
        decoder=_decoder(size, transposed=three),
    )
    preset = replace(with_quick_recipe(Preset("auto", model, data)), name="auto")
    assert isinstance(preset.model, CocaNetConfig)
    return Choice(preset, _reasons(image_size, preset.model))


def check_slots(slots: int) -> None:
    if not 2 <= slots <= 64:
        raise ValueError(f"slots must be 2 to 64; got {slots}")


def working_size(image_size: tuple[int, int]) -> tuple[int, int]:
    """The nearest size that divides into windows: each side a multiple of 16 from 32 to 256 pixels."""
    if min(image_size) < 1:
        raise ValueError(f"images have at least 1×1 pixels; got {image_size[0]}×{image_size[1]}")
    scale = min(1.0, LARGEST / max(image_size))
    height, width = (min(LARGEST, max(SMALLEST, round(scale * side / UNIT) * UNIT)) for side in image_size)
    return height, width


def windows_for(size: tuple[int, int]) -> list[Window]:
    """Windows of 4 to 8 cells a side where the size allows it, as many levels for rows as for columns."""
    levels = 2 if max(size) <= TWO_LEVELS_UP_TO else 3
    height, width = (_split(side // UNIT, levels) for side in size)
    return list(zip(height, width, strict=True))


def _split(units: int, levels: int) -> tuple[int, ...]:
    """Factors of 16·units, small windows first."""
    if levels == 2:
        return (2 * units, 8)
    return (4, 8, units // 2) if units > 8 and units % 2 == 0 else (4, 4, units)


def _levels(windows: list[Window], slots: int) -> tuple[LevelConfig, ...]:
    if len(windows) == 2:
        lower = 3 if math.prod(windows[0]) < 32 else 4
        return (
            LevelConfig(windows[0], clusters=lower, temperature=1.0, depth=2),
            LevelConfig(windows[1], clusters=slots, temperature=1.5, depth=3),
        )
    return (
        LevelConfig(windows[0], clusters=2, temperature=1.0, depth=1),
        LevelConfig(windows[1], clusters=4, temperature=0.5, depth=2),
        LevelConfig(windows[2], clusters=slots, temperature=1.0, depth=3),
    )


def _decoder(size: tuple[int, int], transposed: bool) -> DecoderConfig:
    last = ConvConfig(channels=4, kernel=3)
    if not transposed:
        hidden = ConvConfig(channels=32, kernel=5)
        return DecoderConfig(size, (hidden, hidden, hidden, last), octaves=4)
    enlarging = ConvConfig(channels=48, kernel=5, stride=2)
    start = (size[0] // UNIT, size[1] // UNIT)
    return DecoderConfig(start, (*[enlarging] * 4, ConvConfig(channels=48, kernel=5), last), octaves=4)


def _reasons(image_size: tuple[int, int], model: CocaNetConfig) -> tuple[str, ...]:
    (height, width), (rows, columns) = image_size, model.image_size
    resized = (
        "the images' own size"
        if image_size == model.image_size
        else f"the nearest to {height}×{width} with sides that are multiples of 16 from 32 to 256; images are resized"
    )
    steps = " → ".join(
        f"{level.window[0]}×{level.window[1]} cells make {level.clusters} clusters" for level in model.levels
    )
    return (
        f"{rows}×{columns} pixels: {resized}",
        f"{plural(len(model.levels), 'level')}{_above(model)}: {steps}",
        f"{model.slots} slots (--slots): the most objects in an image, with the background",
        f"decoder: {_told(model)}",
    )


def _above(model: CocaNetConfig) -> str:
    side = math.prod(model.backbone.strides)
    return ", as in the paper's models of this size" if side == 1 else f" above cells of {side}×{side} pixels"


def _told(model: CocaNetConfig) -> str:
    decoder = model.decoder
    if isinstance(decoder, TokenDecoderConfig):
        rows, columns = decoder.grid(model.image_size)
        return (
            f"{rows}×{columns} tokens of {decoder.vocabulary}; the encoder learns to find one thing in the middle of "
            "each photograph"
        )
    if decoder.broadcast == model.image_size:
        by = "every pixel by itself" if decoder.layers[0].kernel == 1 else "convolutions"
        return f"{by}, at full resolution"
    return f"{len(decoder.layers)} layers up from {decoder.broadcast[0]}×{decoder.broadcast[1]}"
