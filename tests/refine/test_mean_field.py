"""Mean-field refinement against slow loops over pixels, and what must hold of it for any masks."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from cocanet.config import RefineConfig
from cocanet.refine import refine
from cocanet.refine.mean_field import (
    mean_field,
    pairwise_messages,
    pairwise_weights,
    small_segment_prior,
    unary_log_likelihood,
)
from cocanet.refine.merge import POSITION_VARIANCE, merge_components

CONFIG = RefineConfig(
    rounds=3,
    pairwise_weight=4.0,
    colour_sigma=0.3,
    radius=2,
    small_segment_prior=0.7,
    min_area=0.01,
    unary_weight=0.8,
    noise=0.02,
    brightness_weight=0.6,
    merge=False,
)


def scene(batch: int = 2, slots: int = 3, size: tuple[int, int] = (5, 7), seed: int = 0):
    draw = torch.Generator().manual_seed(seed)
    masks = (3 * torch.randn(batch, slots, *size, generator=draw, dtype=torch.float64)).softmax(1)
    return masks, torch.rand(batch, 3, *size, generator=draw, dtype=torch.float64)


def messages_by_loop(masks: np.ndarray, image: np.ndarray, radius: int, sigma: float) -> np.ndarray:
    slots, height, width = masks.shape
    line = range(-radius, radius + 1)
    total = sum(math.exp(-(r * r + c * c) / 2) for r in line for c in line) - 1
    out = np.zeros_like(masks)
    for row in range(height):
        for column in range(width):
            for r in line:
                for c in line:
                    if r == c == 0:
                        continue
                    there = min(max(row + r, 0), height - 1), min(max(column + c, 0), width - 1)
                    difference = sum((image[:, row, column] - image[:, there[0], there[1]]) ** 2)
                    weight = math.exp(-(r * r + c * c) / 2) / total * math.exp(-difference / (2 * sigma**2))
                    for slot in range(slots):
                        out[slot, row, column] += weight * masks[slot, there[0], there[1]]
    return out


def log_normal(point: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Without the constant that is the same for all slots."""
    offset = point - mean
    return float(-0.5 * offset @ np.linalg.inv(covariance) @ offset - 0.5 * math.log(np.linalg.det(covariance)))


def likelihood_by_loop(masks: np.ndarray, image: np.ndarray, noise: float) -> np.ndarray:
    slots, height, width = masks.shape
    places = [(row, column) for row in range(height) for column in range(width)]
    position = {(r, c): np.array([2 * r / (height - 1) - 1, 2 * c / (width - 1) - 1]) for r, c in places}
    out = np.zeros_like(masks)
    for slot in range(slots):
        area = sum(masks[slot][place] for place in places)
        colour = sum(masks[slot][r, c] * image[:, r, c] for r, c in places) / area
        centre = sum(masks[slot][place] * position[place] for place in places) / area
        spread = sum(masks[slot][r, c] * sum((image[:, r, c] - colour) ** 2) for r, c in places) / area / 3
        covariance = POSITION_VARIANCE * np.eye(2)
        for place in places:
            offset = position[place] - centre
            covariance = covariance + masks[slot][place] / area * np.outer(offset, offset)
        for r, c in places:
            by_colour = log_normal(image[:, r, c], colour, (spread + noise) * np.eye(3))
            by_place = log_normal(position[r, c], centre, covariance)
            out[slot, r, c] = math.log(area / len(places)) + by_colour + by_place
    return out


def test_pairwise_messages_against_a_loop_over_pixels_and_neighbours():
    masks, images = scene()
    ours = pairwise_messages(masks, pairwise_weights(images, 2, 0.3))
    for index in range(2):
        expected = messages_by_loop(masks[index].numpy(), images[index].numpy(), 2, 0.3)
        np.testing.assert_allclose(ours[index].numpy(), expected, rtol=1e-9)


def test_likelihood_against_densities_computed_pixel_by_pixel():
    masks, images = scene()
    ours = unary_log_likelihood(masks, images, 0.02)
    for index in range(2):
        expected = likelihood_by_loop(masks[index].numpy(), images[index].numpy(), 0.02)
        np.testing.assert_allclose(ours[index].numpy(), expected, rtol=1e-8)


def test_rounds_against_a_slow_transcription():
    masks, images = scene(slots=4)
    in_use = torch.tensor([[True] * 4, [True, True, True, False]])
    masks = masks * in_use[..., None, None]
    masks = masks / masks.sum(1, keepdim=True)
    ours = refine(masks, images, in_use, CONFIG)
    for index in range(2):
        image, used = images[index].numpy(), in_use[index].numpy()
        image = image - (1 - CONFIG.brightness_weight) * image.mean(0)
        initial = current = masks[index].numpy()[used]
        for _ in range(CONFIG.rounds):
            share = current.mean((1, 2))
            prior = -np.log(share) - (CONFIG.min_area / share) ** 2
            logits = np.log(np.maximum(initial, 1e-6))
            logits = logits + CONFIG.pairwise_weight * messages_by_loop(current, image, 2, CONFIG.colour_sigma)
            logits = logits + CONFIG.small_segment_prior * prior[:, None, None]
            logits = logits + CONFIG.unary_weight * likelihood_by_loop(current, image, CONFIG.noise)
            current = np.exp(logits - logits.max(0))
            current = current / current.sum(0)
        np.testing.assert_allclose(ours[index].numpy()[used], current, rtol=1e-7, atol=1e-12)
        assert (ours[index].numpy()[~used] == 0).all()


