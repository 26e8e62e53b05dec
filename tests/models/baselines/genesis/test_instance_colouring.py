import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cocanet.models.baselines.instance_colouring import break_sticks, coordinates, first_width, likeness, limited
from tests.models.baselines.genesis import reference
from tests.models.baselines.genesis.tiny import noise_images, random, tiny_model

KERNELS = ("gaussian", "laplacian", "epanechnikov")


def scores(batch: int, pixels: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, pixels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def width(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("slots", "spread"), [(2, 1.0), (5, 0.3), (5, 3.0)])
def test_one_pass_agrees_with_the_slow_transcription(kernel, slots, spread):
    colours, draws = spread * random(3, 4, 30), scores(3, 30)
    ours = break_sticks(colours, draws, width(0.7), slots, kernel).exp()
    for index in range(3):
        expected = reference.break_sticks(colours[index].T.numpy(), draws[index].numpy(), 0.7, slots, kernel)
        np.testing.assert_allclose(ours[index].numpy(), expected, rtol=1e-10)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.floats(0.01, 100), st.floats(1e-3, 1e3), st.sampled_from(KERNELS), st.integers(0, 9))
def test_masks_sum_to_one_whatever_the_colours(slots, spread, breadth, kernel, seed):
    colours = spread * random(2, 3, 25, seed=seed).float()
    log_masks = break_sticks(colours, scores(2, 25, seed).float(), width(breadth).float(), slots, kernel)
    assert log_masks.isfinite().all()
    torch.testing.assert_close(log_masks.exp().sum(1), torch.ones(2, 25), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_colours_and_width(kernel):
    colours, draws, breadth = 0.3 * random(2, 3, 8), scores(2, 8), width(4.0)
    # Only the seeds themselves are clamped: there the true gradient is zero, as is the one that passes through.
    if kernel == "laplacian":
        # Its kink at the seed has no gradient to compare with, so there the seed is another pixel.
        one = random(2, 3, 1, seed=3)
        assert torch.autograd.gradcheck(
            lambda c, z, w: likeness(c, z, w, kernel), [t.requires_grad_() for t in (colours, one, breadth)]
        )
        return
    assert torch.autograd.gradcheck(
        lambda c, w: break_sticks(c, draws, w, 4, kernel), (colours.requires_grad_(), breadth.requires_grad_())
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_finite_where_colours_coincide(kernel):
    colours = torch.zeros(1, 3, 6, requires_grad=True)
    break_sticks(colours, scores(1, 6).float(), width(1.0).float(), 3, kernel).sum().backward()
    assert colours.grad.isfinite().all()


def test_the_clamp_lets_the_gradient_through():
    share = torch.tensor([[0.0, 0.5, 1.0]], requires_grad=True)
    clamped = limited(share)
    clamped.sum().backward()
    torch.testing.assert_close(clamped.detach(), torch.tensor([[0.01, 0.5, 0.99]]))
    assert torch.equal(share.grad, torch.ones(1, 3))


def test_a_seed_is_not_chosen_twice():
    # Eight far-apart colours: each mask takes one pixel, in the order of their scores, and the last what remains.
    colours = 100 * torch.eye(8).unsqueeze(0)
    draws = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]])
    owners = break_sticks(colours, draws, torch.tensor(1.0), 6).argmax(1)
    assert owners.tolist() == [[0, 1, 2, 3, 4, 5, 5, 5]]


def test_widths_before_training_halve_the_likeness_at_a_slots_share_of_the_square():
    # At the squared distance 1/K, a Gaussian kernel is at one half, and so is the Laplacian; the third at 1/K too.
    for slots in (4, 11):
        seed, pixel = torch.zeros(1, 1, 1), torch.full((1, 1, 1), math.sqrt(1 / slots))
        for kernel in KERNELS:
            value = likeness(pixel, seed, torch.tensor(first_width(kernel, slots)), kernel)
            assert float(value) == pytest.approx(0.5, abs=1e-5)


def test_coordinates_run_from_corner_to_corner():
    rows, columns = coordinates(3, 5)
    assert rows[:, 0].tolist() == [-1, 0, 1]
    assert columns[0].tolist() == [-1, -0.5, 0, 0.5, 1]
    assert torch.equal(rows, rows[:, :1].expand(3, 5))


def test_masks_depend_on_coordinates_only_while_the_gate_is_shut():
    images, others = noise_images(), noise_images(seed=1)
    permuted = images.flatten(2)[..., torch.randperm(256, generator=torch.Generator().manual_seed(0))].view_as(images)
    for gate, same in ((None, True), (0.0, True), (1.0, False)):
        model = tiny_model(gate=gate).eval()
        masks = model(images).encoder_masks
        assert torch.equal(model(others).encoder_masks, masks) is same
        assert torch.equal(model(permuted).encoder_masks, masks) is same
        assert torch.equal(masks[0], masks[1]) is same


def test_masks_around_shut_gates_are_round():
    # At gate 0 the first mask is a Gaussian bump around its seed: the same function of distance in all directions.
    model = tiny_model().eval()
    first = model(noise_images(1)).encoder_masks[0, 0].flatten().detach()
    seed = model.scores[0].argmax()
    place = coordinates(16, 16).flatten(1)
    squared = (place - place[:, seed, None]).square().sum(0)
    expected = torch.exp(-squared * 4 * math.log(2)).clamp(0.01, 0.99)
    torch.testing.assert_close(first, expected, atol=1e-5, rtol=1e-5)
