"""The paper's baselines on its six data sets: one function a model.

Architecture and training are those of each model's own authors, as far as they published them. For all alike: images,
their size and the number of slots are those of COCA-Net's preset, there is no weight decay, and images are not shifted
(the paper augments for COCA-Net's windows only).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cocanet.config import (
    Adam,
    BoQsaConfig,
    DataConfig,
    GenesisV2Config,
    InvSaConfig,
    Preset,
    Schedule,
    SlotAttentionConfig,
    Stage,
    TrainConfig,
)
from cocanet.presets.paper import PRESETS

DATA_SETS = tuple(PRESETS)
SLOT_ATTENTION = Stage(optimiser=Adam(learning_rate=4e-4, weight_decay=0.0))
TRAINING = TrainConfig(stages=(SLOT_ATTENTION,), crop_padding=0)
"""Slot Attention's; the other presets replace what differs."""


def slot_attention(data_set: str) -> Preset:
    """Slot Attention: 500 000 steps of 64 images at 4e-4, warm-up 10 000, half-life 100 000.

    Its authors give the network for CLEVR: features at full resolution, a decoder from 8×8. The smaller images get
    the network with 32 channels and a decoder at full resolution.
    """
    size, slots, data = _task(data_set)
    if size == (128, 128):
        model = SlotAttentionConfig(size, slots)
    else:
        model = SlotAttentionConfig(size, slots, channels=32, broadcast=size, decoder_strides=(1, 1, 1))
    return Preset(f"slot-attention-{data_set}", model, data, TRAINING)


def inv_sa(data_set: str) -> Preset:
    """INV-SA: 500 000 steps of 64 images at 4e-4, warm-up 10 000, cosine to 0, gradients clipped to 0.05.

    On Tetrominoes its authors leave scale out, decode each pixel by itself and take 20 000 steps, warm-up 5 000.
    """
    size, slots, data = _task(data_set)
    schedule = Schedule(decay="cosine")
    train = replace(TRAINING, stages=(replace(SLOT_ATTENTION, schedule=schedule),), clip_norm=0.05)
    if size == (32, 32):
        model = InvSaConfig(
            size,
            slots,
            encoder_strides=(1, 1, 1, 1),
            broadcast=size,
            decoder_strides=(1,) * 6,
            decoder_channels=256,
            decoder_kernel=1,
            scale_unit=None,
        )
        stage = replace(SLOT_ATTENTION, schedule=replace(schedule, warmup=0.25))
        train = replace(train, steps=20_000, stages=(stage,))
    elif size == (64, 64):
        model = InvSaConfig(size, slots, encoder_strides=(2, 2, 1, 1), decoder_strides=(2, 2, 1, 1, 1))
    else:
        model = InvSaConfig(size, slots)
    return Preset(f"inv-sa-{data_set}", model, data, train)


def bo_qsa(data_set: str) -> Preset:
    """BO-QSA: 250 000 steps of 128 images at 4e-4, warm-up 5 000, half-life 50 000, gradients clipped to 1.

    Its noise is gone after 12 % of the run: 30 000 steps. Its authors have no Tetrominoes; there it gets COCA's
    network for it: 32 channels and a decoder at full resolution.
    """
    size, slots, data = _task(data_set)
    if size == (32, 32):
        model = BoQsaConfig(
            size, slots, channels=32, encoder_strides=(1, 1, 1, 1), broadcast=size, decoder_strides=(1, 1, 1)
        )
    elif size == (64, 64):
        model = BoQsaConfig(size, slots, encoder_strides=(1, 1, 1, 1), decoder_strides=(2, 2, 2, 1, 1))
    else:
        model = BoQsaConfig(size, slots)
    train = replace(TRAINING, steps=250_000, batch_size=128, clip_norm=1.0)
    return Preset(f"bo-qsa-{data_set}", model, data, train)


def genesis_v2(data_set: str) -> Preset:
    """GENESIS-v2: 500 000 steps of 32 images at a constant 1e-4."""
    size, slots, data = _task(data_set)
    optimiser = Adam(learning_rate=1e-4, weight_decay=0.0)
    stage = Stage(optimiser=optimiser, schedule=Schedule(warmup=0.0, decay="constant"))
    train = replace(TRAINING, stages=(stage,), batch_size=32)
    return Preset(f"genesis-v2-{data_set}", GenesisV2Config(size, slots), data, train)


MODELS: dict[str, Callable[[str], Preset]] = {
    "slot-attention": slot_attention,
    "inv-sa": inv_sa,
    "bo-qsa": bo_qsa,
    "genesis-v2": genesis_v2,
}

BASELINES: dict[str, Callable[[], Preset]] = {
    f"{name}-{data_set}": partial(model, data_set) for name, model in MODELS.items() for data_set in DATA_SETS
}


def _task(data_set: str) -> tuple[tuple[int, int], int, DataConfig]:
    """Image size, slots and data of COCA-Net's preset."""
    if data_set not in PRESETS:
        raise ValueError(f"unknown data set {data_set!r}: there are {', '.join(DATA_SETS)}")
    preset = PRESETS[data_set]()
    return preset.model.image_size, preset.model.slots, preset.data
