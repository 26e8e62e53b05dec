"""Losses of a stage."""

from __future__ import annotations

import pytest
import torch

import cocanet
from cocanet.config import ConvConfig, DataConfig, DecoderConfig, Preset, Reconstruction, Stage, TrainConfig
from cocanet.models.model import reconstruction_loss
from cocanet.train.losses import Objective, sampled_reconstruction
from tests.tiny import images, small

POINTWISE = small(decoder=DecoderConfig((8, 12), (ConvConfig(8, 1), ConvConfig(4, 1)), octaves=2, frame="slot"))


def test_loss_is_the_squared_error_between_minus_one_and_one():
    x = images(small())
    out = cocanet.build(small(), seed=0)(x)
    expected = torch.nn.functional.mse_loss(2 * out.reconstruction - 1, 2 * x - 1)
    torch.testing.assert_close(reconstruction_loss(out, x), expected)


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_a_sample_of_all_pixels_has_the_loss_and_gradients_of_the_image():
    model, x = cocanet.build(POINTWISE, seed=0).double(), images(POINTWISE).double()
    whole, sampled = model.loss(model(x), x), sampled_reconstruction(model, x, 1.0)
    torch.testing.assert_close(sampled, whole)
    expected, found = gradients(model, whole), gradients(model, sampled)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


def test_samples_of_pixels_have_the_loss_of_the_image_on_average():
    model, x = cocanet.build(POINTWISE, seed=0), images(POINTWISE)
    with torch.no_grad():
        whole = model.loss(model(x), x).item()
        torch.manual_seed(0)
        draws = torch.stack([sampled_reconstruction(model, x, 0.1) for _ in range(60)])
    error = draws.std() / len(draws) ** 0.5
    assert draws.std() > 1e-3
    assert draws.mean().item() == pytest.approx(whole, abs=4 * error.item())
    assert error < 0.03 * whole


def test_an_objective_sums_its_weighted_losses():
    model, x = cocanet.build(POINTWISE, seed=0), images(POINTWISE)
    whole = model.loss(model(x), x)
    losses = (Reconstruction(weight=0.5), Reconstruction(weight=2.0, pixels=0.25))
    torch.manual_seed(3)
    found = Objective(model, Stage(losses=losses))(x)
    torch.manual_seed(3)
    torch.testing.assert_close(found, 0.5 * whole + 2 * sampled_reconstruction(model, x, 0.25))


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_of_pixels_lies_between_0_and_1(share):
    with pytest.raises(ValueError, match=f"expected more than 0 and at most 1, got {share}"):
        Reconstruction(pixels=share)


def test_only_a_pointwise_decoder_has_a_loss_on_a_share_of_the_pixels():
    train = TrainConfig(stages=(Stage(losses=(Reconstruction(pixels=0.5),)),))
    Preset("fine", POINTWISE, DataConfig("noise"), train)
    for model in (small(), cocanet.presets.find("bo-qsa-tetrominoes").model, cocanet.presets.birds().model):
        with pytest.raises(ValueError, match=r"needs a pointwise decoder; got 0\.5"):
            Preset("wrong", model, DataConfig("noise"), train)
