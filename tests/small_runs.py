"""Run folders as training leaves them, with a tiny model for Tetrominoes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cocanet import build
from cocanet.config import DataConfig, Preset, RunConfig
from cocanet.data.sample import Sample
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.io.weights import write_weights
from tests.tiny import SQUARE


def tiny_preset(**changes: Any) -> Preset:
    """Four slots on images of 32×32 pixels."""
    return replace(Preset("tetrominoes", SQUARE, DataConfig("tetrominoes")), **changes)


def make_run(
    path: Path,
    *,
    seed: int = 0,
    step: int = 500,
    data: Path | None = None,
    preset: Preset | None = None,
    minutes: float | None = None,
    journal: tuple[Mapping[str, Any], ...] = (),
) -> Path:
    """A finished run of `step` steps."""
    preset = preset or tiny_preset()
    path.mkdir(parents=True)
    folder = RunFolder(path)
    choice = DataChoice(None if data is None else str(data))
    folder.write_settings(Settings(preset, RunConfig(seed=seed, minutes=minutes), choice))
    write_weights(folder.last, preset, build(preset, seed=seed).state_dict(), {"step": step})
    write_weights(folder.best, preset, build(preset, seed=seed + 100).state_dict(), {"step": step // 2})
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in journal))
    return path


class Squares:
    """Coloured squares on grey; every fourth image is empty."""

    def __init__(self, count: int, *, has_labels: bool = True, size: int = 32) -> None:
        self.count, self.has_labels, self.size = count, has_labels, size
        self.background_labels = 1 if has_labels else 0
        self.recipe = {"name": "squares", "labels": has_labels, "size": size}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng(index)
        image = np.full((self.size, self.size, 3), 90, dtype=np.uint8)
        labels = np.zeros((self.size, self.size), dtype=np.uint8)
        for label in range(1, 1 + index % 4):
            row, column = rng.integers(0, self.size - 8, 2)
            image[row : row + 8, column : column + 8] = rng.integers(0, 256, 3)
            labels[row : row + 8, column : column + 8] = label if self.has_labels else 0
        return Sample(image, labels, {})


class OneObject(Squares):
    """A square on a background in every image but each fourth, as a store of photographs has them."""

    def __init__(self, count: int, *, name: str = "squares") -> None:
        super().__init__(count)
        self.recipe = {"name": name, "size": self.size}

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample._replace(labels=np.minimum(sample.labels, 1))
