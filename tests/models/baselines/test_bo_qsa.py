"""BO-QSA: gradients of its two levels, its noise, dropped paths and initial weights."""

import math

import pytest
import torch

from tests.models.baselines import baselines
from tests.models.baselines.baselines import WIDE, assert_recurrent, assert_uniform, assert_xavier, new


@pytest.mark.parametrize("iterations", [1, 3])
def test_queries_get_the_gradient_of_the_slots_entering_the_last_iteration(iterations):
    config = baselines.bo_qsa(iterations=iterations)
    model, x = baselines.make(config).train(), baselines.images(config, 3)
    entering = []

    def keep(module, arguments):
        if torch.is_grad_enabled():
            arguments[1].retain_grad()
            entering.append(arguments[1])

    model.iteration.register_forward_pre_hook(keep)
    model.loss(model(x), x).backward()
    (slots,) = entering
    assert slots.grad.abs().max() > 0
    torch.testing.assert_close(model.queries.grad, slots.grad.sum(0))


def depth(tensor: torch.Tensor) -> int:
    """Longest way from a result back to a leaf."""
    deepest, level, seen = 0, {tensor.grad_fn}, 0
    while level:
        level = {after for node in level for after, _ in node.next_functions if after is not None}
        deepest += 1
        seen += len(level)
        assert seen < 100_000
    return deepest


def test_iterations_do_not_deepen_the_graph():
    depths = []
    for iterations in (1, 2, 6):
        config = baselines.bo_qsa(iterations=iterations)
        model, x = baselines.make(config).eval(), baselines.images(config)
        depths.append(depth(model.loss(model(x), x)))
    assert depths[0] == depths[1] == depths[2]
    other = [baselines.make(baselines.slot_attention(iterations=number)) for number in (1, 3)]
    x = baselines.images(baselines.slot_attention())
    assert depth(other[0](x).reconstruction) < depth(other[1](x).reconstruction)


def test_gradients_are_those_of_the_last_iteration_from_fixed_slots():
    config = baselines.bo_qsa(iterations=3)
    model, x = baselines.make(config).eval(), baselines.images(config)
    model.loss(model(x), x).backward()
    ours = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    inputs = model.norm(model.encoder(2 * x - 1))
    slots = model.queries.detach().expand(2, -1, -1)
    for _ in range(2):
        slots = model.iteration(inputs, slots).slots.detach()
    decoded = baselines.decode(model, model.iteration(inputs, slots).slots)
    (4 * (decoded.reconstruction - x).square().mean()).backward()
    for name, parameter in model.named_parameters():
        if name != "queries":
            torch.testing.assert_close(ours[name], parameter.grad, msg=name)


def test_noise_falls_by_half_a_cosine_over_the_first_eighth_of_the_run():
    model = baselines.make(baselines.bo_qsa())
    for step, expected in ((0, 1.0), (10_000, 0.75), (15_000, 0.5), (30_000, 0.0), (100_000, 0.0), (250_000, 0.0)):
        model.anneal(step / 250_000)
        assert math.isclose(model.noise.item(), expected, abs_tol=1e-6)
    assert model.noise.item() == 0
    assert "noise" in model.state_dict()


def test_without_noise_training_is_deterministic():
    config = baselines.bo_qsa(drop_path=0.0)
    model, x = baselines.make(config).train(), baselines.images(config)
    assert not torch.equal(model(x).slots, model(x).slots)
    model.anneal(1.0)
    assert torch.equal(model(x).slots, model(x).slots)
    assert torch.equal(model(x).slots, model.eval()(x).slots)


def test_noise_is_in_proportion_to_the_queries_and_to_its_level():
    model = baselines.make(baselines.bo_qsa()).train()
    model.anneal(0.06)
    ratios = (model.first_slots(4000) / model.queries).detach() - 1
    torch.testing.assert_close(ratios.std(0), torch.full((3, 5), 0.5), atol=0.03, rtol=0)
    torch.testing.assert_close(ratios.mean(0), torch.zeros(3, 5), atol=0.05, rtol=0)


def test_dropped_paths_keep_the_mean_and_whole_images():
    update = baselines.make(baselines.bo_qsa(drop_path=0.25)).iteration.update.train()
    slots, taken = torch.randn(1, 3, 5).expand(4000, -1, -1), torch.randn(1, 3, 5).expand(4000, -1, -1)
    whole = update.eval()(slots[:1], taken[:1])
    carried = update.gru(taken[0], slots[0])
    out = update.train()(slots, taken)
    dropped = (out - carried).abs().amax((1, 2)) < 1e-5
    assert 0.2 < dropped.float().mean() < 0.3
    torch.testing.assert_close(out[~dropped][0], carried + (whole[0] - carried) / 0.75)
    torch.testing.assert_close(out[~dropped], out[~dropped][:1].expand(int((~dropped).sum()), -1, -1))


def test_queries_and_weights_of_bo_qsa():
    model = new(baselines.bo_qsa(**WIDE, hidden=256))
    assert model.queries.shape == (3, 256)
    assert_uniform(model.queries, math.sqrt(6 / (3 + 256)))
    iteration = model.iteration
    for layer in (iteration.query, iteration.key, iteration.value):
        assert layer.bias is None
        assert_xavier(layer.weight)
    assert_recurrent(iteration.update.gru)
    # Kaiming's rule gives a variance of 2 / inputs.
    assert iteration.update.mlp.inner.weight.std().item() == pytest.approx(math.sqrt(2 / 256), rel=0.07)
