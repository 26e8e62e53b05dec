"""The layout of the Hugging Face hub: a folder with `config.json` and `model.safetensors`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from cocanet.config import Preset
from cocanet.config.plain import from_plain, to_plain
from cocanet.files import write_atomically
from cocanet.models.model import ObjectModel
from cocanet.weights.file import WeightsFile, write_weights

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_KIND = "cocanet"


def is_pretrained(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def write_pretrained(folder: Path, model: ObjectModel, preset: Preset, notes: Mapping[str, Any]) -> None:
    """Write a model; its configuration comes last, so that a folder that has one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / WEIGHTS, preset, model.state_dict(), notes)
    kinds = [type(model).__name__]
    config = {"model_type": _KIND, "architectures": kinds, "preset": to_plain(preset), "notes": dict(notes)}
    write_atomically(folder / CONFIG, [json.dumps(config, indent=2).encode()])


def read_pretrained(folder: Path) -> WeightsFile:
    """What a folder holds; `config.json` says what it is, whoever wrote the weights."""
    config, weights = folder / CONFIG, folder / WEIGHTS
    try:
        plain = json.loads(config.read_bytes())
    except ValueError as error:
        raise ValueError(f"{config} is not JSON: {error}") from None
    if not isinstance(plain, dict) or plain.get("model_type") != _KIND:
        kind = plain.get("model_type") if isinstance(plain, dict) else None
        raise ValueError(f"{config} is of a model of type {kind!r}; expected {_KIND!r}")
    preset = from_plain(Preset, plain.get("preset", {}), str(config))
    try:
        tensors = safetensors.torch.load_file(weights)
    except (safetensors.SafetensorError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{weights} is truncated, or not a safetensors file: {reason}") from None
    return WeightsFile(preset, tensors, plain.get("notes", {}))
