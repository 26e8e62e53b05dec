"""`coca train auto`: a hierarchy and a decoder for images of any size, from what the paper's presets have in common."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cocanet.config import (
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DataConfig,
    DecoderConfig,
    FeatureBackboneConfig,
    Fit,
    LevelConfig,
    Preset,
)
from cocanet.config.features import LABELS
from cocanet.config.windows import Window
from cocanet.presets.fast import with_fast_recipe
from cocanet.presets.features import TRAINING as FEATURE_TRAINING
from cocanet.presets.features import coca_net as feature_net
from cocanet.words import plural

SMALLEST, LARGEST, UNIT = 32, 256, 16
FEATURE_UNIT = 32
"""Cells a side of a grid of features."""
TWO_LEVELS_UP_TO = 64
"""Pixels of the longer side; the paper goes from two levels to three between 64 and 128."""

FITTED: dict[Fit | None, str] = {
    None: "the images' own size",
    "stretch": "photographs are stretched to it (--fit), nothing is cropped, and masks cover the whole photograph",
    "pad": "photographs are padded with their edges (--fit), and masks cover the whole photograph",
    "crop": "photographs are cropped to their central square (--fit), and the rest is background",
}


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
    *,
    counted: bool = False,
    features: bool = False,
) -> Choice:
    """The model for images of `image_size` pixels, rows first, with `slots` slots.

    `fit` says how photographs were brought to that size; `counted` that `slots` was chosen by the images. With
    `features` the model begins with a pretrained network.
    """
    check_slots(slots)
    size = working_size(image_size, FEATURE_UNIT if features else UNIT)
    data = DataConfig(name, background_labels=background_labels, resize=size != image_size, fit=fit)
    if features:
        on_features = Preset("auto", feature_net(slots, size), data, FEATURE_TRAINING)
        return Choice(on_features, _feature_reasons(image_size, on_features, fit, counted))
    windows = windows_for(size)
    model = CocaNetConfig(
        image_size=size,
        dim=64,
        backbone=BackboneConfig(channels=64, kernel=3),
        levels=_levels(windows, slots),
        decoder=DecoderConfig(size, (ConvConfig(channels=4, kernel=3),)),  # the fast recipe brings its own
    )
    preset = replace(with_fast_recipe(Preset("auto", model, data)), name="auto")
    assert isinstance(preset.model, CocaNetConfig)
    return Choice(preset, _reasons(image_size, preset.model, fit, counted))


def check_slots(slots: int) -> None:
    if not 2 <= slots <= 64:
        raise ValueError(f"slots must be 2 to 64; got {slots}")


def working_size(image_size: tuple[int, int], unit: int = UNIT) -> tuple[int, int]:
    """The nearest size that divides into windows: each side a multiple of `unit`, 16, from 32 to 256 pixels."""
    if min(image_size) < 1:
        raise ValueError(f"images have at least 1×1 pixels; got {image_size[0]}×{image_size[1]}")
    scale = min(1.0, LARGEST / max(image_size))
    height, width = (min(LARGEST, max(SMALLEST, round(scale * side / unit) * unit)) for side in image_size)
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


def _feature_reasons(image_size: tuple[int, int], preset: Preset, fit: Fit | None, counted: bool) -> tuple[str, ...]:
    model = preset.model
    assert isinstance(model, CocaNetConfig)
    assert isinstance(model.backbone, FeatureBackboneConfig)
    size, _, slots = _reasons(image_size, model, fit, counted)
    (rows, columns), name = model.grid, model.backbone.features
    network = f"features of {name} (--features), trained {LABELS[name]}" if name in LABELS else f"features of {name}"
    return size, f"{network}: the hierarchy clusters {rows}×{columns} cells of them", slots


def _reasons(image_size: tuple[int, int], model: CocaNetConfig, fit: Fit | None, counted: bool) -> tuple[str, ...]:
    (height, width), (rows, columns) = image_size, model.image_size
    unit = FEATURE_UNIT if isinstance(model.backbone, FeatureBackboneConfig) else UNIT
    resized = (
        f"the nearest to {height}×{width} with sides that are multiples of {unit} from 32 to 256; images are resized"
        if image_size != model.image_size
        else FITTED[fit]
    )
    steps = " → ".join(
        f"{level.window[0]}×{level.window[1]} cells make {level.clusters} clusters" for level in model.levels
    )
    why = "as the images' colours need" if counted else "the most objects in an image, with the background"
    return (
        f"{rows}×{columns} pixels: {resized}",
        f"{plural(len(model.levels), 'level')}, as in the paper's models of this size: {steps}",
        f"{model.slots} slots (--slots): {why}",
    )
