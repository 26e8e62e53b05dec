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
from cocanet.config.bounds import check_bounds
from cocanet.config.serialization import from_dict, to_dict
from cocanet.files import parse_json, sync_folder, write_atomically
from cocanet.io.checksum import check_file, with_checksum
from cocanet.io.journal import without_nan

OPTIMISER = "optimiser:"
KEY = "cocanet"
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
    """Write tensors, preset and notes to one file with a checksum, whole or not at all."""
    head = json.dumps({"version": _VERSION, "preset": to_dict(preset), "notes": without_nan(dict(notes))})
    flat = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    write_atomically(path, with_checksum(safetensors.torch.save(flat, metadata={KEY: head})))
    sync_folder(path.parent)


def read_weights(path: Path, *, with_optimiser: bool = False) -> WeightsFile:
    """Read a file that `write_weights` wrote; anything else is a ValueError that says what is wrong with it."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected a weights file or a run folder")
    metadata = check_file(path)
    if KEY not in metadata:
        raise ValueError(f"{path} was written by another program: its header has no {KEY!r} entry")
    head = parse_json(metadata[KEY], str(path))
    version = head.get("version") if isinstance(head, dict) else None
    if version != _VERSION:
        raise ValueError(f"{path} has weights of version {version!r}; this program reads version {_VERSION}")
    notes = head.get("notes")
    if not isinstance(notes, dict):
        raise ValueError(f"{path} has notes that are {type(notes).__name__}; expected a dictionary")
    return WeightsFile(read_preset(head.get("preset"), str(path)), read_tensors(path, with_optimiser), notes)


def read_preset(plain: Any, origin: str) -> Preset:
    """A preset that anyone may have written; its sizes are checked before anything is computed from them."""
    check_bounds(plain.get("model") if isinstance(plain, Mapping) else None, f"{origin}: preset.model")
    return from_dict(Preset, plain, origin)


def read_tensors(path: Path, with_optimiser: bool = False) -> dict[str, Tensor]:
    """The tensors of a safetensors file, without the optimiser's."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if with_optimiser or not name.startswith(OPTIMISER)]  # noqa: SIM118
            return {name: file.get_tensor(name) for name in names}
    except (safetensors.SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path} is truncated, or not a safetensors file: {str(error).splitlines()[0]}") from None


def check_weights(wanted: Mapping[str, Tensor], weights: Mapping[str, Tensor], origin: Path) -> None:
    """Compare weights with those of a model, which may be on torch's meta device; ValueError names the first misfit."""
    for name in [*wanted, *weights]:
        if name not in weights:
            raise ValueError(f"{origin} lacks the weight {name} of its own model")
        if name not in wanted:
            raise ValueError(f"{origin} has a weight {name} that its own model lacks")
        tensor, model = weights[name], wanted[name]
        if tensor.shape != model.shape:
            there, here = tuple(tensor.shape), tuple(model.shape)
            raise ValueError(f"{origin} has {name} of shape {there}, its model expects {here}")
        if tensor.dtype != model.dtype and not (tensor.is_floating_point() and model.is_floating_point()):
            kinds = [str(kind).removeprefix("torch.") for kind in (tensor.dtype, model.dtype)]
            raise ValueError(f"{origin} has {name} of type {kinds[0]}, its model expects {kinds[1]}")
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{origin} has {name} with values that are not finite")


def load_into(model: nn.Module, weights: Mapping[str, Tensor], origin: Path) -> None:
    """Set a model's weights; ValueError names the first that does not fit."""
    check_weights(model.state_dict(), weights, origin)
    model.load_state_dict(dict(weights))
