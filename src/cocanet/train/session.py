"""A run while it runs: everything the loop works on, set up afresh or as a checkpoint left it."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from cocanet.config import RunConfig, TrainConfig
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.splits import Split, at_size, open_split
from cocanet.data.views import Images
from cocanet.models.build import build
from cocanet.models.model import ObjectModel
from cocanet.runs import journal
from cocanet.runs.folder import RunFolder, Settings, check_writable
from cocanet.train.checkpoint import Progress, load_checkpoint
from cocanet.train.display import Display
from cocanet.train.loss import Objective
from cocanet.train.optimiser import make_optimiser
from cocanet.train.tensorboard import Scalars

COMPILERS = ("g++", "clang++")
_PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed"}


@dataclass
class Speed:
    """Images a second, since the last line of the journal."""

    images: int = 0
    seconds: float = 0.0
    value: float = math.nan

    def measure(self, progress: Progress) -> None:
        if progress.seconds > self.seconds:
            self.value = (progress.images - self.images) / (progress.seconds - self.seconds)
        self.images, self.seconds = progress.images, progress.seconds


@dataclass
class Session:
    """A run while it runs: what it was asked, what it works on, and where it stands."""

    settings: Settings
    folder: RunFolder
    fabric: Fabric
    model: ObjectModel
    objective: Any  # what fabric makes of an Objective
    optimiser: Any  # what fabric makes of an optimiser
    loader: Loader
    validation: Images
    display: Display
    scalars: Scalars
    progress: Progress
    speed: Speed = field(default_factory=Speed)
    validating: float = 0.0
    """Seconds spent on validation since the run was started or resumed."""
    warned: set[str] = field(default_factory=set)
    """Diseases that were shown already."""

    @property
    def train(self) -> TrainConfig:
        return self.settings.preset.train

    @property
    def run(self) -> RunConfig:
        return self.settings.run

    def count_validation(self, seconds: float) -> None:
        """Validation counts as time of the run, but not against the speed of training."""
        self.validating += seconds
        self.speed.seconds += seconds

    @property
    def leads(self) -> bool:
        """Whether this process writes, shows and validates."""
        return bool(self.fabric.is_global_zero)


def make_fabric(settings: Settings) -> Fabric:
    run = settings.run
    many = run.devices * run.nodes > 1
    # While an encoder learns alone, nobody may wait for its decoder's gradients.
    strategy = DDPStrategy(find_unused_parameters=settings.preset.train.encoder_first > 0) if many else "auto"
    return Fabric(
        accelerator=run.accelerator,
        devices=run.devices,
        num_nodes=run.nodes,
        strategy=strategy,
        precision=_PRECISIONS[run.precision],  # type: ignore[arg-type]
    )


def set_up(fabric: Fabric, settings: Settings, folder: RunFolder, resume: bool, display: Display) -> Session:
    """Data, model, optimiser and folder of a run, as it was left if it is resumed."""
    preset, run = settings.preset, settings.run
    if not fabric.is_global_zero:
        display = Display()
    display.begin(settings)
    with fabric.rank_zero_first(local=True):
        images, validation = _open(settings, "train", display), _open(settings, "validation", display)
    config = LoaderConfig(
        preset.train.batch_size,
        seed=run.seed,
        pad=preset.train.crop_padding,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
    )
    loader = Loader(images, config, device=fabric.device)
    model = build(preset, seed=run.seed)
    if run.compile:
        compile_parts(model)
    objective = Objective(model, preset.train)
    objective, optimiser = fabric.setup(objective, make_optimiser(model, preset.train))
    progress = Progress()
    if resume and folder.last.exists():
        progress = load_checkpoint(folder.last, model, optimiser.optimizer)
        loader.load_state(progress.loader)
    if fabric.is_global_zero:
        _prepare_folder(folder, settings, model, progress, resume)
    fabric.barrier()
    return Session(
        settings=settings,
        folder=folder,
        fabric=fabric,
        model=model,
        objective=objective,
        optimiser=optimiser,
        loader=loader,
        validation=validation,
        display=display,
        scalars=Scalars(
            folder.path if run.tensorboard and fabric.is_global_zero else None, progress.step + 1 if resume else None
        ),
        progress=progress,
    )


def compile_parts(model: ObjectModel) -> None:
    """Compile a model's parts in place: an encoder that learns alone uses some of them only.

    What a compiled part computes differs from the plain one in the last bits.
    """
    if next(model.parameters()).device.type == "cpu" and not any(map(shutil.which, COMPILERS)):
        raise ValueError("--compile needs a C++ compiler, and there is neither g++ nor clang++ here")
    for part in model.children():
        part.compile()


def _open(settings: Settings, split: Split, display: Display) -> Images:
    data, preset = settings.data, settings.preset
    path = Path(data.path) if data.path else None
    images = open_split(preset.data, split, path, data.images, display, shuffle=data.shuffle)
    return at_size(images, preset.model.image_size, preset.data, path)


def _prepare_folder(
    folder: RunFolder, settings: Settings, model: ObjectModel, progress: Progress, resume: bool
) -> None:
    bytes_of_weights = sum(weight.nbytes for weight in model.state_dict().values())
    # Weights and two moments, each file once more while it is being replaced, and the best weights.
    check_writable(folder, 8 * bytes_of_weights + 2**24)
    folder.write_settings(settings)
    journal.rewind(folder.metrics, progress.step)
    folder.log(f"resumed at step {progress.step}" if resume else f"started {settings.preset.name}")
