"""The quick recipe, `-cpu`: what learns the most in minutes on a CPU, beyond the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from cocanet.config import CocaNetConfig, ConvConfig, FeedbackConfig, Preset, TrainConfig
from cocanet.presets.photographs import PHOTOGRAPHS, quick_photographs
from cocanet.presets.variants import as_coca_net, mixing

T = TypeVar("T")

LEAN_SIDE = 64
"""Pixels of the longer side up to which the lean decoder draws every pixel."""
QUICK = TrainConfig(
    steps=20_000,
    batch_size=8,
    learning_rate=1.5e-3,
    weight_decay=0.0,
    warmup_steps=1_500,
    decay="cosine",
    clip_norm=1.0,
    crop_padding=0,
    mask_guidance=0.05,
)
QUICK_BY_COLOUR = replace(
    QUICK,
    learning_rate=1e-3,
    warmup_steps=600,
    encoder_first=0.25,
    decoder_apart=True,
    colour_code=0.2,
    colour_entropy=0.4,
    colour_noise=1e-3,
    chroma=1.5,
    light=0.25,
    texture=0.5,
    mask_guidance=0.2,
    guided_from=0.2,
)
"""What a picture is taken for unless more is known of it: objects of one hue each, shaded, on a patterned ground."""
SETTLED = replace(QUICK_BY_COLOUR, encoder_rests=True)
"""For scenes in which an encoder is known to find in a quarter of a run what there is to find by colour: from there on
it would only take the ground apart, and a step without its gradient takes two thirds of the time."""
QUICK_TRAINING = {
    # Shaded pieces that often share a colour: colour cannot part them, reconstruction can.
    "tetrominoes": replace(QUICK, feedback=False),
    # Flat colours, in which brightness tells as much as hue.
    "multi-dsprites": replace(SETTLED, chroma=1.0, light=1.0, texture=0.0, colour_entropy=0.3),
    # Colours of the blocks are pure, those of the patterned room are not.
    "shapestacks": replace(SETTLED, chroma=4.0, light=0.06, texture=0.25, colour_entropy=1.0),
    "objects-room": replace(SETTLED, colour_entropy=0.3),
    "clevr6": replace(QUICK_BY_COLOUR, batch_size=4, colour_entropy=0.5),
    # Of patterns an encoder soon learns too much: it takes them apart.
    "clevrtex": replace(SETTLED, batch_size=4, colour_entropy=0.25, encoder_first=0.15),
}
"""By preset; all others learn by QUICK_BY_COLOUR."""
QUICK_FEEDBACK_GENERAL = FeedbackConfig(rounds=8, noise=0.003, regroup=True)
QUICK_FEEDBACK = {
    "tetrominoes": FeedbackConfig(rounds=8, neighbours=8.0, contrast=0.3, figure=2.0, noise=0.003, regroup=True),
    # Edges are not smoothed, so that neighbours have nothing to say: a slot's colour says it all.
    "multi-dsprites": FeedbackConfig(rounds=3, neighbours=0.0, figure=0.0, noise=0.001, light=1.0, regroup=True),
    # Walls of one colour meet in a corner; small things of one colour with a wall stay things.
    "objects-room": FeedbackConfig(
        rounds=8, contrast=0.7, smallest=0.004, light=0.35, regroup=True, regroup_noise=0.002, rim=0.29, upright=30.0
    ),
    # Blocks of one colour stand on each other: only their outline parts them.
    "shapestacks": FeedbackConfig(rounds=8, light=0.25, regroup=True, regroup_noise=0.005, level=2.0),
    # What is of metal mirrors the room; only its outline says that it is one thing.
    "clevr6": FeedbackConfig(
        rounds=8, figure=1.5, regroup=True, regroup_noise=0.005, ground=True, whole=0.5, pieces=True
    ),
    # Patterned things on a patterned ground: what differs a little is another thing, and neighbours know little.
    "clevrtex": FeedbackConfig(
        rounds=8,
        neighbours=5.0,
        figure=2.0,
        smallest=0.001,
        noise=3e-4,
        light=0.15,
        regroup=True,
        regroup_noise=2e-4,
        ground=True,
        whole=0.5,
        pieces=True,
    ),
}
"""By preset, chosen on validation scenes; all others have QUICK_FEEDBACK_GENERAL. Published images have less contrast
than our scenes: of settings that score alike, those are taken that part more."""


def with_quick_recipe(preset: Preset) -> Preset:
    """Beyond the paper: what learns the most in minutes on a CPU (docs/log.md has what it was chosen from).

    Pixels one by one instead of blurred, dark colours set apart from black; a decoder that draws each slot about its
    own centre and knows its shape; decoder masks that follow the encoder's; tighter clusters and feedback at
    evaluation. The encoder begins alone, by the colour code, where colour can part the objects at all. Photographs
    have a recipe of their own.
    """
    if preset.name in PHOTOGRAPHS:
        return quick_photographs(preset)
    model = as_coca_net(preset)
    train = _own(QUICK_TRAINING, preset, QUICK_BY_COLOUR)
    *below, last = model.levels
    quick = replace(
        model,
        levels=(*below, replace(last, sharpen=2.0)),
        backbone=replace(model.backbone, kernel=1, gamma=0.5),
        decoder=replace(mixing(model), octaves=4, frame="slot"),
        feedback=_own(QUICK_FEEDBACK, preset, QUICK_FEEDBACK_GENERAL),
    )
    if train.colour_code:
        quick = _lean(quick)
    return replace(preset, name=f"{preset.name}-cpu", model=quick, train=train)


def _lean(model: CocaNetConfig) -> CocaNetConfig:
    """Half the time for a step: one block in the first level, cells that see their own window, and a decoder that
    draws pixels one by one, above 64 px at half the resolution."""
    first, *between, last = (
        replace(level, attention="window", kernel=None) if level.attention == "neighbourhood" else level
        for level in model.levels
    )
    height, width = model.image_size
    pixelwise, colours = ConvConfig(channels=64, kernel=1), ConvConfig(channels=4, kernel=1)
    if max(height, width) <= LEAN_SIDE:
        broadcast, layers = (height, width), (*[pixelwise] * 4, colours)
    else:
        broadcast, enlarging = (height // 2, width // 2), ConvConfig(channels=32, kernel=3, stride=2)
        layers = (*[pixelwise] * 3, enlarging, replace(colours, kernel=3))
    if len(model.levels) == 2:
        last = replace(last, temperature=2.5)
    return replace(
        model,
        levels=(replace(first, depth=1), *between, last),
        decoder=replace(mixing(model), broadcast=broadcast, octaves=5, layers=layers, prior=1.0),
    )


def _own(settings: Mapping[str, T], preset: Preset, general: T) -> T:
    """A preset's own among settings; a variant (objects-room-ras) has those of the run it varies."""
    return next((own for name, own in settings.items() if f"{preset.name}-".startswith(f"{name}-")), general)
