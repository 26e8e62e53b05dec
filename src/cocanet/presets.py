"""One function for each published run: the hyper-parameters of the paper's three tables, and its variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from cocanet.config import (
    BackboneConfig,
    CocaNetConfig,
    ConvConfig,
    DataConfig,
    DecoderConfig,
    DynamicSlots,
    FeedbackConfig,
    LevelConfig,
    Preset,
    TrainConfig,
)
from cocanet.suggest import unknown


def tetrominoes() -> Preset:
    return Preset(
        name="tetrominoes",
        model=CocaNetConfig(
            image_size=(32, 32),
            dim=64,
            backbone=BackboneConfig(channels=32, kernel=3),
            levels=(
                LevelConfig(window=(4, 4), clusters=3, temperature=1.0, depth=2),
                LevelConfig(window=(8, 8), clusters=4, temperature=2.0, depth=2),
            ),
            decoder=_full_resolution_decoder(32),
        ),
        data=DataConfig("tetrominoes"),
    )


def multi_dsprites() -> Preset:
    return Preset(
        name="multi-dsprites",
        model=_model_64px(slots=6, temperatures=(1.0, 1.25)),
        data=DataConfig("multi-dsprites"),
    )


def shapestacks() -> Preset:
    return Preset(
        name="shapestacks",
        model=_model_64px(slots=7, temperatures=(0.75, 1.0)),
        data=DataConfig("shapestacks"),
    )


def objects_room() -> Preset:
    return Preset(
        name="objects-room",
        model=_model_64px(slots=7, temperatures=(1.0, 1.5)),
        data=DataConfig("objects-room", background_labels=4),
    )


def clevr6() -> Preset:
    return Preset(
        name="clevr6",
        model=CocaNetConfig(
            image_size=(128, 128),
            dim=96,
            backbone=BackboneConfig(channels=96, kernel=5),
            levels=(
                LevelConfig(window=(4, 4), clusters=2, temperature=1.0, depth=1),
                LevelConfig(window=(4, 4), clusters=4, temperature=0.5, depth=2),
                LevelConfig(window=(8, 8), clusters=7, temperature=1.0, depth=3),
            ),
            decoder=_transposed_decoder(channels=48),
        ),
        data=DataConfig("clevr", max_objects=6),
    )


def clevrtex() -> Preset:
    return Preset(
        name="clevrtex",
        model=CocaNetConfig(
            image_size=(128, 128),
            dim=96,
            backbone=BackboneConfig(channels=128, kernel=5),
            levels=(
                LevelConfig((4, 4), clusters=2, temperature=2.0, depth=1, attention="neighbourhood", kernel=3),
                LevelConfig((4, 4), clusters=4, temperature=1.0, depth=2, attention="neighbourhood", kernel=5),
                LevelConfig((8, 8), clusters=11, temperature=0.5, depth=5, attention="global"),
            ),
            decoder=_transposed_decoder(channels=64),
        ),
        data=DataConfig("clevrtex"),
    )


def with_random_anchors(preset: Preset) -> Preset:
    """COCA-Net-RAS: anchors drawn at random from the scope instead of by compactness."""
    return replace(preset, name=f"{preset.name}-ras", model=replace(_coca_net(preset), anchors="random"))


def with_dynamic_slots(preset: Preset, stop_below: float = 0.025, most: int = 11) -> Preset:
    """COCA-Net-Dyna: at evaluation as many slots as it takes to explain the scene."""
    dynamic = DynamicSlots(stop_below, most)
    return replace(preset, name=f"{preset.name}-dyna", model=replace(_coca_net(preset), dynamic=dynamic))


def with_dilated_candidates(preset: Preset, stride: int = 2) -> Preset:
    """Only every `stride`-th cell, in both directions, is a candidate anchor."""
    model = _coca_net(preset)
    levels = tuple(replace(level, candidate_stride=stride) for level in model.levels)
    return replace(preset, name=f"{preset.name}-dilated", model=replace(model, levels=levels))


def with_fourier_positions(preset: Preset, octaves: int = 4) -> Preset:
    """Fourier features in the decoder's position embedding: beyond the paper, and it learns much faster."""
    model = _coca_net(preset)
    decoder = replace(model.decoder, octaves=octaves)
    return replace(preset, name=f"{preset.name}-fourier", model=replace(model, decoder=decoder))


