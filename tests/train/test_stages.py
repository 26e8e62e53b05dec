"""Runs of several stages: what each trains and at which size, and that runs resume bit for bit across them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import cocanet
from cocanet.config import (
    Adam,
    ConvConfig,
    DataConfig,
    DecoderConfig,
    LevelConfig,
    Muon,
    Preset,
    Reconstruction,
    Schedule,
    Stage,
    TrainConfig,
)
from cocanet.config.resolution import at_image_size
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.splits import open_split
from cocanet.evaluate.protocol import evaluate
from cocanet.io import journal
from cocanet.io.trained import open_model
from cocanet.models.model import reconstruction_loss
from cocanet.train.estimate import estimate_run
from cocanet.train.loop import train
from cocanet.train.optimiser import learning_rate_factor
from tests.models.baselines.baselines import bo_qsa
from tests.tiny import small
from tests.train.runs import assert_same_run, losses, noise_store, stop_at, tiny_settings, validations

FULL, HALF = (8, 16), (4, 8)
MODEL = small(
    image_size=FULL,
    levels=(LevelConfig((4, 4), 3, 1.0, 1), LevelConfig((2, 4), 4, 1.0, 1)),
    decoder=DecoderConfig(FULL, (ConvConfig(8, 3), ConvConfig(4, 3))),
)
POINTWISE = replace(MODEL, decoder=DecoderConfig(FULL, (ConvConfig(16, 1), ConvConfig(4, 1)), octaves=2, frame="slot"))
COSINE = Schedule(warmup=0.3, decay="cosine")
ADAM = Stage(share=0.5, optimiser=Adam(3e-3), schedule=COSINE)
CURRICULUM = (replace(ADAM, image_size=HALF), replace(ADAM, image_size=FULL))
FROZEN = (replace(ADAM, trains=("backbone", "hierarchy")), replace(ADAM, trains=("decoder",)))
FAST = tuple(replace(stage, optimiser=Muon(), losses=(Reconstruction(pixels=0.25),)) for stage in CURRICULUM)
RUNS = {"curriculum": (MODEL, CURRICULUM), "frozen": (MODEL, FROZEN), "fast": (POINTWISE, FAST)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return noise_store(tmp_path_factory.mktemp("noise") / "data", size=FULL)


def settings_of(name: str, data, **train):
    model, stages = RUNS[name]
    return tiny_settings(data, {"validate_every": 2}, model, **{"stages": stages, "crop_padding": 0} | train)


@pytest.fixture(scope="module", params=RUNS)
def whole(request, data, tmp_path_factory):
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(settings_of(request.param, data), out)
    return request.param, out


@pytest.mark.parametrize("step", [2, 3, 5], ids=["in the first stage", "at the boundary", "in the second stage"])
def test_a_run_resumes_bit_for_bit(tmp_path, data, whole, step):
    name, uninterrupted = whole
    stop_at(settings_of(name, data), tmp_path / "run", step)
    train(settings_of(name, data), tmp_path / "run", resume=True)
    assert len(losses(tmp_path / "run")) == 6
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_run_of_two_sizes_is_two_plain_loops(tmp_path, data):
    settings = settings_of("curriculum", data)
    train(settings, tmp_path / "run")
    small_model, model = (cocanet.build(at_image_size(MODEL, size), seed=0) for size in (HALF, FULL))
    batches = iter(Loader(open_split(settings.preset.data, "train", data), LoaderConfig(4, seed=0)))
    expected = []
    for current in (small_model, model):
        current.load_state_dict(small_model.state_dict())
        adam = torch.optim.Adam(current.parameters(), lr=1.0, weight_decay=1e-5, fused=True)
        for step in range(3):
            images = next(batches).images
            if current is small_model:
                images = F.avg_pool2d(255 * images, 2).round() / 255
            adam.param_groups[0]["lr"] = 3e-3 * learning_rate_factor(COSINE, step, 3)
            adam.zero_grad()
            loss = reconstruction_loss(current(images), images)
            loss.backward()
            adam.step()
            expected.append(loss.item())
    assert [loss for _, loss in losses(tmp_path / "run")] == pytest.approx(expected, rel=1e-5)
    trained = open_model(tmp_path / "run").model.state_dict()
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(trained[name], weight, rtol=1e-4, atol=1e-6)


def parts_that_differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> set[str]:
    return {name.split(".")[0] for name, weight in one.items() if not torch.equal(weight, other[name])}


def test_frozen_parts_do_not_change(tmp_path, data):
    settings = settings_of("frozen", data)
    stop_at(settings, tmp_path / "run", 3)
    begun = cocanet.build(settings.preset, seed=0).state_dict()
    between = open_model(tmp_path / "run").model.state_dict()
    train(settings, tmp_path / "run", resume=True)
    ended = open_model(tmp_path / "run").model.state_dict()
    assert parts_that_differ(begun, between) == {"backbone", "hierarchy"}
    assert parts_that_differ(between, ended) == {"decoder"}


def test_a_stage_at_half_size_is_validated_at_full_size(tmp_path, data):
    """The scores are those of the last weights on the images as they are, and the weights open at full size."""
    settings = tiny_settings(data, model=MODEL, stages=(replace(CURRICULUM[0], share=1.0),))
    train(settings, tmp_path / "run")
    opened = open_model(tmp_path / "run")
    assert opened.preset.model.image_size == FULL
    split = open_split(settings.preset.data, "validation", data)
    pixels, labels = (torch.from_numpy(array) for array in split.gather(np.arange(len(split))))
    batch = Batch(pixels.permute(0, 3, 1, 2).float() / 255, labels.long(), torch.arange(len(split)))
    expected = evaluate(opened.model, [batch], background_labels=2)
    scores = validations(tmp_path / "run")[-1]["scores"]
    assert {name: scores[name] for name in expected} == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_a_finished_run_of_stages_goes_on_with_more_steps(tmp_path, data):
    """In the stage that it ended in, even where the first stage of a run of so many steps would be longer."""
    train(settings_of("curriculum", data), tmp_path / "run")
    end = train(settings_of("curriculum", data, steps=14), tmp_path / "run", resume=True)
    assert (end.step, end.stage) == (14, 1)
    lines = journal.read(tmp_path / "run" / "metrics.jsonl")
    assert min(line["learning_rate"] for line in lines if line["kind"] == "train") >= 0


def test_a_later_stage_with_an_unknown_part_is_refused_before_the_run(tmp_path, data):
    stages = (ADAM, replace(ADAM, trains=("encoder",)))
    with pytest.raises(ValueError, match="a stage trains 'encoder', which this model does not have"):
        train(tiny_settings(data, model=MODEL, stages=stages), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_shares_must_sum_to_one():
    for shares in ((0.5,), (0.5, 0.6), ()):
        with pytest.raises(ValueError, match="must sum to 1; got"):
            TrainConfig(stages=tuple(Stage(share=share) for share in shares))
    TrainConfig(stages=tuple(Stage(share=1 / 3) for _ in range(3)))


@given(st.integers(1, 300), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_every_step_lies_in_one_stage(steps, weights):
    config = TrainConfig(steps=steps, stages=tuple(Stage(share=weight / sum(weights)) for weight in weights))
    numbers = [config.position(step / steps).number for step in range(steps)]
    assert numbers == sorted(numbers)
    firsts = [config.first_step(stage) for stage in range(len(weights))]
    for step, number in enumerate(numbers):
        assert firsts[number] <= step
        assert number == len(weights) - 1 or step < firsts[number + 1]
    assert config.position(1.0) == pytest.approx((len(weights) - 1, 1.0))


def test_other_image_sizes_are_for_coca_net_only():
    train = TrainConfig(stages=(Stage(image_size=(8, 4)),))
    with pytest.raises(ValueError, match="only a coca-net trains at other image sizes"):
        Preset("wrong", bo_qsa(), DataConfig("noise"), train)


def test_the_cost_of_a_step_is_measured_in_every_stage(monkeypatch):
    seen = []

    def spy(config, seed):
        seen.append(config.image_size)
        return cocanet.build(config, seed)

    monkeypatch.setattr("cocanet.train.estimate.build", spy)
    preset = Preset("tiny", MODEL, DataConfig("noise"), TrainConfig(batch_size=2, stages=CURRICULUM))
    assert estimate_run(preset).seconds > 0
    assert seen == [HALF, FULL]
