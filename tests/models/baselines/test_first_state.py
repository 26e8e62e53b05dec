"""What slots and weights begin with."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tests.models.baselines import rivals

WIDE = {"channels": 16, "dim": 256}
SURELY_NOT = 1e-6
"""A chance below which a draw is not from the distribution."""


def new(config) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return rivals.CLASSES[config.kind](config)


def assert_uniform(values: torch.Tensor, bound: float) -> None:
    """Spread evenly up to a bound on both sides, and not beyond."""
    values = values.detach().flatten()
    assert 0.9 * bound < values.abs().max() <= bound * (1 + 1e-6)
    assert stats.kstest(values.numpy(), "uniform", args=(-bound, 2 * bound)).pvalue > SURELY_NOT


def assert_xavier(weight: torch.Tensor) -> None:
    """Uniform by the number of inputs and outputs, counted over all taps of a kernel."""
    assert_uniform(weight, math.sqrt(6 / (sum(weight.shape[:2]) * math.prod(weight.shape[2:]))))


def assert_recurrent(gru: nn.GRUCell) -> None:
    """Input weights by Xavier's rule, recurrent ones orthogonal as one matrix, no biases."""
    assert_xavier(gru.weight_ih)
    torch.testing.assert_close(gru.weight_hh.T @ gru.weight_hh, torch.eye(gru.hidden_size), atol=1e-5, rtol=0)
    assert not gru.bias_ih.any()
    assert not gru.bias_hh.any()


def test_weights_of_slot_attention():
    model = new(rivals.slot_attention(**WIDE))
    assert_recurrent(model.iteration.update.gru)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            begin = 1.0 if name.endswith("norm.weight") else 0.0
            assert (parameter == begin).all(), name
        elif not name.endswith("weight_hh"):
            assert_xavier(parameter)


def test_slots_of_slot_attention_come_from_one_gaussian():
    model = new(rivals.slot_attention(**WIDE))
    for parameter in (model.mean, model.log_deviation):
        assert parameter.numel() == 256  # the same for all slots
        assert_uniform(parameter, math.sqrt(6 / (1 + 256)))
    model = new(rivals.slot_attention()).train()
    with torch.no_grad():
        model.mean.copy_(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))
        model.log_deviation.copy_(torch.tensor([0.1, 0.5, 1.0, 2.0, 10.0]).log())
        torch.manual_seed(0)
        slots = model.first_slots(3000)
    draws = (slots.double() - torch.arange(-2, 3)) / torch.tensor([0.1, 0.5, 1.0, 2.0, 10.0])
    assert stats.kstest(draws.flatten().numpy(), "norm").pvalue > SURELY_NOT
    together = draws.flatten(1)
    np.testing.assert_allclose(np.cov(together.numpy(), rowvar=False), np.eye(15), atol=0.15)
    assert abs((together[1:] * together[:-1]).mean()) < 0.03


@torch.no_grad()
def test_slots_of_slot_attention_in_evaluation_are_one_draw_under_the_learned_gaussian():
    model = new(rivals.slot_attention()).eval()
    before = (model.first_slots(2) - model.mean) / model.log_deviation.exp()
    model.mean += 3
    model.log_deviation += math.log(2)
    torch.testing.assert_close(model.first_slots(2), model.mean + model.log_deviation.exp() * before)
    assert torch.equal(before[0], before[1])
    assert min((before[0, i] - before[0, j]).abs().max() for i, j in ((0, 1), (0, 2), (1, 2))) > 0.1


def test_queries_and_weights_of_bo_qsa():
    model = new(rivals.bo_qsa(**WIDE, hidden=256))
    assert model.queries.shape == (3, 256)
    assert_uniform(model.queries, math.sqrt(6 / (3 + 256)))
    iteration = model.iteration
    for layer in (iteration.query, iteration.key, iteration.value):
        assert layer.bias is None
        assert_xavier(layer.weight)
    assert_recurrent(iteration.update.gru)
    # Kaiming's rule gives a variance of 2 / inputs.
    assert iteration.update.mlp.inner.weight.std().item() == pytest.approx(math.sqrt(2 / 256), rel=0.07)


def test_weights_of_inv_sa_have_a_variance_of_one_by_the_inputs():
    model = new(rivals.inv_sa(decoder_channels=16, **WIDE))
    kinds = set()
    for name, layer in model.named_modules():
        if isinstance(layer, nn.LayerNorm):
            assert (layer.weight == 1).all(), name
            assert not layer.bias.any(), name
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            kinds.add(type(layer))
            taps = 1 if isinstance(layer, nn.Linear) else layer.kernel_size[0] ** 2
            inputs = taps * (layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels)
            standard = layer.weight.detach() * math.sqrt(inputs)
            assert standard.std().item() == pytest.approx(1, abs=0.12), name
            assert standard.abs().max() < 2.28, name
            assert layer.bias is None or not layer.bias.any(), name
    assert kinds == {nn.Linear, nn.Conv2d, nn.ConvTranspose2d}
    gru = model.update.gru
    assert (gru.weight_ih * math.sqrt(256)).std().item() == pytest.approx(1, abs=0.02)
    assert not gru.bias_ih.any()
    assert not gru.bias_hh.any()


def test_features_of_inv_sas_slots_are_learned_from_a_standard_normal_and_not_drawn():
    model = new(rivals.inv_sa(dim=256)).train()
    assert model.features.shape == (3, 256)
    assert stats.kstest(model.features.detach().flatten().numpy(), "norm").pvalue > SURELY_NOT
    given = []
    model.attention.norm_slots.register_forward_pre_hook(lambda module, arguments: given.append(arguments[0]))
    model(rivals.images(model.config))
    assert torch.equal(given[0], torch.stack((model.features, model.features)))


def test_scales_of_inv_sas_slots_are_normal_above_the_least():
    torch.manual_seed(0)
    scales = new(rivals.inv_sa()).train().first_frames(3000).scales.flatten().double().numpy()
    normal = stats.norm(0.1, 0.1)
    least = np.isclose(scales, 0.001)
    assert least.mean() == pytest.approx(normal.cdf(0.001), abs=0.015)
    ranks = (normal.cdf(scales[~least]) - normal.cdf(0.001)) / normal.sf(0.001)
    assert stats.kstest(ranks, "uniform").pvalue > SURELY_NOT
