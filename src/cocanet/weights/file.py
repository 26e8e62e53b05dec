"""Weights on disk: safetensors files that carry the configuration they belong to. No pickle is written or read.

A checkpoint is such a file with the optimiser's tensors beside the weights, under names that begin with `optimiser:`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from cocanet.config import Preset
from cocanet.config.plain import from_plain, to_plain
from cocanet.files import sync_folder, write_atomically

OPTIMISER = "optimiser:"
_KEY = "cocanet"
_VERSION = 1


@dataclass(frozen=True)
class WeightsFile:
    """What a file holds: tensors by name, the preset they belong to, and whatever else was noted."""

    preset: Preset
    tensors: dict[str, Tensor]
    notes: Mapping[str, Any]

    @property
    def weights(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self.tensors.items() if not name.startswith(OPTIMISER)}


def write_weights(path: Path, preset: Preset, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors, preset and notes to one file, whole or not at all."""
    head = json.dumps({"version": _VERSION, "preset": to_plain(preset), "notes": dict(notes)})
    flat = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    write_atomically(path, [safetensors.torch.save(flat, metadata={_KEY: head})])
    sync_folder(path.parent)


def read_weights(path: Path, *, with_optimiser: bool = False) -> WeightsFile:
    """Read a file that `write_weights` wrote; anything else is a ValueError that says what is wrong with it."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected a weights file or a run folder")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = [name for name in file.keys() if with_optimiser or not name.startswith(OPTIMISER)]  # noqa: SIM118
            tensors = {name: file.get_tensor(name) for name in names}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is truncated, or not a safetensors file: {reason}") from None
    if _KEY not in metadata:
        raise ValueError(f"{path} was written by another program: its header has no {_KEY!r} entry")
    head = json.loads(metadata[_KEY])
    if head["version"] != _VERSION:
        raise ValueError(f"{path} has weights of version {head['version']}; this program reads version {_VERSION}")
    return WeightsFile(from_plain(Preset, head["preset"], str(path)), tensors, head["notes"])


def load_into(model: nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Set a model's weights; ValueError names the first that does not fit."""
    wanted = model.state_dict()
    for name in [*wanted, *weights]:
        if name not in weights:
            raise ValueError(f"{origin} lacks the weight {name} of its own model")
        if name not in wanted:
            raise ValueError(f"{origin} has a weight {name} that its own model lacks")
        if weights[name].shape != wanted[name].shape:
            there, here = tuple(weights[name].shape), tuple(wanted[name].shape)
            raise ValueError(f"{origin} has {name} of shape {there}, its model expects {here}")
    model.load_state_dict(dict(weights))
