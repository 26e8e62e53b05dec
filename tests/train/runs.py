"""A tiny run for the tests of training: 8×12 images, a model of a few thousand weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cocanet.config import DataConfig, Preset, RunConfig, TrainConfig
from cocanet.data.sample import Sample
from cocanet.data.store_writer import write_store
from cocanet.runs import journal
from cocanet.runs.folder import DataChoice, RunFolder, Settings
from tests.data.sources import NoiseSource
from tests.tiny import small

SIZE = (8, 12)
TINY = [
    *("--model.dim", "16", "--model.backbone.channels", "8", "--model.levels.0.depth", "0"),
    *("--model.levels.1.depth", "1", "--accelerator", "cpu"),
]
"""Flags that make the Tetrominoes preset small enough for a test."""


class Unlabelled(NoiseSource):
    background_labels = 0
    has_labels = False

    def __getitem__(self, index: int) -> Sample:
        sample = NoiseSource(self.count, self.seed, self.size)[index]
        return sample._replace(labels=np.zeros_like(sample.labels))


def noise_store(path: Path, count: int = 30, size: tuple[int, int] = SIZE, labelled: bool = True) -> Path:
    write_store((NoiseSource if labelled else Unlabelled)(count, size=size), path)
    return path


def tiny_settings(data: Path, run: dict[str, Any] | None = None, **train: Any) -> Settings:
    """Six steps of four images, unless told otherwise."""
    course = TrainConfig(steps=6, batch_size=4, learning_rate=3e-3, warmup_steps=2, half_life=10)
    preset = Preset("tiny", small(), DataConfig("noise", background_labels=2), replace(course, **train))
    settings = RunConfig(**{"log_every": 1, "checkpoint_every": 2, "accelerator": "cpu"} | (run or {}))
    return Settings(preset, settings, DataChoice(str(data)))


def losses(folder: Path) -> list[tuple[int, float]]:
    """Step and loss of every line, exactly as written."""
    lines = journal.read(RunFolder(folder).metrics)
    return [(line["step"], line["loss"]) for line in lines if line["kind"] == "train"]


def validations(folder: Path) -> list[dict[str, Any]]:
    lines = [line for line in journal.read(RunFolder(folder).metrics) if line["kind"] == "validation"]
    return [{name: line[name] for name in ("step", "images", "scores", "warnings")} for line in lines]
