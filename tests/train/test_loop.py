"""A run from start to end, and what must happen on the way."""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import cocanet
from cocanet.config import Adam, Schedule
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.splits import open_split
from cocanet.evaluate.protocol import evaluate
from cocanet.io.trained import open_model
from cocanet.io.weights import read_weights
from cocanet.models.model import reconstruction_loss
from cocanet.train import loop, validate
from cocanet.train.interrupt import Stopped
from cocanet.train.loop import train
from cocanet.train.optimiser import learning_rate_factor
from tests.tiny import small
from tests.train.runs import (
    STAGE,
    assert_same_run,
    interrupt_at,
    losses,
    noise_store,
    stop_at,
    tiny_settings,
    validations,
)


@pytest.fixture
def data(tmp_path):
    return noise_store(tmp_path / "data")


def test_a_run_is_the_plain_loop(tmp_path, data):
    stage = replace(STAGE, optimiser=Adam(3e-3, weight_decay=1e-3))
    settings = tiny_settings(data, clip_norm=0.5, crop_padding=1, stages=(stage,))
    train(settings, tmp_path / "run")
    model = cocanet.build(settings.preset, seed=0)
    adam = torch.optim.Adam(model.parameters(), lr=1.0, weight_decay=1e-3, fused=True)
    images = open_split(settings.preset.data, "train", data)
    expected = []
    for step, batch in zip(range(6), Loader(images, LoaderConfig(4, seed=0, pad=1)), strict=False):
        adam.param_groups[0]["lr"] = 3e-3 * learning_rate_factor(stage.schedule, step, 6)
        adam.zero_grad()
        loss = reconstruction_loss(model(batch.images), batch.images)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        adam.step()
        expected.append((step + 1, loss.item()))
    assert [step for step, _ in losses(tmp_path / "run")] == [step for step, _ in expected]
    torch.testing.assert_close(
        torch.tensor([loss for _, loss in losses(tmp_path / "run")]), torch.tensor([loss for _, loss in expected])
    )
    trained = open_model(tmp_path / "run").model.state_dict()
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(trained[name], weight, rtol=1e-4, atol=1e-6)


def test_training_lowers_the_loss_and_repeats_exactly(tmp_path, data):
    for name in ("one", "two"):
        train(tiny_settings(data, steps=12), tmp_path / name)
    first = losses(tmp_path / "one")
    assert first[-1][1] < 0.9 * first[0][1]
    assert losses(tmp_path / "two") == first


def test_another_seed_is_another_run(tmp_path, data):
    for seed in (0, 1):
        train(tiny_settings(data, {"seed": seed}), tmp_path / str(seed))
    assert losses(tmp_path / "0")[0] != losses(tmp_path / "1")[0]


def test_what_a_run_leaves_behind(tmp_path, data, real_pictures):
    train(tiny_settings(data, {"validate_every": 3}), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        ".coca-output", "best.safetensors", "last.safetensors", "log.txt", "metrics.jsonl", "pictures",
        "previous.safetensors", "run.json",
    ]  # fmt: skip
    assert [line["step"] for line in validations(tmp_path / "run")] == [3, 6]
    assert sorted(path.name for path in (tmp_path / "run" / "pictures").iterdir()) == [
        "step-000003.png",
        "step-000006.png",
    ]
    assert Image.open(tmp_path / "run" / "pictures" / "step-000006.png").width > 100
    best = read_weights(tmp_path / "run" / "best.safetensors").notes
    by_error = min(validations(tmp_path / "run"), key=lambda line: line["scores"]["mse"])
    assert best["step"] == by_error["step"]
    assert best["scores"] == by_error["scores"]


def test_the_best_weights_are_those_of_the_lowest_error(tmp_path, data, monkeypatch):
    errors = iter((0.3, 0.1, 0.2))

    def scored(*arguments, **options):
        return validate.Validation(images=3, scores={"mse": next(errors)}, diagnoses=[])

    monkeypatch.setattr(loop, "validate", scored)
    train(tiny_settings(data, {"validate_every": 2}), tmp_path / "run")
    assert read_weights(tmp_path / "run" / "best.safetensors").notes["step"] == 4


