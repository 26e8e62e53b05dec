import itertools

import pytest
import torch

import cocanet
from cocanet.config import TrainConfig
from cocanet.train.loop import fit
from cocanet.train.loss import reconstruction_loss
from cocanet.train.optimiser import learning_rate_factor
from tests.models.test_coca_net import images, small


def test_loss_is_the_squared_error_between_minus_one_and_one():
    x = images(small())
    out = cocanet.build(small(), seed=0)(x)
    expected = torch.nn.functional.mse_loss(2 * out.mixture - 1, 2 * x - 1)
    torch.testing.assert_close(reconstruction_loss(out, x), expected)


def test_training_lowers_the_loss_and_repeats_exactly():
    def run() -> list[float]:
        model, losses = cocanet.build(small(), seed=0), []
        config = TrainConfig(steps=20, learning_rate=3e-3, warmup_steps=5, clip_norm=1.0)
        fit(model, itertools.repeat(images(small())), config, lambda _, loss: losses.append(loss))
        return losses

    losses = run()
    assert len(losses) == 20
    assert losses[-1] < 0.8 * losses[0]
    assert run() == losses


def test_a_loss_that_is_not_finite_stops_the_run():
    broken = torch.full((2, 3, 8, 12), torch.nan)
    with pytest.raises(ValueError, match="loss is nan at step 0"):
        fit(cocanet.build(small(), seed=0), [broken], TrainConfig(steps=5))


def test_exponential_schedule():
    config = TrainConfig(warmup_steps=10, half_life=100)
    assert learning_rate_factor(config, 4) == pytest.approx(0.5 * 0.5**0.04)
    assert learning_rate_factor(config, 100) == pytest.approx(0.5)
    assert learning_rate_factor(config, 300) == pytest.approx(0.125)


def test_cosine_schedule_ends_at_nothing():
    config = TrainConfig(steps=110, warmup_steps=10, decay="cosine")
    assert learning_rate_factor(config, 9) == pytest.approx(1)
    assert learning_rate_factor(config, 60) == pytest.approx(0.5)
    assert learning_rate_factor(config, 110) == pytest.approx(0)
