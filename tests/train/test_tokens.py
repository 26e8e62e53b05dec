"""Token decoders in training: two learning rates, a temperature, and a run that resumes bit for bit."""

from __future__ import annotations

import math

import pytest
import torch

from cocanet.config import Adam, BoQsaConfig, Reconstruction, Schedule, Stage
from cocanet.io.trained import open_model
from cocanet.models.build import build
from cocanet.models.tokens import DiscreteAutoencoder
from cocanet.train.loop import train
from cocanet.train.losses import Objective
from cocanet.train.optimiser import make_optimiser, set_learning_rate
from tests.tiny import TOKENS, images, small, token_net
from tests.train.runs import assert_same_run, noise_store, stop_at, tiny_settings

MODELS = {
    "coca-net": token_net(),
    "bo-qsa": BoQsaConfig((8, 16), 3, channels=8, dim=16, hidden=8, encoder_strides=(2, 1), tokens=TOKENS),
}
TOKEN_STAGE = Stage(optimiser=Adam(1e-3, token_learning_rate=4e-3), schedule=Schedule(warmup=0.1, half_life=0.5))


@pytest.mark.parametrize("name", MODELS)
def test_a_run_resumes_bit_for_bit_with_its_schedules_and_temperature(tmp_path, name):
    data = noise_store(tmp_path / "data", size=(8, 16))
    settings = tiny_settings(data, {"validate_every": 2}, MODELS[name], clip_norm=1.0, stages=(TOKEN_STAGE,))
    train(settings, tmp_path / "whole")
    stop_at(settings, tmp_path / "run", 4)
    train(settings, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert open_model(tmp_path / "run").model.decoder.temperature.item() == pytest.approx(0.1)


def test_tokens_have_a_learning_rate_of_their_own_without_warm_up():
    model = build(token_net(), seed=0)
    optimiser = make_optimiser(model, TOKEN_STAGE)
    others, tokens = optimiser.param_groups
    coder = next(part for part in model.modules() if isinstance(part, DiscreteAutoencoder))
    assert {id(p) for p in tokens["params"]} == {id(p) for p in coder.parameters()}
    assert len(others["params"]) + len(tokens["params"]) == len(list(model.parameters()))
    for step in (0, 4, 9, 50):
        assert set_learning_rate(optimiser, TOKEN_STAGE.schedule, step, 100) == others["lr"]
        assert others["lr"] == pytest.approx(1e-3 * min(1, (step + 1) / 10) * 0.5 ** (step / 50))
        assert tokens["lr"] == pytest.approx(4e-3 * 0.5 ** (step / 50))


def test_a_model_without_tokens_refuses_a_learning_rate_for_them():
    with pytest.raises(ValueError, match="this model has none"):
        make_optimiser(build(small(), seed=0), TOKEN_STAGE)


def test_the_loss_of_tokens_is_weighted():
    config = token_net()
    x = images(config)
    values = []
    for weight in (1.0, 0.01):
        torch.manual_seed(0)
        stage = Stage(losses=(Reconstruction(weight=weight),))
        values.append(Objective(build(config, seed=0), stage)(x).item())
    assert values[1] == pytest.approx(0.01 * values[0])
    assert math.isfinite(values[0])
