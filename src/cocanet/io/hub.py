"""The layout of the Hugging Face hub: a folder with `config.json` and `model.safetensors`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocanet.config import Preset
from cocanet.config.serialization import to_dict
from cocanet.files import read_json, write_atomically
from cocanet.io.checksum import check_file
from cocanet.io.journal import without_nan
from cocanet.io.weights import WeightsFile, read_preset, read_tensors, write_weights
from cocanet.models.model import ObjectModel

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_KIND = "cocanet"


def is_pretrained(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def write_pretrained(folder: Path, model: ObjectModel, preset: Preset, notes: Mapping[str, Any]) -> None:
    """Write a model; its configuration comes last, so that a folder that has one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / WEIGHTS, preset, model.state_dict(), notes)
    kinds = [type(model).__name__]
    config = {"model_type": _KIND, "architectures": kinds, "preset": to_dict(preset), "notes": without_nan(dict(notes))}
    write_atomically(folder / CONFIG, [json.dumps(config, indent=2).encode()])


def read_pretrained(folder: Path) -> WeightsFile:
    """What a folder holds; `config.json` says what it is, whoever wrote the weights."""
    config, weights = folder / CONFIG, folder / WEIGHTS
    plain = read_json(config)
    if not isinstance(plain, dict) or plain.get("model_type") != _KIND:
        kind = plain.get("model_type") if isinstance(plain, dict) else None
        raise ValueError(f"{config} is of a model of type {kind!r}; expected {_KIND!r}")
    notes = plain.get("notes", {})
    if not isinstance(notes, dict):
        raise ValueError(f"{config} has notes that are {type(notes).__name__}; expected a dictionary")
    preset = read_preset(plain.get("preset"), str(config))
    check_file(weights)
    return WeightsFile(preset, read_tensors(weights), notes)
