"""A run while it runs, set up afresh or from a checkpoint."""

from __future__ import annotations

import hashlib
import math
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy

from cocanet.config import FeatureBackboneConfig, ModelConfig, RunConfig, TrainConfig
from cocanet.data.feature_cache import with_features
from cocanet.data.splits import SEEDS, Split, at_size, open_split
from cocanet.data.store_format import META
from cocanet.data.views import Images, store_of
from cocanet.io import journal
from cocanet.io.run_folder import RunFolder, Settings, check_writable
from cocanet.models.build import build
from cocanet.models.model import ObjectModel
from cocanet.models.pretrained import PretrainedFeatures
from cocanet.progress import QUIET, Progress
from cocanet.train.checkpoint import TrainState, last_checkpoint
from cocanet.train.optimiser import check_parts
from cocanet.train.stages import ActiveStage, start_stage
from cocanet.train.tensorboard import Scalars

_PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed"}


@dataclass
class Speed:
    """Images a second, since the last line of the journal."""

    images: int = 0
    seconds: float = 0.0
    value: float = math.nan

    def measure(self, state: TrainState) -> None:
        if state.seconds > self.seconds:
            self.value = (state.images - self.images) / (state.seconds - self.seconds)
        self.images, self.seconds = state.images, state.seconds


@dataclass
class Session:
    """A run while it runs: its settings, what it works on, and where it stands."""

    settings: Settings
    folder: RunFolder
    fabric: Fabric
    images: Images
    stage: ActiveStage
    validation: Images
    progress: Progress
    scalars: Scalars
    state: TrainState
    speed: Speed = field(default_factory=Speed)
    validating: float = 0.0
    """Seconds spent on validation since the run was started or resumed."""
    warned: set[str] = field(default_factory=set)
    """Failure modes that were reported already."""
    _full_size: ObjectModel | None = None

    @property
    def train(self) -> TrainConfig:
        return self.settings.preset.train

    @property
    def run(self) -> RunConfig:
        return self.settings.run

    def enter_stage(self, number: int) -> None:
        """Go on to a stage with the weights of the one before it."""
        weights = self.stage.model.state_dict()
        self.stage = start_stage(self.fabric, self.settings, number, self.images, weights)
        self.stage.loader.load_state(self.state.loader)
        self.state.stage = number

    @property
    def full_size_model(self) -> ObjectModel:
        """The model with the weights of now, at the image size that it is trained for."""
        if self.stage.config.image_size in (None, self.settings.preset.model.image_size):
            return self.stage.model
        if self._full_size is None:
            self._full_size = build(self.settings.preset, seed=0).to(self.fabric.device)
        self._full_size.load_state_dict(self.stage.model.state_dict())
        return self._full_size

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
    strategy = DDPStrategy() if run.devices * run.nodes > 1 else "auto"
    return Fabric(
        accelerator=run.accelerator,
        devices=run.devices,
        num_nodes=run.nodes,
        strategy=strategy,
        precision=_PRECISIONS[run.precision],  # type: ignore[arg-type]
    )


def set_up(
    fabric: Fabric, settings: Settings, folder: RunFolder, resume: bool, progress: Progress, holding: ExitStack
) -> Session:
    """Data, model, optimiser and folder of a run, as it was left if it is resumed; `holding` keeps others out."""
    if not fabric.is_global_zero:
        progress = QUIET
    with fabric.rank_zero_first(local=True):
        images, validation = _open(settings, "train", progress), _open(settings, "validation", progress)
    state, data = TrainState(), _data_digest(settings)
    checkpoint = last_checkpoint(folder, folder.read_settings().run.checkpoint_every) if resume else None
    if checkpoint is not None:
        state = checkpoint.state
        _check_data(folder, settings, state.data, data)
    state.data = data
    stage = start_stage(fabric, settings, state.stage, images, None)
    for each in settings.preset.train.stages:
        check_parts(stage.model, each.trains)
    if checkpoint is not None:
        checkpoint.restore(stage.model, stage.optimiser.optimizer)
        stage.loader.load_state(state.loader)
    if fabric.is_global_zero:
        if resume and checkpoint is None:
            progress.say(f"{folder.path} ended before its first checkpoint: it begins again at step 0")
        _prepare_folder(folder, settings, stage.model, state, resume, holding)
    fabric.barrier()
    return Session(
        settings=settings,
        folder=folder,
        fabric=fabric,
        images=images,
        stage=stage,
        validation=validation,
        progress=progress,
        scalars=Scalars(
            folder.path if settings.run.tensorboard and fabric.is_global_zero else None,
            state.step + 1 if resume else None,
        ),
        state=state,
    )


def _open(settings: Settings, split: Split, progress: Progress) -> Images:
    data, preset = settings.data, settings.preset
    path = Path(data.path) if data.path else None
    images = open_split(preset.data, split, path, data.images, progress)
    images = at_size(images, preset.model.image_size, preset.data, path)
    return with_kept_features(images, preset.model, progress)


def with_kept_features(images: Images, model: ModelConfig, progress: Progress) -> Images:
    """The images with the features of the model's frozen network, if it has one."""
    config = getattr(model, "backbone", None)
    if not isinstance(config, FeatureBackboneConfig):
        return images
    return with_features(images, store_of(images), PretrainedFeatures(config), progress)


def _data_digest(settings: Settings) -> str | None:
    """Hash of the stores of a run, by what they say of their own files; None for scenes, which a seed decides."""
    if settings.data.path is None:
        return None
    root = Path(settings.data.path)
    metas = [folder / META for folder in (root, *(root / split for split in SEEDS))]
    return hashlib.sha256(b"".join(meta.read_bytes() for meta in metas if meta.exists())).hexdigest()


def _check_data(folder: RunFolder, settings: Settings, before: str | None, now: str | None) -> None:
    if before != now:
        raise ValueError(
            f"{folder.path} cannot be resumed with other data: {settings.data.path} has sha256 {str(now)[:12]}…, the "
            f"run began with {str(before)[:12]}…; restore it, or add --restart to begin again at step 0"
        )


def _prepare_folder(
    folder: RunFolder, settings: Settings, model: ObjectModel, state: TrainState, resume: bool, holding: ExitStack
) -> None:
    bytes_of_weights = sum(weight.nbytes for weight in model.state_dict().values())
    # Weights and two moments, now, before and while they are written, and the best weights likewise.
    check_writable(folder, 12 * bytes_of_weights + 2**24)
    if not resume:
        holding.enter_context(folder.held())
    folder.write_settings(settings)
    journal.rewind(folder.metrics, state.step)
    folder.log(f"resumed at step {state.step}" if resume else f"started {settings.preset.name}")