def test_validation_sees_the_images_as_they_are(tmp_path, data):
    """Whatever training crops: the scores are those of the last weights on the plain images of the split."""
    settings = tiny_settings(data, crop_padding=3)
    train(settings, tmp_path / "run")
    split = open_split(settings.preset.data, "validation", data)
    pixels, labels = (torch.from_numpy(array) for array in split.gather(np.arange(len(split))))
    whole = Batch(pixels.permute(0, 3, 1, 2).float() / 255, labels.long(), torch.arange(len(split)))
    expected = evaluate(open_model(tmp_path / "run").model, [whole], background_labels=2)
    scores = validations(tmp_path / "run")[-1]["scores"]
    assert {name: scores[name] for name in expected} == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_unlabelled_images_have_no_scores_that_need_labels(tmp_path):
    train(tiny_settings(noise_store(tmp_path / "bare", labelled=False)), tmp_path / "run")
    scores = validations(tmp_path / "run")[-1]["scores"]
    assert set(scores) == {"mse", "decoder_slots", "encoder_slots", "slots"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_goes_on_as_if_nothing_had_happened(tmp_path, data, monkeypatch, number):
    settings = tiny_settings(data, {"checkpoint_every": 100, "log_every": 2})
    train(settings, tmp_path / "whole")
    handler = signal.getsignal(number)
    with monkeypatch.context() as patch:
        interrupt_at(patch, number, step=2)
        with pytest.raises(Stopped, match=r"SIG\w+: saved step 3 in .*--resume") as stopped:
            train(settings, tmp_path / "run")
    assert stopped.value.signal == number
    assert signal.getsignal(number) is handler
    train(settings, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_signal_during_a_validation_is_not_lost(tmp_path, data, monkeypatch):
    validation = loop.run_validation

    def interrupted(session, done):
        validation(session, done)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(loop, "run_validation", interrupted)
    with pytest.raises(Stopped, match="SIGTERM: saved step 3"):
        train(tiny_settings(data, {"validate_every": 2}), tmp_path / "run")


def test_a_resumed_run_that_forgets_its_place_is_noticed(tmp_path, data, monkeypatch):
    """The tests of resuming can fail: without the loader's position the losses differ."""
    train(tiny_settings(data), tmp_path / "whole")
    stop_at(tiny_settings(data), tmp_path / "run", 3)
    monkeypatch.setattr(Loader, "load_state", lambda self, state: None)
    train(tiny_settings(data), tmp_path / "run", resume=True)
    assert losses(tmp_path / "run")[:3] == losses(tmp_path / "whole")[:3]
    assert losses(tmp_path / "run")[3:] != losses(tmp_path / "whole")[3:]


def test_random_anchors_resume_too(tmp_path, data):
    settings = tiny_settings(data, model=small(anchors="random"))
    train(settings, tmp_path / "whole")
    stop_at(settings, tmp_path / "run", 3)
    torch.rand(7)  # whatever else has drawn in the meantime
    train(settings, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_finished_run_stays_as_it_is(tmp_path, data):
    train(tiny_settings(data), tmp_path / "run")
    before = (tmp_path / "run" / "last.safetensors").read_bytes()
    assert train(tiny_settings(data), tmp_path / "run", resume=True).step == 6
    assert (tmp_path / "run" / "last.safetensors").read_bytes() == before


def test_a_finished_run_goes_on_with_more_steps(tmp_path, data):
    constant = (replace(STAGE, schedule=Schedule(warmup=0.0, decay="constant")),)
    train(tiny_settings(data, stages=constant), tmp_path / "run")
    assert train(tiny_settings(data, stages=constant, steps=9), tmp_path / "run", resume=True).step == 9
    train(tiny_settings(data, stages=constant, steps=9), tmp_path / "whole")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_minutes_bound_a_run_and_bend_the_learning_rate(tmp_path, data, monkeypatch):
    """By a clock that goes on by 0.05 seconds each time that it is read."""
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=(0.05 * tick for tick in count()).__next__))
    run = {"minutes": 2.0 / 60, "validate_every": 10_000}
    stage = replace(STAGE, schedule=Schedule(warmup=0.5, half_life=1.0))
    end = train(tiny_settings(data, run, steps=1000, stages=(stage,)), tmp_path / "run")
    assert 2.0 <= end.seconds < 2.2
    lines = [line for line in loop.journal.read(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    rates = [line["learning_rate"] for line in lines]
    peak = rates.index(max(rates))
    # Half of the run is warm-up, so the peak lies near the middle of the time.
    assert 0.4 < lines[peak]["seconds"] / end.seconds < 0.6
    assert rates[0] < 0.5 * max(rates)


def slow_validation(monkeypatch, seconds_a_batch: float) -> list[int]:
    """Validation on a clock that each batch moves on; returns how many images each validation scored."""
    scored, clock = [], [0.0]
    plain, plain_validate = validate.SegmentationScores.update, validate.validate

    def update(self, *arguments):
        clock[0] += seconds_a_batch
        plain(self, *arguments)

    def noted(*arguments, **options):
        found = plain_validate(*arguments, **options)
        scored.append(found.images)
        return found

    monkeypatch.setattr(validate.SegmentationScores, "update", update)
    monkeypatch.setattr(validate, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(validate, "LEAST_BATCH", 4)
    monkeypatch.setattr(loop, "validate", noted)
    return scored


@pytest.mark.parametrize(("cost", "images"), [(0.0005, 10), (0.0045, 8), (1.0, 4)])
def test_a_validation_of_a_timed_run_scores_as_many_images_as_there_is_time_for(tmp_path, monkeypatch, cost, images):
    """A tenth of a second for twenty validations is 5 milliseconds for each, and the first one decides."""
    data = noise_store(tmp_path / "data", count=100)
    scored = slow_validation(monkeypatch, cost)
    train(tiny_settings(data, {"minutes": 1.0 / 60}), tmp_path / "run")
    assert len(scored) >= 2
    assert set(scored) == {images}
    lines = [line for line in loop.journal.read(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "validation"]
    assert [line["scored"] for line in lines] == scored


def test_validations_at_fixed_intervals_and_in_runs_by_steps_score_all_images(tmp_path, monkeypatch):
    data = noise_store(tmp_path / "data", count=100)
    scored = slow_validation(monkeypatch, 1.0)
    train(tiny_settings(data), tmp_path / "steps")
    train(tiny_settings(data, {"minutes": 1.0 / 60, "validate_every": 5}), tmp_path / "timed")
    assert set(scored) == {10}


def test_a_loss_that_is_not_finite_stops_with_step_images_and_advice(tmp_path, data, monkeypatch):
    plain = reconstruction_loss

    def poisoned(output, images):
        poisoned.calls += 1
        return plain(output, images) * (math.nan if poisoned.calls == 5 else 1)

    poisoned.calls = 0
    monkeypatch.setattr("cocanet.models.model.reconstruction_loss", poisoned)
    with pytest.raises(
        ValueError, match=r"loss is nan at step 4, on images \[\d+(, \d+){3}\]; .*intact.*--clip-norm .*--stages\.0"
    ):
        train(tiny_settings(data), tmp_path / "run")
    assert open_model(tmp_path / "run").step == 4
    assert "loss is nan" in (tmp_path / "run" / "log.txt").read_text()


def test_weights_that_are_not_finite_are_never_saved(tmp_path, data, monkeypatch):
    plain = torch.optim.Adam.step

    def spoiling(self, closure=None):
        plain(self, closure)
        spoiling.calls += 1
        if spoiling.calls == 4:
            self.param_groups[0]["params"][0].data.fill_(math.inf)

    spoiling.calls = 0
    monkeypatch.setattr(torch.optim.Adam, "step", spoiling)
    with pytest.raises(ValueError, match=r"step 4 left .* without finite values, so it is not saved"):
        train(tiny_settings(data), tmp_path / "run")
    assert open_model(tmp_path / "run").step == 2


def test_bfloat16_trains_close_to_float32(tmp_path, data):
    for precision in ("32", "bf16"):
        train(tiny_settings(data, {"precision": precision}), tmp_path / precision)
    exact, rough = (dict(losses(tmp_path / precision)) for precision in ("32", "bf16"))
    assert exact != rough
    assert rough[1] == pytest.approx(exact[1], rel=0.05)
