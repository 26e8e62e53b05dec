import pytest
import torch

import cocanet
from cocanet.config import TrainConfig
from cocanet.models.model import reconstruction_loss
from cocanet.train.optimiser import learning_rate_factor
from tests.models.test_coca_net import images, small


def test_loss_is_the_squared_error_between_minus_one_and_one():
    x = images(small())
    out = cocanet.build(small(), seed=0)(x)
    expected = torch.nn.functional.mse_loss(2 * out.mixture - 1, 2 * x - 1)
    torch.testing.assert_close(reconstruction_loss(out, x), expected)


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


@pytest.mark.parametrize("decay", ["exponential", "cosine"])
def test_a_stretched_course_has_the_same_shape(decay):
    paper = TrainConfig(decay=decay)
    short = paper.stretched(5000)
    assert (short.warmup_steps, short.half_life) == (100, 1000)
    for share in (0.01, 0.02, 0.3, 0.99):
        expected = learning_rate_factor(paper, share * paper.steps)
        assert learning_rate_factor(short, share * 5000) == pytest.approx(expected, abs=0.011)
