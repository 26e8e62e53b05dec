"""The encoder alone, images to slots and their masks: COCA-Net beside its baselines at the same image size."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.measure import duration
from cocanet import presets
from cocanet.models.baselines.genesis_v2 import GenesisV2
from cocanet.models.baselines.parts import AttentionModel
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.models.model import ObjectModel
from cocanet.presets.baselines import MODELS

SUBJECTS = (("tetrominoes", 16), ("multi-dsprites", 16), ("clevr6", 4))
"""Images of 32, 64 and 128 pixels, and how many at a time."""


def compared(data_set: str) -> tuple[str, ...]:
    """COCA-Net of the paper and of the fast recipe, then its baselines."""
    return (data_set, f"{data_set}-fast", *(f"{model}-{data_set}" for model in MODELS))


def images_per_second(data_set: str, batch: int, repeats: int) -> dict[str, float]:
    """Medians of rounds in which every model takes its turn, so that a slow moment of the machine slows all."""
    models = {name: build(presets.find(name), seed=0).eval() for name in compared(data_set)}
    size = presets.find(data_set).model.image_size
    images = torch.rand(batch, 3, *size, generator=torch.Generator().manual_seed(0))
    calls = {name: encoding(model, images) for name, model in models.items()}
    with torch.inference_mode():
        for call in calls.values():
            call()
        times = [{name: duration(call) for name, call in calls.items()} for _ in range(repeats)]
    return {name: batch / statistics.median(time[name] for time in times) for name in calls}


def encoding(model: ObjectModel, images: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """Slots and masks of a model, without its decoder."""

    def coca_net() -> tuple[Tensor, Tensor]:
        assert isinstance(model, CocaNet)
        found = model.encode(images)
        return found.slots, found.masks

    def attention() -> tuple[Tensor, Tensor]:
        assert isinstance(model, AttentionModel)
        slots, maps = model.attend(images)
        return slots, model.encoder_masks(maps)

    def genesis() -> tuple[Tensor, Tensor]:
        assert isinstance(model, GenesisV2)
        features = model.unet(images)
        masks = model.colouring(features, model.scores.expand(len(images), -1)).exp()
        slots = model.posterior(features, masks).sample(model.noise.expand(len(images), -1, -1))
        return slots, masks.unflatten(2, model.config.image_size)

    return coca_net if isinstance(model, CocaNet) else genesis if isinstance(model, GenesisV2) else attention
