"""A decoder by tokens in the one trainer: two learning rates, a temperature, and a run that resumes bit for bit."""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cocanet.config import BoQsaConfig, FeedbackConfig, TrainConfig
from cocanet.models.build import build
from cocanet.models.tokens import DiscreteAutoencoder
from cocanet.train.interrupt import Stopped
from cocanet.train.loop import train
from cocanet.train.loss import Objective
from cocanet.train.optimiser import make_optimiser, set_learning_rate
from cocanet.weights import open_model
from tests.tiny import TOKENS, images, small, token_net
from tests.train.runs import losses, noise_store, tiny_settings
from tests.train.test_loop import assert_same_checkpoint, interrupt_at

PALETTE = FeedbackConfig(rounds=2, figure=0.0, slots=0.0, palette=1.0)
COURSE = {"token_learning_rate": 5e-3, "clip_norm": 1.0, "reconstruction": 1e-2}
MODELS = {
    "coca-net": (token_net(), COURSE),
    "coca-net by figure": (
        token_net(feedback=PALETTE),
        COURSE | {"figure": 1.0, "encoder_first": 0.5, "decoder_apart": True},
    ),
    "bo-qsa": (BoQsaConfig((8, 16), 3, channels=8, dim=16, hidden=8, encoder_strides=(2, 1), tokens=TOKENS), COURSE),
}


def settings_of(name: str, data, **run):
    model, course = MODELS[name]
    settings = tiny_settings(data, {"validate_every": 2} | run)
    train = replace(settings.preset.train, **course)
    return replace(settings, preset=replace(settings.preset, model=model, train=train))


@pytest.mark.parametrize("name", MODELS)
def test_a_run_resumes_bit_for_bit_with_its_schedules_and_temperature(tmp_path, monkeypatch, name):
    data = noise_store(tmp_path / "data", size=(8, 16))
    train(settings_of(name, data), tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, signal.SIGTERM, step=3)
        with pytest.raises(Stopped):
            train(settings_of(name, data), tmp_path / "run")
    train(settings_of(name, data), tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert_same_checkpoint(tmp_path / "run", tmp_path / "whole")
    decoder = open_model(tmp_path / "run").model.decoder
    assert decoder.temperature.item() == pytest.approx(0.1)


def test_tokens_have_a_learning_rate_of_their_own_without_warm_up():
    model = build(token_net(), seed=0)
    config = TrainConfig(steps=100, learning_rate=1e-3, token_learning_rate=4e-3, warmup_steps=10, half_life=50)
    optimiser = make_optimiser(model, config)
    others, tokens = optimiser.param_groups
    coder = next(part for part in model.modules() if isinstance(part, DiscreteAutoencoder))
    assert {id(p) for p in tokens["params"]} == {id(p) for p in coder.parameters()}
    assert len(others["params"]) + len(tokens["params"]) == len(list(model.parameters()))
    for step in (0, 4, 9, 50):
        assert set_learning_rate(optimiser, config, step) == others["lr"]
        assert others["lr"] == pytest.approx(1e-3 * min(1, (step + 1) / 10) * 0.5 ** (step / 50))
        assert tokens["lr"] == pytest.approx(4e-3 * 0.5 ** (step / 50))


def test_a_model_without_tokens_refuses_a_learning_rate_for_them():
    with pytest.raises(ValueError, match="this model has none"):
        make_optimiser(build(small(), seed=0), TrainConfig(token_learning_rate=1e-3))


def test_a_figure_is_learned_from_feedback_only():
    settings = tiny_settings(Path("data"))
    with pytest.raises(ValueError, match="learned from the feedback of a coca-net"):
        replace(settings.preset, train=replace(settings.preset.train, figure=1.0))


def test_alone_the_encoder_learns_its_figure_and_no_token():
    config = token_net(feedback=PALETTE)
    course = TrainConfig(figure=1.0, encoder_first=0.5, decoder_apart=True)
    model, x = build(config, seed=0), images(config)
    Objective(model, course)(x, 0.0).backward()
    taught = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert taught == {"backbone", "hierarchy"}
    model.zero_grad()
    Objective(model, course)(x, 0.6).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_trust_in_what_was_found_grows_in_the_run(monkeypatch):
    seen = []
    monkeypatch.setattr("cocanet.train.loss.figure_code", lambda *given: seen.append(given[-1]) or torch.zeros(()))
    config = token_net(feedback=PALETTE)
    objective = Objective(build(config, seed=0), TrainConfig(figure=1.0, figure_trust=0.8, encoder_first=1.0))
    for done in (0.0, 0.2, 0.4, 0.6, 0.9):
        objective(images(config), done)
    assert seen == pytest.approx([0, 0, 0.4, 0.8, 0.8])


def test_losses_of_tokens_are_weighed():
    config = token_net()
    x = images(config)
    values = []
    for weight in (1.0, 0.01):
        torch.manual_seed(0)
        values.append(Objective(build(config, seed=0), TrainConfig(reconstruction=weight))(x).item())
    assert values[1] == pytest.approx(0.01 * values[0])
    assert math.isfinite(values[0])