def everything_in_use(masks: torch.Tensor) -> torch.Tensor:
    return torch.ones(masks.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("merge", [False, True])
def test_masks_still_sum_to_one_and_unused_slots_stay_empty(merge):
    masks, images = scene(slots=4, size=(8, 6))
    in_use = torch.tensor([[True] * 4, [True, True, False, True]])
    masks = masks * in_use[..., None, None]
    out = refine(masks / masks.sum(1, keepdim=True), images, in_use, replace(CONFIG, merge=merge))
    torch.testing.assert_close(out.sum(1), torch.ones(2, 8, 6).double())
    assert (out >= 0).all()
    assert (out[1, 2] == 0).all()


def test_a_term_without_weight_changes_nothing():
    masks, images = scene()
    weights = ("pairwise_weight", "small_segment_prior", "unary_weight")
    none = replace(CONFIG, **dict.fromkeys(weights, 0.0))
    torch.testing.assert_close(refine(masks, images, everything_in_use(masks), none), masks, rtol=1e-6, atol=1e-6)
    assert refine(masks, images, everything_in_use(masks), replace(CONFIG, rounds=0)) is masks
    for name in weights:
        alone = refine(masks, images, everything_in_use(masks), replace(none, **{name: 1.0}))
        assert (alone - masks).abs().max() > 0.01, name


@pytest.mark.parametrize("merge", [False, True])
def test_an_image_alone_is_refined_as_in_a_batch(merge):
    masks, images = scene(batch=3, size=(8, 9))
    config, in_use = replace(CONFIG, merge=merge), everything_in_use(masks)
    together = refine(masks, images, in_use, config)
    for index in range(3):
        one = slice(index, index + 1)
        torch.testing.assert_close(refine(masks[one], images[one], in_use[one], config), together[one])


def test_an_empty_slot_gives_finite_masks():
    masks, images = scene(slots=3)
    masks = torch.cat((masks[:, :2] / masks[:, :2].sum(1, keepdim=True), torch.zeros_like(masks[:, 2:])), 1)
    assert refine(masks, images, everything_in_use(masks), CONFIG).isfinite().all()


def test_a_hole_of_one_pixel_is_filled_and_a_border_goes_to_the_smaller_segment():
    """A disc with a hole, and an edge whose pixels lie half way between its colour and the background's."""
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    distance = ((rows - 7.5) ** 2 + (columns - 7.5) ** 2).sqrt()
    inside, edge = distance < 3.5, (distance >= 3.5) & (distance < 4.5)
    colour = torch.where(inside, 1.0, torch.where(edge, 0.5, 0.0))
    image = torch.stack((colour, 0 * colour, 1 - colour))[None]
    owner = inside.clone()
    owner[7, 7] = False
    masks = torch.stack((~owner, owner)).float()[None]
    masks = torch.where(edge, 0.5, masks.clamp(0.01, 0.99))
    config = RefineConfig(rounds=8, unary_weight=0.0, brightness_weight=1.0, merge=False)
    refined = refine(masks, image, everything_in_use(masks), config)[0, 1] > 0.5
    assert refined[7, 7]
    assert torch.equal(refined, inside | edge)
    without = refine(masks, image, everything_in_use(masks), replace(config, small_segment_prior=0.0))[0, 1] > 0.5
    assert without[edge].float().mean() < 0.5


def test_the_prior_is_highest_for_small_segments_but_not_for_single_pixels():
    masks = torch.zeros(1, 3, 20, 20)
    masks[0, 0], masks[0, 1, :4, :5], masks[0, 2, 10, 10] = 1.0, 1.0, 1.0
    masks[0, 0] -= masks[0, 1] + masks[0, 2]
    background, small, pixel = small_segment_prior(masks, min_area=0.01)[0].tolist()
    assert small > background > pixel
    assert small == pytest.approx(math.log(20) - 0.2**2, abs=1e-6)


def test_refine_is_mean_field_merge_and_mean_field_again():
    masks, images = scene(size=(12, 10))
    in_use, config = everything_in_use(masks), replace(CONFIG, brightness_weight=1.0)
    once = mean_field(masks, images, in_use, config)
    torch.testing.assert_close(refine(masks, images, in_use, config), once)
    merged = merge_components(once, images, in_use, min_area=config.min_area, noise=config.noise)
    expected = mean_field(merged, images, in_use, config)
    torch.testing.assert_close(refine(masks, images, in_use, replace(config, merge=True)), expected)


def test_bad_settings_are_named():
    for field in fields(RefineConfig):
        if field.name != "merge":
            with pytest.raises(ValueError, match=f"{field.name} must be"):
                RefineConfig(**{field.name: type(field.default)(-1)})
