"""A training run on disk: enough to go on bit for bit as if it had never stopped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cocanet.config import Preset
from cocanet.config.serialization import from_dict
from cocanet.data.loader import Position
from cocanet.files import temporary_name
from cocanet.io import journal
from cocanet.io.checksum import CHECKSUM, check_file
from cocanet.io.run_folder import RunFolder
from cocanet.io.weights import OPTIMISER, load_into, read_weights, write_weights


@dataclass
class TrainState:
    """Where a run stands, besides its tensors. Random draws need no state: each step seeds its own."""

    step: int = 0
    stage: int = 0
    images: int = 0
    seconds: float = 0.0
    best_mse: float | None = None
    losses: list[float] = field(default_factory=list)
    """Losses of the steps since the last line of the journal."""
    loader: dict[str, int] = field(default_factory=dict)
    finished: bool = False
    validation_images: int | None = None
    """Images that each validation scores."""
    data: str | None = None
    """Hash of the stores that the run learns from."""

    def where(self) -> dict[str, int | float]:
        """As in the journal."""
        return {"step": self.step, "images": self.images, "seconds": round(self.seconds, 3)}


def save_checkpoint(
    path: Path, preset: Preset, model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainState
) -> None:
    """Write weights, optimiser and progress to one file, whole or not at all."""
    tensors = model.state_dict() | _optimiser_tensors(optimiser)
    spoilt = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
    if spoilt:
        raise ValueError(
            f"step {state.step} left {spoilt[0]} without finite values, so it is not saved; the checkpoint "
            "before it is intact: resume from it with a lower learning rate or with --clip-norm 1"
        )
    try:
        _keep_previous(path)
        write_weights(path, preset, tensors, asdict(state))
    except OSError as error:
        raise OSError(f"cannot save step {state.step} to {path}: {error.strerror}; what it held is intact") from None


@dataclass(frozen=True)
class Checkpoint:
    """What `save_checkpoint` wrote."""

    path: Path
    state: TrainState
    weights: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]

    def restore(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Put the weights and the optimiser back."""
        load_into(model, self.weights, self.path)
        _load_optimiser(optimiser, self.tensors, self.path)


def read_checkpoint(path: Path) -> Checkpoint:
    if path.is_file() and CHECKSUM not in check_file(path):
        raise ValueError(f"{path} has no checksum, so no run can be resumed from it")
    found = read_weights(path, with_optimiser=True)
    return Checkpoint(path, _state(found.notes, path), found.weights, found.tensors)


def last_checkpoint(folder: RunFolder, checkpoint_every: int) -> Checkpoint | None:
    """Where a run goes on; None if it ended before its first checkpoint.

    ValueError if the checkpoint is missing or damaged, with the ways on: nothing is learned again unless it is wished.
    """
    try:
        if folder.last.exists():
            return read_checkpoint(folder.last)
        steps = max((line["step"] for line in journal.read(folder.metrics)), default=0)
        if steps <= checkpoint_every and not folder.previous.exists():
            return None
        reason = f"{folder.last} is missing"
    except ValueError as error:
        reason = str(error)
    again = "add --restart to begin again at step 0"
    try:
        step = read_checkpoint(folder.previous).state.step
    except ValueError:
        raise ValueError(f"{reason}; {again}") from None
    raise ValueError(f"{reason}; `cp {folder.previous} {folder.last}` goes back to step {step}, or {again}")


def _keep_previous(path: Path) -> None:
    """Keep the checkpoint as the previous one, until the one after the next is whole."""
    if not path.exists():
        return
    kept = path.with_name(RunFolder(path.parent).previous.name)
    temporary = temporary_name(kept)
    try:
        try:
            os.link(path, temporary)
        except OSError:  # not every file system has hard links
            shutil.copyfile(path, temporary)
        os.replace(temporary, kept)
    finally:
        temporary.unlink(missing_ok=True)


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimiser.state_dict()["state"]
    return {f"{OPTIMISER}{index}.{name}": value for index, entry in state.items() for name, value in entry.items()}


def _load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(OPTIMISER):
            index, _, part = name.removeprefix(OPTIMISER).partition(".")
            if not index.isdecimal() or not bool(tensor.isfinite().all()):
                raise ValueError(f"{path} has {name}, which is no finite state of an optimiser")
            state.setdefault(int(index), {})[part] = tensor
    if not state:
        raise ValueError(f"{path} has weights but no optimiser state, so no run can be resumed from it")
    groups = optimiser.state_dict()["param_groups"]
    known = {number for group in groups for number in group["params"]}
    if not set(state) <= known:
        raise ValueError(f"{path} has optimiser state of other weights, so no run can be resumed from it")
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _state(notes: Mapping[str, Any], path: Path) -> TrainState:
    names = {entry.name for entry in fields(TrainState)}
    if not {"step", "stage", "images", "seconds", "loader"} <= set(notes) <= names:
        raise ValueError(f"{path} does not say where its run stands, so no run can be resumed from it")
    state = from_dict(TrainState, notes, str(path))
    if state.loader and set(state.loader) != {"seed", "count", *Position._fields}:
        raise ValueError(f"{path} does not say where its images stand, so no run can be resumed from it")
    return state
