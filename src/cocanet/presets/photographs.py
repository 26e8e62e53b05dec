"""Birds and Flowers: photographs of one thing each, with a decoder by tokens (supplement, Sec. D.4).

Published are the data, the number of slots, the autoencoder, the transformer and the course, which are BO-QSA's. The
paper does not say which hierarchy it put before them: ours is that of its hardest set of this size, CLEVRTex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cocanet.config import (
    BackboneConfig,
    BoQsaConfig,
    CocaNetConfig,
    DataConfig,
    FeedbackConfig,
    LevelConfig,
    Preset,
    TokenDecoderConfig,
    TrainConfig,
)
from cocanet.presets.paper import clevrtex

SLOTS = {"birds": 3, "flowers": 2}
TOKENS = TokenDecoderConfig(vocabulary=1024, dim=256)
COURSE = TrainConfig(
    steps=250_000,
    batch_size=128,
    learning_rate=1e-4,
    token_learning_rate=3e-4,
    weight_decay=0.0,
    warmup_steps=10_000,
    half_life=50_000,
    clip_norm=1.0,
    crop_padding=0,
)

QUICK_SIDE = 64
QUICK_STRIDES = (2, 2, 1, 1)
QUICK_TOKENS = TokenDecoderConfig(vocabulary=128, dim=128, blocks=2, channels=32, dropout=0.0, cooling_share=0.3)
QUICK_FEEDBACK = FeedbackConfig(rounds=6, neighbours=3.0, contrast=0.3, figure=0.0, slots=0.0, light=1.0, palette=1.0)
"""What a thing's colours are, against those around it."""
QUICK_COURSE = TrainConfig(
    steps=6_000,
    batch_size=16,
    learning_rate=1e-3,
    token_learning_rate=3e-3,
    weight_decay=0.0,
    warmup_steps=60,
    decay="cosine",
    clip_norm=1.0,
    crop_padding=0,
    reconstruction=1e-3,
    figure=1.0,
    encoder_first=0.2,
    decoder_apart=True,
)
QUICK_FIGURE = {
    # Cropped with room around the bird; its own colours are those of its surroundings often enough.
    "birds": replace(QUICK_COURSE, figure_spread=0.4, figure_trust=0.8),
    # Larger, and told well by its colours alone.
    "flowers": replace(QUICK_COURSE, figure_spread=0.5, figure_trust=0.4),
}
"""Chosen on validation photographs."""


def birds() -> Preset:
    """CUB-200-2011, cropped around each bird."""
    return _coca_net("birds")


def flowers() -> Preset:
    """Oxford Flowers-102."""
    return _coca_net("flowers")


def bo_qsa_birds() -> Preset:
    return _bo_qsa("birds", noisy_share=0.12)


def bo_qsa_flowers() -> Preset:
    """Without noise on the queries, as its authors have it here."""
    return _bo_qsa("flowers", noisy_share=0.0)


PHOTOGRAPHS: dict[str, Callable[[], Preset]] = {
    "birds": birds,
    "flowers": flowers,
    "bo-qsa-birds": bo_qsa_birds,
    "bo-qsa-flowers": bo_qsa_flowers,
}


def quick_photographs(preset: Preset) -> Preset:
    """Beyond the paper: what learns on a CPU. Photographs of 64×64 pixels, a hierarchy on cells of 4×4 of them, few
    words and a small transformer. COCA-Net's encoder learns what feedback makes of a thing in the middle."""
    model, name = preset.model, f"{preset.name}-cpu"
    data, size = replace(preset.data, resize=True), (QUICK_SIDE, QUICK_SIDE)
    if isinstance(model, BoQsaConfig):
        small = replace(model, image_size=size, encoder_strides=QUICK_STRIDES, dim=64, hidden=128, tokens=QUICK_TOKENS)
        course = replace(QUICK_COURSE, figure=0.0, encoder_first=0.0, decoder_apart=False, learning_rate=4e-4)
        return Preset(name, small, data, course)
    return Preset(name, quick_model(size, model.slots), data, QUICK_FIGURE[preset.data.name])


def quick_model(size: tuple[int, int], slots: int) -> CocaNetConfig:
    """For photographs whose sides are multiples of 16 pixels."""
    rest = (size[0] // 16, size[1] // 16)
    return CocaNetConfig(
        image_size=size,
        dim=64,
        backbone=BackboneConfig(channels=64, kernel=5, strides=QUICK_STRIDES),
        levels=(
            LevelConfig(window=(4, 4), clusters=3, temperature=1.0, depth=1),
            LevelConfig(window=rest, clusters=slots, temperature=2.0, depth=3),
        ),
        decoder=QUICK_TOKENS,
        feedback=QUICK_FEEDBACK,
    )


def _coca_net(data_set: str) -> Preset:
    model = clevrtex().model
    assert isinstance(model, CocaNetConfig)
    *below, last = model.levels
    levels = (*below, replace(last, clusters=SLOTS[data_set]))
    return Preset(data_set, replace(model, levels=levels, decoder=TOKENS), DataConfig(data_set), COURSE)


def _bo_qsa(data_set: str, noisy_share: float) -> Preset:
    model = BoQsaConfig(
        (128, 128),
        SLOTS[data_set],
        encoder_strides=(1, 1, 1, 1),
        dim=256,
        hidden=256,
        noisy_share=noisy_share,
        tokens=TOKENS,
    )
    return Preset(f"bo-qsa-{data_set}", model, DataConfig(data_set), COURSE)