def with_quick_recipe(preset: Preset) -> Preset:
    """Beyond the paper: what learns the most in minutes on a CPU (docs/log.md has what it was chosen from).

    Pixels one by one instead of blurred, dark colours set apart from black; a decoder that draws each slot about its
    own centre and knows its shape; decoder masks that follow the encoder's; tighter clusters and feedback at
    evaluation. The encoder begins alone, by the colour code, where colour can part the objects at all.
    """
    model = _coca_net(preset)
    train = _own(QUICK_TRAINING, preset, QUICK_BY_COLOUR)
    *below, last = model.levels
    quick = replace(
        model,
        levels=(*below, replace(last, sharpen=2.0)),
        backbone=replace(model.backbone, kernel=1, gamma=0.5),
        decoder=replace(model.decoder, octaves=4, frame="slot"),
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
        decoder=replace(model.decoder, broadcast=broadcast, octaves=5, layers=layers, prior=1.0),
    )


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
QUICK_TRAINING = {
    # Shaded pieces that often share a colour: colour cannot part them, reconstruction can.
    "tetrominoes": QUICK,
    # Flat colours, in which brightness tells as much as hue.
    "multi-dsprites": replace(QUICK_BY_COLOUR, chroma=1.0, light=1.0, texture=0.0, colour_entropy=0.3),
    # Colours of the blocks are pure, those of the patterned room are not.
    "shapestacks": replace(QUICK_BY_COLOUR, chroma=4.0, light=0.06, texture=0.25, colour_entropy=0.5),
    "objects-room": replace(QUICK_BY_COLOUR, colour_entropy=0.3),
    "clevr6": replace(QUICK_BY_COLOUR, batch_size=4, colour_entropy=0.5),
    "clevrtex": replace(QUICK_BY_COLOUR, batch_size=4, colour_entropy=0.25),
}
"""By preset; all others learn by QUICK_BY_COLOUR."""
QUICK_FEEDBACK_GENERAL = FeedbackConfig(rounds=8, noise=0.003, regroup=True)
QUICK_FEEDBACK = {
    "tetrominoes": FeedbackConfig(rounds=8, neighbours=8.0, contrast=0.3, figure=2.0, noise=0.003, regroup=True),
    # Edges are not smoothed, so that neighbours have nothing to say: a slot's colour says it all.
    "multi-dsprites": FeedbackConfig(rounds=3, neighbours=0.0, figure=0.0, noise=0.001, light=1.0, regroup=True),
    "objects-room": FeedbackConfig(rounds=8, figure=1.5, regroup=True),
    "shapestacks": FeedbackConfig(rounds=8, light=0.25, regroup=True),
    "clevr6": FeedbackConfig(rounds=8, figure=1.5, regroup=True),
    # Patterned things on a patterned ground: what differs a little is another thing already.
    "clevrtex": FeedbackConfig(rounds=8, figure=2.0, noise=0.002, regroup=True),
}
"""By preset, chosen on validation scenes; all others have QUICK_FEEDBACK_GENERAL."""

T = TypeVar("T")


def _own(settings: Mapping[str, T], preset: Preset, general: T) -> T:
    """A preset's own among settings; a variant (objects-room-ras) has those of the run it varies."""
    return next((own for name, own in settings.items() if f"{preset.name}-".startswith(f"{name}-")), general)


def _coca_net(preset: Preset) -> CocaNetConfig:
    if not isinstance(preset.model, CocaNetConfig):
        raise ValueError(f"{preset.name} is a {preset.model.kind}; its variants are those of a coca-net only")
    return preset.model


def _model_64px(slots: int, temperatures: tuple[float, float]) -> CocaNetConfig:
    lower, upper = temperatures
    return CocaNetConfig(
        image_size=(64, 64),
        dim=64,
        backbone=BackboneConfig(channels=64, kernel=3),
        levels=(
            LevelConfig(window=(8, 8), clusters=4, temperature=lower, depth=3),
            LevelConfig(window=(8, 8), clusters=slots, temperature=upper, depth=3),
        ),
        decoder=_full_resolution_decoder(64),
    )


def _full_resolution_decoder(side: int) -> DecoderConfig:
    hidden = ConvConfig(channels=32, kernel=5)
    return DecoderConfig(broadcast=(side, side), layers=(hidden, hidden, hidden, ConvConfig(channels=4, kernel=3)))


def _transposed_decoder(channels: int) -> DecoderConfig:
    enlarging = ConvConfig(channels, kernel=5, stride=2)
    return DecoderConfig(
        broadcast=(8, 8),
        layers=(*[enlarging] * 4, ConvConfig(channels, kernel=5), ConvConfig(channels=4, kernel=3)),
    )


PRESETS: dict[str, Callable[[], Preset]] = {
    preset().name: preset for preset in (tetrominoes, multi_dsprites, shapestacks, objects_room, clevr6, clevrtex)
}

VARIANTS = {
    "ras": with_random_anchors,
    "dyna": with_dynamic_slots,
    "dilated": with_dilated_candidates,
    "cpu": with_quick_recipe,
}
"""What a name may end in."""


def find(name: str) -> Preset:
    """The preset called `name`: a run of the paper (clevr6), a variant (clevr6-ras) or a rival (inv-sa-clevr6)."""
    base, _, suffix = name.rpartition("-")
    if name in (published := _published()):
        return published[name]()
    if suffix in VARIANTS and is_known(base):
        return VARIANTS[suffix](find(base))
    variants = [f"{preset}-{suffix}" for preset in PRESETS for suffix in VARIANTS]
    raise ValueError(unknown("preset", name, [*published, *variants], names()))


def is_known(name: str) -> bool:
    base, _, suffix = name.rpartition("-")
    return name in _published() or (suffix in VARIANTS and is_known(base))


def names() -> str:
    """All presets in a line, for people."""
    from cocanet.presets_baselines import MODELS

    variants, rivals = (", ".join(words) for words in ([f"-{suffix}" for suffix in VARIANTS], MODELS))
    return f"{', '.join(PRESETS)}; variants end in {variants}; rivals begin with {rivals}"


def _published() -> dict[str, Callable[[], Preset]]:
    from cocanet.presets_baselines import BASELINES

    return PRESETS | BASELINES
