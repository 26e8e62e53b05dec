"""Baselines in training: their state is annealed and saved, and validation does not change it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cocanet.config import ModelConfig
from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.store import Store
from cocanet.data.store_writer import write_store
from cocanet.io.run_folder import Settings
from cocanet.io.trained import open_model
from cocanet.models.build import build
from cocanet.models.model import ObjectModel
from cocanet.train.loop import train
from tests.models.baselines import baselines
from tests.models.baselines.baselines import tiny_config
from tests.small_runs import Squares
from tests.train.runs import assert_same_run, losses, stop_at, tiny_settings

SQUARE = {"image_size": (16, 16), "broadcast": (8, 8)}
MODELS: dict[str, ModelConfig] = {
    **{kind: replace(baselines.ALL[kind], **SQUARE) for kind in baselines.CLASSES},
    "genesis-v2": tiny_config(),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("squares") / "data"
    write_store(Squares(30, size=16), path)
    return path


def settings_of(kind: str, data: Path, validate_every: int = 2, **train: object) -> Settings:
    return tiny_settings(data, {"validate_every": validate_every}, MODELS[kind], **train)


@pytest.mark.parametrize("kind", MODELS)
def test_a_baseline_resumes_bit_for_bit_and_validation_changes_nothing(tmp_path, data, kind):
    train(settings_of(kind, data), tmp_path / "whole")
    stop_at(settings_of(kind, data), tmp_path / "run", 3)
    train(settings_of(kind, data), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    train(settings_of(kind, data, validate_every=6), tmp_path / "validated once")
    assert losses(tmp_path / "validated once") == losses(tmp_path / "whole")


@pytest.mark.parametrize("kind", MODELS)
def test_a_baseline_lowers_its_loss(tmp_path, data, kind):
    settings = settings_of(kind, data, validate_every=30, steps=30)
    train(settings, tmp_path / "run")
    images = next(iter(Loader(Store(data), LoaderConfig(24)))).images

    @torch.inference_mode()
    def loss_of(model: ObjectModel) -> float:
        torch.manual_seed(0)
        return model.loss(model.eval()(images), images).item()

    before, after = loss_of(build(settings.preset, seed=0)), loss_of(open_model(tmp_path / "run").model)
    assert after < (0.99 if kind == "genesis-v2" else 0.9) * before  # a likelihood has a large constant in it


def test_the_trainer_anneals_the_noise_of_bo_qsa(tmp_path, data):
    """Before the last of six steps five sixths of the run lie behind it, far beyond the share that is noisy."""
    model = MODELS["bo-qsa"]
    for share, noise in ((0.12, 0.0), (1.0, 0.5 * (1 + math.cos(math.pi * 5 / 6)))):
        settings = settings_of("bo-qsa", data)
        settings = replace(settings, preset=replace(settings.preset, model=replace(model, noisy_share=share)))
        train(settings, tmp_path / str(share))
        found = open_model(tmp_path / str(share)).model.noise
        torch.testing.assert_close(found, torch.tensor(noise), atol=1e-6, rtol=0)


def test_the_trainer_moves_gecos_multiplier_and_the_checkpoint_has_it(tmp_path, data):
    train(settings_of("genesis-v2", data), tmp_path / "run")
    trained = open_model(tmp_path / "run").model
    fresh = dict(build(trained.config).named_buffers())
    moved = [name for name, value in trained.named_buffers() if not torch.equal(value, fresh[name])]
    assert any("geco" in name for name in moved)
