from dataclasses import replace

import pytest
import torch

import cocanet
from cocanet.config import TrainConfig
from cocanet.models.model import reconstruction_loss
from cocanet.train.loss import Objective, mask_guidance
from cocanet.train.optimiser import learning_rate_factor
from tests.models.test_coca_net import images, small


def test_loss_is_the_squared_error_between_minus_one_and_one():
    x = images(small())
    out = cocanet.build(small(), seed=0)(x)
    expected = torch.nn.functional.mse_loss(2 * out.mixture - 1, 2 * x - 1)
    torch.testing.assert_close(reconstruction_loss(out, x), expected)


def test_guidance_is_zero_where_decoder_and_encoder_agree_and_leaves_the_encoder_alone():
    out = cocanet.build(small(), seed=0)(images(small()))
    encoder = out.encoder_masks.detach().requires_grad_()
    owner = torch.nn.functional.one_hot(encoder.argmax(1), encoder.shape[1]).movedim(-1, 1).float()
    agreeing = replace(out, decoder_masks=owner, encoder_masks=encoder)
    assert mask_guidance(agreeing).item() == 0
    opposed = replace(out, decoder_masks=owner.roll(1, 1), encoder_masks=encoder)
    assert mask_guidance(opposed) > 10
    mask_guidance(out).backward()
    assert encoder.grad is None


def test_guidance_comes_in_the_middle_of_a_run():
    model, x = cocanet.build(small(), seed=0), images(small())
    plain, guided = Objective(model), Objective(model, guidance=0.1)
    term = mask_guidance(model(x))
    for done, share in ((0.0, 0.0), (0.4, 0.0), (0.5, 0.5), (0.6, 1.0), (1.0, 1.0)):
        torch.testing.assert_close(guided(x, done) - plain(x, done), 0.1 * share * term, atol=1e-6, rtol=1e-4)


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
