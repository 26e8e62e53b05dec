"""A tiny run for the tests of training: 8×12 images, a model of a few thousand weights."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cocanet.config import Adam, DataConfig, ModelConfig, Preset, RunConfig, Schedule, Stage, TrainConfig
from cocanet.data.loader import Batch
from cocanet.data.sample import Sample
from cocanet.data.store_writer import write_store
from cocanet.io import journal
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.io.weights import read_weights
from cocanet.train import loop
from cocanet.train.interrupt import Stopped
from cocanet.train.session import Session
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


STAGE = Stage(optimiser=Adam(learning_rate=3e-3), schedule=Schedule(warmup=1 / 3, half_life=5 / 3))


def tiny_settings(
    data: Path, run: dict[str, Any] | None = None, model: ModelConfig | None = None, **train: Any
) -> Settings:
    """Six steps of four images in one stage by default."""
    config = TrainConfig(**{"steps": 6, "batch_size": 4, "stages": (STAGE,)} | train)
    preset = Preset("tiny", small() if model is None else model, DataConfig("noise", background_labels=2), config)
    usual = {"log_every": 1, "checkpoint_every": 2, "accelerator": "cpu", "validate_every": 3}
    if run and "minutes" in run:
        del usual["validate_every"]
    settings = RunConfig(**usual | (run or {}))
    return Settings(preset, settings, DataChoice(str(data)))


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int, step: int) -> None:
    """Send this process a signal in the middle of a step."""
    plain = loop.step

    def interrupted(session: Session, batch: Batch, done: float) -> tuple[float, float]:
        if session.state.step == step:
            os.kill(os.getpid(), number)
        return plain(session, batch, done)

    monkeypatch.setattr(loop, "step", interrupted)


def stop_at(settings: Settings, out: Path, step: int) -> None:
    """Carry out a run up to this step and stop it by a signal."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, signal.SIGTERM, step - 1)
        with pytest.raises(Stopped):
            loop.train(settings, out)


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit the same losses, validations and tensors, and the same state but for the clock."""
    assert losses(one) == losses(other)
    assert validations(one) == validations(other)
    first, second = (read_weights(run / "last.safetensors", with_optimiser=True) for run in (one, other))
    assert first.tensors.keys() == second.tensors.keys()
    for name, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[name]), name
    assert dict(first.notes) | {"seconds": 0} == dict(second.notes) | {"seconds": 0}


def losses(folder: Path) -> list[tuple[int, float]]:
    """Step and loss of every line, exactly as written."""
    lines = journal.read(RunFolder(folder).metrics)
    return [(line["step"], line["loss"]) for line in lines if line["kind"] == "train"]


def validations(folder: Path) -> list[dict[str, Any]]:
    lines = [line for line in journal.read(RunFolder(folder).metrics) if line["kind"] == "validation"]
    return [{name: line[name] for name in ("step", "images", "scores", "warnings")} for line in lines]
