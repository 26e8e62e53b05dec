import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from cocanet.models.baselines.autoregressive_prior import AutoregressivePrior
from cocanet.models.baselines.gaussian import Gaussian, divergence, mixture_error
from cocanet.models.baselines.genesis_v2 import Posterior
from tests.models.baselines.genesis import reference
from tests.models.baselines.genesis.tiny import arrays, random


def gaussian(*shape: int, seed: int) -> Gaussian:
    return Gaussian(random(*shape, seed=seed), random(*shape, seed=seed + 100).abs() + 0.1)


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """An image, slot images and log masks in float64."""
    return random(2, 3, 4, 5, seed=1), random(2, 3, 3, 4, 5, seed=2), random(2, 3, 4, 5, seed=3).log_softmax(1)


def test_divergence_agrees_with_the_slow_transcription_and_with_torch():
    posterior, prior = gaussian(3, 4, 5, seed=0), gaussian(3, 4, 5, seed=1)
    sample = posterior.sample(random(3, 4, 5, seed=2))
    ours = divergence(posterior, prior, sample)
    per_number = Normal(*posterior).log_prob(sample) - Normal(*prior).log_prob(sample)
    torch.testing.assert_close(ours, per_number.sum((1, 2)))
    for i in range(3):
        expected = reference.divergence(
            sample[i].numpy(), [x[i].numpy() for x in posterior], [x[i].numpy() for x in prior]
        )
        assert float(ours[i]) == pytest.approx(expected, rel=1e-10)


def test_divergence_is_the_closed_form_on_average():
    posterior, prior = gaussian(1, 2, 3, seed=0), gaussian(1, 2, 3, seed=1)
    draws = 100_000
    many = Gaussian(*(x.expand(draws, -1, -1) for x in posterior))
    others = Gaussian(*(x.expand(draws, -1, -1) for x in prior))
    estimates = divergence(many, others, many.sample(random(draws, 2, 3, seed=5)))
    (m, s), (n, t) = posterior, prior
    closed = (torch.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5).sum()
    torch.testing.assert_close(kl_divergence(Normal(m, s), Normal(n, t)).sum(), closed)
    error = estimates.std() / math.sqrt(draws)
    assert abs(float(estimates.mean() - closed)) < 4 * float(error)
    assert float(error) < 0.01 * float(closed)


def test_a_posterior_like_its_prior_does_not_diverge():
    prior = gaussian(2, 3, 4, seed=0)
    assert torch.equal(divergence(prior, prior, random(2, 3, 4, seed=1)), torch.zeros(2, dtype=torch.float64))


def test_mixture_error_agrees_with_the_slow_transcription():
    image, slot_images, log_masks = scene()
    ours = mixture_error(image, slot_images, log_masks, 0.7)
    for i in range(2):
        expected = reference.mixture_error(image[i].numpy(), slot_images[i].numpy(), log_masks[i].exp().numpy(), 0.7)
        assert float(ours[i]) == pytest.approx(expected, rel=1e-12)


def test_mixture_error_of_slots_that_hide_each_other_is_finite_and_has_a_gradient():
    image, slot_images, _ = scene()
    logits = torch.tensor([0.0, -1e4, -2e4]).view(1, 3, 1, 1).expand(2, 3, 4, 5).clone().requires_grad_()
    error = mixture_error(image.float(), slot_images.float(), logits.log_softmax(1), 0.7)
    error.sum().backward()
    assert error.isfinite().all()
    assert logits.grad.isfinite().all()


def test_the_goal_is_a_squared_error_of_0_0032():
    # With one slot that paints every pixel wrong by r: log(0.7 sqrt(2π)) + r² / (2 · 0.49) per number.
    image = torch.full((1, 3, 2, 2), 0.5, dtype=torch.float64)
    for squared, expected in ((0.0, 0.56226), (0.0032, 0.5655)):
        slot = (image + math.sqrt(squared)).unsqueeze(1)
        per_number = mixture_error(image, slot, image.new_zeros(1, 1, 2, 2), 0.7) / 12
        assert float(per_number) == pytest.approx(expected, abs=5e-5)


def test_gradients():
    image, slot_images, log_masks = (x[:1, ..., :2, :2].clone() for x in scene())
    assert torch.autograd.gradcheck(
        lambda s, m: mixture_error(image, s, m.log_softmax(1), 0.7),
        (slot_images.requires_grad_(), log_masks.requires_grad_()),
    )
    posterior, prior, noise = gaussian(1, 2, 3, seed=0), gaussian(1, 2, 3, seed=1), random(1, 2, 3, seed=2)
    values = [x.requires_grad_() for x in (*posterior, *prior)]
    assert torch.autograd.gradcheck(
        lambda m, s, n, t: divergence(Gaussian(m, s), Gaussian(n, t), Gaussian(m, s).sample(noise)), values
    )


def test_prior_agrees_with_the_slow_transcription():
    torch.manual_seed(0)
    prior, slots = AutoregressivePrior(6).double(), random(2, 5, 6)
    ours = prior(slots)
    for i in range(2):
        mean, deviation = reference.prior(slots[i].numpy(), arrays(prior))
        np.testing.assert_allclose(ours.mean[i].detach().numpy(), mean, atol=1e-12)
        np.testing.assert_allclose(ours.deviation[i].detach().numpy(), deviation, atol=1e-12)


def test_prior_of_a_slot_depends_on_those_before_it_alone():
    torch.manual_seed(0)
    prior, slots = AutoregressivePrior(6), random(1, 5, 6).float()
    before = prior(slots).mean
    changed = slots.clone()
    changed[:, 2] += 1
    differs = (prior(changed).mean != before).any(-1)[0]
    assert differs.tolist() == [False, False, False, True, True]


def test_posterior_agrees_with_the_slow_transcription():
    torch.manual_seed(0)
    posterior, features = Posterior(8).double(), random(2, 8, 3, 4)
    masks = random(2, 4, 12, seed=1).softmax(1)
    ours = posterior(features, masks)
    look = posterior.look(features).flatten(2).detach().numpy()
    for i in range(2):
        mean, deviation = reference.posterior(look[i], masks[i].numpy(), arrays(posterior))
        np.testing.assert_allclose(ours.mean[i].detach().numpy(), mean, atol=1e-10)
        np.testing.assert_allclose(ours.deviation[i].detach().numpy(), deviation, atol=1e-10)
