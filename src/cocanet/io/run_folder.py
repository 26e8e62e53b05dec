"""A run's folder: what was asked for, what happened, and the checkpoints. It may be moved anywhere.

run.json            preset, settings and data
metrics.jsonl       losses and validation scores
log.txt             what happened, with dates
last.safetensors    weights, optimiser and where the run stands
previous.safetensors  the same, one checkpoint before
best.safetensors    the weights with the lowest validation error
pictures/           fixed validation scenes as they were discovered
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.filesize import decimal

from cocanet.config import Preset, RunConfig, TrainConfig
from cocanet.config.bounds import check_bounds
from cocanet.config.serialization import first_difference, from_dict, to_dict
from cocanet.files import (
    OUTPUT,
    check_folder_writable,
    existing_parent,
    hold,
    mark_output,
    read_json,
    sync_folder,
    write_atomically,
)
from cocanet.io.trained import is_shipped

FORMAT = "cocanet-run"
VERSION = 1
LOCK = ".lock"


@dataclass(frozen=True)
class DataChoice:
    """Where the images come from: a folder of the user's, or scenes made for the run."""

    path: str | None = None
    images: int | None = None
    """How many scenes to make for training."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run."""

    preset: Preset
    run: RunConfig
    data: DataChoice


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def settings_file(self) -> Path:
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def last(self) -> Path:
        return self.path / "last.safetensors"

    @property
    def previous(self) -> Path:
        return self.path / "previous.safetensors"

    @property
    def best(self) -> Path:
        return self.path / "best.safetensors"

    def picture(self, step: int) -> Path:
        return self.path / "pictures" / f"step-{step:06d}.png"

    def log(self, text: str) -> None:
        """Add a dated line to the log."""
        with (self.path / "log.txt").open("a") as file:
            file.write(f"{datetime.now().isoformat(timespec='seconds')} {text}\n")

    def write_settings(self, settings: Settings) -> None:
        versions = {"cocanet": version("cocanet"), "torch": torch.__version__}
        content = {"format": FORMAT, "version": VERSION} | to_dict(settings) | versions
        write_atomically(self.settings_file, [json.dumps(content, indent=1).encode(), b"\n"])
        sync_folder(self.path)

    def read_settings(self) -> Settings:
        """What the run was started with; ValueError if the folder holds no run."""
        content = self._read_json()
        preset = content.get("preset")
        check_bounds(preset.get("model") if isinstance(preset, dict) else None, f"{self.settings_file}: preset.model")
        parts = {name: content.get(name, {}) for name in ("preset", "run", "data")}
        return from_dict(Settings, parts, str(self.settings_file))

    def _read_json(self) -> Mapping[str, Any]:
        try:
            content = read_json(self.settings_file)
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(f"{self.path} is not a run folder: {self.settings_file.name} is missing") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f'{self.settings_file} does not describe a run: expected "format": "{FORMAT}"')
        if content.get("version") != VERSION:
            raise ValueError(f"{self.settings_file} has version {content.get('version')!r}, expected {VERSION}")
        return content

    @property
    def exists(self) -> bool:
        return self.settings_file.exists()

    def held(self) -> AbstractContextManager[None]:
        """Keep other processes from training in the folder."""
        return hold(self.path / LOCK, "is being trained")

    def clear(self) -> None:
        """Delete what the run learned and measured, but not its settings and log."""
        for file in (self.last, self.previous, self.best, self.metrics):
            file.unlink(missing_ok=True)


def own_folder(source: str | Path) -> Path | None:
    """The folder that a run's model is opened from, if `source` is one; a name of shipped weights is none."""
    return Path(source) if not is_shipped(source) and Path(source).is_dir() else None


def trained_on(source: str | Path) -> Path | None:
    """The user's data that the run of a folder, or of a checkpoint in one, was trained on."""
    folder = RunFolder(own_folder(source) or Path(source).parent)
    if is_shipped(source) or not Path(source).exists() or not folder.exists:
        return None
    data = folder.read_settings().data
    return None if data.path is None else Path(data.path)


def check_new(folder: RunFolder) -> None:
    """Nothing is in the way of a new run."""
    if folder.exists:
        raise ValueError(f"{folder.path} already holds a run: add --resume to continue it, or choose another --out")
    own = (LOCK, OUTPUT)  # of a run that ended before it began
    if folder.path.exists() and (
        not folder.path.is_dir() or any(found.name not in own for found in folder.path.iterdir())
    ):
        raise ValueError(f"{folder.path} is neither empty nor a run folder; choose another --out")


def check_same(folder: RunFolder, settings: Settings) -> None:
    """The run in a folder can go on with these settings: same model, data, stages and seed."""
    before, now = folder.read_settings(), settings
    for what, old, new in (
        ("model", to_dict(before.preset.model), to_dict(now.preset.model)),
        ("data", to_dict(before.preset.data) | to_dict(before.data), to_dict(now.preset.data) | to_dict(now.data)),
        ("stage", _stages(before.preset.train), _stages(now.preset.train)),
        ("seed", before.run.seed, now.run.seed),
    ):
        difference = first_difference(old, new, what)
        if difference:
            raise ValueError(f"{folder.path} cannot be resumed with another {what}: it has {difference}")


def _stages(train: TrainConfig) -> list[Any]:
    """What must not change while a run is interrupted: it decides what a checkpoint holds."""
    kept = ("image_size", "trains", "optimiser")
    plain = [{name: value for name, value in to_dict(stage).items() if name in kept} for stage in train.stages]
    return [stage | {"optimiser": stage["optimiser"]["kind"]} for stage in plain]


def check_writable(folder: RunFolder, needed: int) -> None:
    """The disk takes a run of `needed` bytes; known before hours are spent on it."""
    check_folder_writable(folder.path)
    free = shutil.disk_usage(existing_parent(folder.path)).free
    if free < needed:
        raise ValueError(f"{folder.path} needs about {decimal(needed)}, but its disk has only {decimal(free)} free")
    folder.path.mkdir(parents=True, exist_ok=True)
    mark_output(folder.path)
