"""Photographs on frozen pretrained features: COCA-Net, Slot Attention and BO-QSA with one decoder and one recipe.

The hierarchy clusters the joined maps of a frozen network instead of pixels, and the loss is the squared error of these
features, as in DINOSAUR (Seitzer et al., 2023). Nothing here knows where an object is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cocanet.config import (
    BoQsaConfig,
    CocaNetConfig,
    DataConfig,
    FeatureBackboneConfig,
    FeatureDecoderConfig,
    LevelConfig,
    ModelConfig,
    Muon,
    Preset,
    Schedule,
    SlotAttentionConfig,
    Stage,
    TrainConfig,
)
from cocanet.config.features import EMBEDDED

IMAGE_SIZE, DIM = (128, 128), 64
BACKBONE = FeatureBackboneConfig(EMBEDDED, crop=0.5)
DECODER = FeatureDecoderConfig(hidden=128, cells=0.25)
TRAINING = TrainConfig(
    steps=600,
    batch_size=16,
    stages=(
        Stage(
            optimiser=Muon(learning_rate=0.02, adam_learning_rate=3e-3),
            schedule=Schedule(warmup=0.03, decay="cosine"),
        ),
    ),
    clip_norm=1.0,
    crop_padding=0,
)


def coca_net(slots: int, image_size: tuple[int, int] = IMAGE_SIZE) -> CocaNetConfig:
    """COCA-Net on a grid of 32×32 cells."""
    return CocaNetConfig(
        image_size,
        DIM,
        BACKBONE,
        levels=(
            LevelConfig(window=(2, 2), clusters=2, temperature=4.0, depth=0),
            LevelConfig(window=(16, 16), clusters=slots, temperature=2.0, depth=1),
        ),
        decoder=DECODER,
    )


def slot_attention(slots: int) -> SlotAttentionConfig:
    return SlotAttentionConfig(IMAGE_SIZE, slots, channels=DIM, dim=DIM, backbone=BACKBONE, decoder=DECODER)


def bo_qsa(slots: int) -> BoQsaConfig:
    return BoQsaConfig(IMAGE_SIZE, slots, dim=DIM, backbone=BACKBONE, decoder=DECODER)


MODELS: dict[str, Callable[[int], ModelConfig]] = {
    "coca-net": coca_net,
    "slot-attention": slot_attention,
    "bo-qsa": bo_qsa,
}
SLOTS = {"birds": 3, "flowers": 2}
"""The paper's."""
DATA_SETS = {f"{data_set}-features": data_set for data_set in SLOTS}


def preset(model: str, name: str) -> Preset:
    """A model on the features of a set of photographs, `birds-features` or `flowers-features`."""
    data_set = DATA_SETS[name]
    title = name if model == "coca-net" else f"{model}-{name}"
    return Preset(title, MODELS[model](SLOTS[data_set]), DataConfig(data_set), TRAINING)


FEATURES: dict[str, Callable[[], Preset]] = {
    (name if model == "coca-net" else f"{model}-{name}"): partial(preset, model, name)
    for name in DATA_SETS
    for model in MODELS
}
