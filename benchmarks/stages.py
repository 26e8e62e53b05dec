"""A step of the fast recipe at every image size: the loss on a sample of the pixels against that on all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from benchmarks.measure import duration
from cocanet import presets
from cocanet.config import Preset, Stage
from cocanet.models.build import build
from cocanet.train.losses import Objective
from cocanet.train.optimiser import make_optimiser


class Rates(NamedTuple):
    """Images per second at one image size."""

    side: int
    all_pixels: float
    sampled: float


def stage_rates(name: str, batch: int, repeats: int) -> list[Rates]:
    """Both losses take turns, so that noise of the machine falls on both."""
    preset, rates = presets.find(name), []
    for stage in preset.train.stages:
        side = (stage.image_size or preset.model.image_size)[0]
        whole = replace(stage, losses=tuple(replace(loss, pixels=1.0) for loss in stage.losses))
        steps = [_step(preset, each, batch, side) for each in (whole, stage)]
        seconds = [[duration(step) for step in steps] for _ in range(repeats + 1)][1:]
        fastest = [min(each) for each in zip(*seconds, strict=True)]
        rates.append(Rates(side, *(batch / each for each in fastest)))
    return rates


def _step(preset: Preset, stage: Stage, batch: int, side: int) -> Callable[[], None]:
    model = build(preset.model_at(stage), seed=0).train()
    objective, optimiser = Objective(model, stage), make_optimiser(model, stage)
    images = torch.rand(batch, 3, side, side)

    def step() -> None:
        objective(images).backward()
        optimiser.step()
        optimiser.zero_grad()

    return step
