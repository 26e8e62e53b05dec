"""Palettes against loops over pixels, and where a figure is taken to be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cocanet.config import FeedbackConfig
from cocanet.functional.feedback import correct_masks
from cocanet.functional.palettes import binned_colours, middle_first, palette_evidence, palettes
from cocanet.train.loss import figure_code

PALETTE = FeedbackConfig(rounds=6, neighbours=3.0, contrast=0.3, figure=0.0, slots=0.0, light=1.0, palette=1.0)


def scene(slots: int = 3, size: tuple[int, int] = (5, 6), batch: int = 2):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(batch, 3, *size, generator=generator, dtype=torch.float64)
    return torch.randn(batch, slots, *size, generator=generator, dtype=torch.float64).softmax(1), images


def test_colours_are_binned_by_the_mean_of_three_by_three_pixels():
    _, images = scene()
    found = binned_colours(images)
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    for image in range(2):
        for row in range(5):
            for column in range(6):
                mean = padded[image, :, row : row + 3, column : column + 3].mean((1, 2))
                red, green, blue = (min(3, int(4 * channel)) for channel in mean)
                assert found[image, row, column] == 16 * red + 4 * green + blue
    assert binned_colours(torch.ones(1, 3, 2, 2)).eq(63).all()


def test_evidence_is_the_log_of_how_often_a_palette_has_a_colour():
    masks, images = scene()
    colours = binned_colours(images)
    found = palette_evidence(masks, colours)
    for image in range(2):
        counts = np.zeros((3, 64))
        for (row, column), colour in np.ndenumerate(colours[image].numpy()):
            for slot in range(3):
                counts[slot, colour] += masks[image, slot, row, column]
        counts = counts + 0.05 * counts.sum(0)
        for (row, column), colour in np.ndenumerate(colours[image].numpy()):
            for slot in range(3):
                expected = math.log(counts[slot, colour] / counts[slot].sum())
                assert found[image, slot, row, column].item() == pytest.approx(expected)


def test_a_palette_sums_to_one_and_none_is_sure_of_a_colour_of_the_image():
    masks, images = scene()
    masks[0, 0], masks[0, 1] = 0.0, masks[0, 0] + masks[0, 1]
    colours = binned_colours(images)
    found = palettes(masks, colours)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    assert palette_evidence(masks, colours).isfinite().all()


def test_a_thing_of_two_colours_is_parted_from_a_ground_of_two_others():
    """One mean colour cannot tell them apart: both mix black and white in equal parts."""
    thing = torch.zeros(16, 16, dtype=torch.bool)
    thing[5:12, 4:11] = True
    stripes = (torch.arange(16) // 2 % 2).bool().expand(16, 16)
    red, green, blue, yellow = (torch.tensor(c) for c in ([1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [1.0, 1.0, 0]))
    image = torch.empty(16, 16, 3)
    image[thing & stripes], image[thing & ~stripes] = red, green
    image[~thing & stripes], image[~thing & ~stripes] = blue, yellow
    image = image.permute(2, 0, 1)[None]
    begun = middle_first(torch.full((1, 2, 16, 16), 0.5), spread=0.5, trust=0.0)
    used = torch.ones(1, 2, dtype=torch.bool)
    settings = {name: getattr(PALETTE, name) for name in PALETTE.__dataclass_fields__}
    found = correct_masks(begun, image, used, **settings)
    inner = thing & (torch.nn.functional.avg_pool2d(thing[None, None].float(), 3, 1, 1)[0, 0] == 1)
    outer = ~thing & (torch.nn.functional.avg_pool2d(thing[None, None].float(), 3, 1, 1)[0, 0] == 0)
    figure = found[0].argmax(0) == found[0, :, 8, 7].argmax()
    assert figure[inner].all()
    assert not figure[outer].any()


def test_the_slot_that_lies_most_in_the_middle_is_given_it():
    masks = torch.full((1, 3, 9, 9), 0.1)
    masks[:, 1, 3:6, 3:6] = 0.8  # small, in the middle
    masks[:, 2, :2] = 0.8
    masks[:, 0] = 1 - masks[:, 1] - masks[:, 2]
    begun = middle_first(masks, spread=0.4, trust=0.0)
    torch.testing.assert_close(begun.sum(1), torch.ones(1, 9, 9))
    assert begun[0, 1, 4, 4].item() == pytest.approx(0.98, abs=1e-3)
    assert begun[0, 1, 0, 0] < 0.03
    half = begun[0, 1, 4, 0].item()
    assert half == pytest.approx(0.02 + 0.96 * math.exp(-0.5 / 0.4**2), abs=1e-3)
    around = begun[0, [0, 2], 0, 0]
    before = masks[0, [0, 2], 0, 0]
    torch.testing.assert_close(around / around.sum(), before / before.sum(), atol=1e-3, rtol=0)
    torch.testing.assert_close(middle_first(masks, spread=0.4, trust=1.0), masks)


def test_the_figure_code_is_a_cross_entropy_and_teaches_the_masks_alone():
    masks, images = scene(size=(8, 8))
    logits = masks.float().log().requires_grad_()
    made = logits.softmax(1)
    loss = figure_code(made, images.float(), PALETTE, spread=0.4, trust=0.5)
    used = torch.ones(2, 3, dtype=torch.bool)
    settings = {name: getattr(PALETTE, name) for name in PALETTE.__dataclass_fields__}
    target = correct_masks(middle_first(made.detach(), 0.4, 0.5), images.float(), used, **settings)
    assert loss.item() == pytest.approx(-(target * made.log()).sum(1).mean().item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, (made - target).detach() / 128, atol=1e-6, rtol=1e-4)
