"""A stage while it runs: the model at its image size, its losses, optimiser and images."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightning_fabric import Fabric
from torch import Tensor

from cocanet.config import Stage
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.views import Images, Resized
from cocanet.io.run_folder import Settings
from cocanet.models.build import build
from cocanet.models.model import ObjectModel
from cocanet.train.losses import Objective
from cocanet.train.optimiser import freeze, make_optimiser

COMPILERS = ("g++", "clang++")


@dataclass
class ActiveStage:
    """The stage that a run is in."""

    config: Stage
    model: ObjectModel
    """The model at the stage's image size."""
    objective: Any  # what fabric makes of an Objective
    optimiser: Any  # what fabric makes of an optimiser
    loader: Loader


def start_stage(
    fabric: Fabric, settings: Settings, number: int, images: Images, weights: Mapping[str, Tensor] | None
) -> ActiveStage:
    """A stage with fresh optimiser state, and the weights of the stage before it; fresh weights without any."""
    preset, run = settings.preset, settings.run
    stage = preset.train.stages[number]
    model = build(preset.model_at(stage), seed=run.seed)
    if weights is not None:
        model.load_state_dict(weights)
    freeze(model, stage.trains)
    if run.compile:
        compile_parts(model)
    objective, optimiser = fabric.setup(Objective(model, stage), make_optimiser(model, stage))
    config = LoaderConfig(
        preset.train.batch_size,
        seed=run.seed,
        pad=preset.train.crop_padding,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
    )
    size = stage.image_size
    seen = images if size is None or size == preset.model.image_size else Resized(images, size)
    return ActiveStage(stage, model, objective, optimiser, Loader(seen, config, device=fabric.device))


def compile_parts(model: ObjectModel) -> None:
    """Compile a model's parts in place. Their results differ from the plain ones in the last bits."""
    if next(model.parameters()).device.type == "cpu" and not any(map(shutil.which, COMPILERS)):
        raise ValueError("--compile needs a C++ compiler, and there is neither g++ nor clang++ here")
    for part in model.children():
        part.compile()
