"""A run whose encoder learns alone first."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
import torch

import cocanet
from cocanet import presets
from cocanet.config import FeedbackConfig, Preset, TrainConfig
from cocanet.train.estimate import estimate_step
from cocanet.train.interrupt import Stopped
from cocanet.train.loop import train
from cocanet.train.loss import Objective, colour_code, described
from cocanet.train.optimiser import learning_rate_factor
from cocanet.weights import read_weights
from tests.tiny import images, small
from tests.train.runs import losses, noise_store, tiny_settings, validations
from tests.train.test_loop import assert_same_checkpoint, interrupt_at

FIRST = {"encoder_first": 0.5, "colour_code": 0.3, "colour_noise": 1e-2, "chroma": 2.0, "texture": 0.5}
RESTS = FIRST | {"decoder_apart": True, "encoder_rests": True}


@pytest.fixture
def data(tmp_path):
    return noise_store(tmp_path / "data")


def gradients(model: torch.nn.Module) -> set[str]:
    return {name for name, weight in model.named_parameters() if weight.grad is not None}


def test_the_encoder_alone_has_gradients_then_all_have():
    model, x = cocanet.build(small(), seed=0), images(small())
    objective = Objective(model, TrainConfig(**FIRST))
    alone = objective(x, 0.49)
    alone.backward()
    found = gradients(model)
    assert found
    assert not [name for name in found if name.startswith("decoder")]
    assert {"backbone.look.weight", "hierarchy.levels.1.coca.query.weight"} <= found
    code = colour_code(model(x).encoder_masks, described(x, 2.0, 1.0, 0.5), 0.01, 1e-2)
    torch.testing.assert_close(alone, 0.3 * code)
    objective(x, 0.5).backward()
    assert gradients(model) == {name for name, _ in model.named_parameters()}


def test_the_decoder_stays_as_it_began_until_it_joins(tmp_path, data):
    settings = tiny_settings(data, {"checkpoint_every": 1}, **FIRST | {"encoder_first": 1.0})
    train(settings, tmp_path / "run")
    began, ended = cocanet.build(settings.preset, seed=0), read_weights(tmp_path / "run" / "last.safetensors")
    same = {name for name, weight in began.state_dict().items() if torch.equal(weight, ended.tensors[name])}
    assert {name for name in began.state_dict() if name.startswith("decoder")} <= same
    assert "backbone.look.weight" not in same


@pytest.mark.parametrize("course", [FIRST, RESTS], ids=["learning", "resting"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_run_resumes_bit_for_bit_on_either_side_of_the_change(tmp_path, data, monkeypatch, step, course):
    settings = tiny_settings(data, **course)
    train(settings, tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_at(patch, signal.SIGTERM, step=step)
        with pytest.raises(Stopped):
            train(settings, tmp_path / "run")
    train(settings, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert validations(tmp_path / "run") == validations(tmp_path / "whole")
    assert_same_checkpoint(tmp_path / "run", tmp_path / "whole")


def test_the_share_keeps_when_a_run_is_stretched():
    quick = presets.find("objects-room-cpu").train
    assert quick.encoder_first > 0
    assert quick.stretched(100).encoder_first == quick.encoder_first


def test_what_a_step_costs_is_the_mean_of_both_phases():
    preset = replace(Preset("tiny", small(), presets.tetrominoes().data), train=TrainConfig(batch_size=2, **FIRST))
    assert estimate_step(preset).seconds > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_first": 0.5}, r"or a figure to learn by; got encoder_first=0.5, .*, colour_code=0 and figure=0"),
        ({"decoder_apart": True}, r"or a figure to learn by; .* decoder_apart=True, colour_code=0 and figure=0"),
        ({"encoder_first": 1.5, "colour_code": 1.0}, "expected at most 1, got 1.5"),
        ({"encoder_first": -0.5, "colour_code": 1.0}, "encoder_first must be 0 or more; got -0.5"),
        (RESTS | {"encoder_first": 0.0}, "expected encoder_first above 0 and decoder_apart=True, got 0.0 and True"),
        (RESTS | {"decoder_apart": False}, "decoder_apart=True, got 0.5 and False"),
    ],
)
def test_shares_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**changes)


def test_rivals_have_no_encoder_that_learns_alone():
    rival = presets.find("slot-attention-tetrominoes")
    with pytest.raises(ValueError, match=r"only the encoder of a coca-net .* encoder_first=0.5 .* a slot-attention"):
        replace(rival, train=TrainConfig(encoder_first=0.5, colour_code=1.0))


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_decoder_apart_leaves_what_is_found_to_the_code(rounds):
    """Reconstruction then reaches only the decoder and the last level's pooling."""
    config = replace(small(), feedback=FeedbackConfig(rounds=rounds))
    model, x = cocanet.build(config, seed=0), images(config)
    output = model(x, apart=True)
    torch.testing.assert_close(output.slots, model(x).slots, atol=1e-3, rtol=1e-3)
    model.loss(output, x).backward()
    found = gradients(model)
    assert {name for name, _ in model.named_parameters() if name.startswith("decoder")} <= found
    assert {"hierarchy.mlp.inner.weight", "hierarchy.levels.1.coca.value.weight"} <= found
    assert not [name for name in found if name.startswith(("backbone", "hierarchy.levels.0"))]
    assert "hierarchy.levels.1.coca.query.weight" not in found
    objective = Objective(model, TrainConfig(colour_code=0.3, decoder_apart=True))
    objective(x).backward()
    code = 0.3 * colour_code(output.masks_from_below, x, 0.01)
    torch.testing.assert_close(objective(x), model.loss(output, x) + code)
    assert gradients(model) == {name for name, _ in model.named_parameters()}


