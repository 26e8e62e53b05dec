"""Birds and Flowers: photographs of one object each, with SLATE's token decoder (supplement, Sec. D.4).

The paper gives the data, the number of slots, the autoencoder, the transformer and the training, which are BO-QSA's. It
does not give the hierarchy: ours is that of CLEVRTex, its hardest set of this size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cocanet.config import (
    Adam,
    BoQsaConfig,
    CocaNetConfig,
    DataConfig,
    Preset,
    Schedule,
    Stage,
    TokenDecoderConfig,
    TrainConfig,
)
from cocanet.presets.paper import clevrtex

SLOTS = {"birds": 3, "flowers": 2}
TOKENS = TokenDecoderConfig(vocabulary=1024, dim=256)
TRAINING = TrainConfig(
    steps=250_000,
    batch_size=128,
    stages=(
        Stage(
            optimiser=Adam(learning_rate=1e-4, weight_decay=0.0, token_learning_rate=3e-4),
            schedule=Schedule(warmup=0.04),
        ),
    ),
    clip_norm=1.0,
    crop_padding=0,
)


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


def _coca_net(data_set: str) -> Preset:
    model = clevrtex().model
    assert isinstance(model, CocaNetConfig)
    *below, last = model.levels
    levels = (*below, replace(last, clusters=SLOTS[data_set]))
    return Preset(data_set, replace(model, levels=levels, decoder=TOKENS), DataConfig(data_set), TRAINING)


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
    return Preset(f"bo-qsa-{data_set}", model, DataConfig(data_set), TRAINING)
