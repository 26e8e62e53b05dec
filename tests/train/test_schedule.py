import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import cocanet
from cocanet.config import TrainConfig
from cocanet.models.model import reconstruction_loss
from cocanet.train.loss import Objective, colour_code, described, mask_guidance
from cocanet.train.optimiser import learning_rate_factor
from tests.tiny import images, small

ENTROPY = 0.01


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
    plain = Objective(model, TrainConfig())
    term = mask_guidance(model(x))
    for start in (0.1, 0.4):
        guided = Objective(model, TrainConfig(mask_guidance=0.1, guided_from=start))
        for late, share in ((-start, 0.0), (0.0, 0.0), (0.1, 0.5), (0.2, 1.0), (0.6, 1.0)):
            done = start + late
            torch.testing.assert_close(guided(x, done) - plain(x, done), 0.1 * share * term, atol=1e-6, rtol=1e-4)


def test_colour_code_of_a_two_coloured_image():
    """A quarter of the image is red, the rest grey: what each division of it costs, by hand."""
    image = torch.full((1, 3, 8, 8), 0.5)
    image[:, :, :4, :4] = torch.tensor([1.0, 0.0, 0.0])[:, None, None]
    corner, left = torch.zeros(2, 8, 8)
    corner[:4, :4], left[:, :4] = 1, 1

    def cost(*masks: torch.Tensor) -> float:
        return colour_code(torch.stack(masks)[None], image, ENTROPY).item()

    def nats(*shares: float) -> float:
        return -ENTROPY * sum(share * math.log(share) for share in shares)

    unseen = 1e-4  # empty masks are floored
    whole = torch.ones(8, 8)
    assert cost(corner, 1 - corner) == pytest.approx(nats(1 / 4, 3 / 4), abs=1e-6)
    # Each of three channels is 0.5 off in a quarter of the pixels: variance 0.25 · 0.25 · 0.75.
    assert cost(whole, 0 * whole) == pytest.approx(0.25 * 0.25 * 0.75, abs=1e-4 + unseen * ENTROPY)
    # Half of the left half is red: variance 0.25 · 0.5 · 0.5 in half of the image.
    assert cost(left, 1 - left) == pytest.approx(0.25 * 0.25 / 2 + nats(0.5, 0.5), abs=1e-6)
    # One background in two masks costs more than in one.
    right = (1 - left) * (1 - corner)
    assert cost(corner, right, 1 - corner - right) > cost(corner, 1 - corner) + 0.5 * ENTROPY * 0.5


def test_colour_code_parts_an_object_from_its_background_by_gradient_alone():
    image = torch.zeros(1, 3, 8, 8)
    image[:, 1, 2:5, 2:6] = 0.8
    logits = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        colour_code(logits.softmax(1), image, ENTROPY).backward()
        optimiser.step()
    owner = logits.argmax(1)[0]
    inside = image[0, 1] > 0
    assert len(owner[inside].unique()) == 1
    assert owner[inside][0] not in owner[~inside]


def test_with_noise_the_error_counts_in_nats():
    """Two images, three descriptors, soft masks: by loops in NumPy."""
    draw = torch.Generator().manual_seed(0)
    masks, colours = torch.randn(2, 3, 4, 5, generator=draw).softmax(1).double(), torch.rand(2, 3, 4, 5, generator=draw)
    total = 0.0
    for owner, colour in zip(masks.numpy(), colours.double().numpy(), strict=True):
        area = owner.sum((1, 2))
        means = np.stack([(owner[k] * colour).sum((1, 2)) / area[k] for k in range(3)])
        error = 0.0
        for row in range(4):
            for column in range(5):
                mixed = sum(owner[k, row, column] * means[k] for k in range(3))
                error += float(((mixed - colour[:, row, column]) ** 2).sum()) / 20
        share = area / 20
        total += 1.5 * math.log(error + 0.003) - 0.4 * float((share * np.log(share)).sum())
    ours = colour_code(masks, colours.double(), 0.4, 0.003)
    assert ours.item() == pytest.approx(total / 2, rel=1e-9)


def test_described_are_the_images_themselves_unless_weighed():
    x = images(small())
    assert described(x, 1.0, 1.0, 0.0) is x
    hue = described(x, 2.0, 0.0, 0.0)
    torch.testing.assert_close(hue.mean(1), torch.zeros(2, 8, 12), atol=1e-6, rtol=0)
    torch.testing.assert_close(described(0.3 + x, 2.0, 0.0, 0.0), hue)
    grey = described(x, 0.0, 0.5, 0.0)
    torch.testing.assert_close(grey, 0.5 * x.mean(1, keepdim=True).expand_as(x))
    torch.testing.assert_close(described(x, 2.0, 0.5, 0.0), hue + grey)


def test_texture_is_the_deviation_of_brightness_around_each_pixel():
    x = images(small())
    found = described(x, 1.0, 1.0, 0.7)
    assert found.shape == (2, 5, 8, 12)
    assert torch.equal(found[:, :3], x)
    brightness = x[1].mean(0).double().numpy()
    for channel, reach in ((3, 2), (4, 4)):
        padded = np.pad(brightness, reach, mode="edge")
        for row, column in ((0, 0), (3, 7), (7, 11)):
            square = padded[row : row + 2 * reach + 1, column : column + 2 * reach + 1]
            assert found[1, channel, row, column].item() == pytest.approx(0.7 * square.std(), abs=1e-4)
    flat = described(torch.full((1, 3, 8, 12), 0.4), 1.0, 1.0, 1.0)
    assert flat[:, 3:].abs().max() < 1e-3


def test_objective_adds_the_colour_code():
    model, x = cocanet.build(small(), seed=0), images(small())
    plain = Objective(model, TrainConfig())
    coded = Objective(model, TrainConfig(colour_code=3.0, colour_entropy=0.2))
    expected = 3 * colour_code(model(x).encoder_masks, x, 0.2)
    torch.testing.assert_close(coded(x) - plain(x), expected, atol=1e-6, rtol=1e-4)


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
