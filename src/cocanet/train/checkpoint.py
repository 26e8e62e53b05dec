"""A training run on disk: enough to go on bit for bit as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cocanet.config import Preset
from cocanet.weights import OPTIMISER, load_into, read_weights, write_weights


@dataclass
class Progress:
    """Where a run stands, besides its tensors. Draws need no state: each step seeds its own."""

    step: int = 0
    images: int = 0
    seconds: float = 0.0
    best_mse: float | None = None
    losses: list[float] = field(default_factory=list)
    """Losses of the steps since the last line of the journal."""
    loader: dict[str, int] = field(default_factory=dict)
    finished: bool = False
    validation_images: int | None = None
    """How many images a look at the validation split takes."""

    def where(self) -> dict[str, int | float]:
        """As the journal says it."""
        return {"step": self.step, "images": self.images, "seconds": round(self.seconds, 3)}


def save_checkpoint(
    path: Path, preset: Preset, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress
) -> None:
    """Write weights, optimiser and progress to one file, whole or not at all."""
    tensors = model.state_dict() | _optimiser_tensors(optimiser)
    spoilt = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
    if spoilt:
        raise ValueError(
            f"step {progress.step} left {spoilt[0]} without finite values, so it is not saved; the checkpoint "
            "before it is intact: resume from it with a lower --learning-rate or with --clip-norm 1"
        )
    try:
        write_weights(path, preset, tensors, asdict(progress))
    except OSError as error:
        raise OSError(f"cannot save step {progress.step} to {path}: {error.strerror}; what it held is intact") from None


def load_checkpoint(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> Progress:
    """Put a run back to where `save_checkpoint` left it."""
    found = read_weights(path, with_optimiser=True)
    load_into(model, found.weights, path)
    _load_optimiser(optimiser, found.tensors, path)
    return _standing(found.notes, path)


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimiser.state_dict()["state"]
    return {f"{OPTIMISER}{index}.{name}": value for index, entry in state.items() for name, value in entry.items()}


def _load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(OPTIMISER):
            index, part = name.removeprefix(OPTIMISER).split(".", 1)
            state.setdefault(int(index), {})[part] = tensor
    if not state:
        raise ValueError(f"{path} has weights but no optimiser state, so no run can be resumed from it")
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _standing(notes: Mapping[str, Any], path: Path) -> Progress:
    names = {entry.name for entry in fields(Progress)}
    if not {"step", "images", "seconds", "loader"} <= set(notes) <= names:
        raise ValueError(f"{path} does not say where its run stands, so no run can be resumed from it")
    return Progress(**notes)