def found(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model.eval().encode(x, FeedbackConfig()).masks


def test_an_encoder_that_rests_finds_what_it_found_and_the_decoder_learns(tmp_path, data):
    settings = tiny_settings(data, {"checkpoint_every": 1}, **RESTS)
    train(settings, tmp_path / "run")
    alone = tiny_settings(data, {"checkpoint_every": 1}, **RESTS)
    half = alone.preset.train.steps // 2
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, signal.SIGTERM, step=half)
        with pytest.raises(Stopped):
            train(alone, tmp_path / "alone")
    before, after = (read_weights(tmp_path / run / "last.safetensors").tensors for run in ("alone", "run"))
    models = []
    for weights in (before, after):
        model = cocanet.build(settings.preset, seed=0)
        model.load_state_dict({name: weights[name] for name in model.state_dict()})
        models.append(model)
    x = torch.rand(3, 3, *settings.preset.model.image_size, generator=torch.Generator().manual_seed(5))
    assert torch.equal(found(models[0], x), found(models[1], x))
    changed = {
        name
        for name in before
        if name in dict(models[0].named_parameters()) and not torch.equal(before[name], after[name])
    }
    assert any(name.startswith("decoder") for name in changed)
    assert any(name.startswith("hierarchy.levels.1.coca.value") for name in changed)


def test_a_resting_encoder_is_decoded_as_at_evaluation():
    """The last level's temperature is that of evaluation, and the loss is reconstruction alone."""
    config = small()
    *below, last = config.levels
    config = replace(config, levels=(*below, replace(last, sharpen=3.0)))
    model, x = cocanet.build(config, seed=0), images(config)
    sharp, soft = model.eval()(x), model.train()(x)
    assert (sharp.encoder_masks - soft.encoder_masks).abs().max() > 1e-3
    resting = model(x, apart=True, resting=True)
    torch.testing.assert_close(resting.encoder_masks, sharp.encoder_masks)
    assert not resting.masks_from_below.requires_grad
    objective = Objective(model, TrainConfig(**RESTS))
    torch.testing.assert_close(objective(x, 0.5), model.loss(resting, x))
    objective(x, 0.5).backward()
    assert not [name for name in gradients(model) if name.startswith(("backbone", "hierarchy.levels.0"))]


def test_either_part_of_a_run_has_the_whole_course():
    course = TrainConfig(**RESTS | {"encoder_first": 0.25}, steps=400, warmup_steps=40, decay="cosine")
    factors = [learning_rate_factor(course, step) for step in range(400)]
    assert max(factors[:100]) == max(factors[100:]) == pytest.approx(1, abs=0.01)
    assert factors[99] == pytest.approx(0, abs=1e-3)
    assert factors[399] == pytest.approx(0, abs=1e-3)
    assert factors[0] == pytest.approx(1 / 10)
    assert factors[100] == pytest.approx(1 / 30)
    whole = replace(course, encoder_first=1.0)
    assert learning_rate_factor(whole, 399) == learning_rate_factor(replace(whole, encoder_rests=False), 399)
    plain = replace(course.stretched(300), encoder_rests=False)
    assert factors[100:] == [learning_rate_factor(plain, step) for step in range(300)]
