"""Feedback against slow loops over pixels, and what must hold of it whatever the masks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cocanet.functional.feedback import (
    SPREAD,
    border_ownership,
    correct_masks,
    explanation,
    likeness,
    project_on_nodes,
    votes,
)
from cocanet.functional.ownership import up_to_last_owner

SETTINGS = {
    "rounds": 3,
    "neighbours": 4.0,
    "contrast": 0.3,
    "reach": 2,
    "figure": 0.7,
    "smallest": 0.01,
    "slots": 0.8,
    "noise": 0.02,
    "light": 0.6,
}


def scene(batch: int = 2, slots: int = 3, size: tuple[int, int] = (5, 7), seed: int = 0):
    draw = torch.Generator().manual_seed(seed)
    masks = (3 * torch.randn(batch, slots, *size, generator=draw, dtype=torch.float64)).softmax(1)
    return masks, torch.rand(batch, 3, *size, generator=draw, dtype=torch.float64)


def votes_by_loop(masks: np.ndarray, image: np.ndarray, reach: int, contrast: float) -> np.ndarray:
    slots, height, width = masks.shape
    line = range(-reach, reach + 1)
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
                    weight = math.exp(-(r * r + c * c) / 2) / total * math.exp(-difference / (2 * contrast**2))
                    for slot in range(slots):
                        out[slot, row, column] += weight * masks[slot, there[0], there[1]]
    return out


def log_normal(point: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Without the constant that all slots share."""
    offset = point - mean
    return float(-0.5 * offset @ np.linalg.inv(covariance) @ offset - 0.5 * math.log(np.linalg.det(covariance)))


def explanation_by_loop(masks: np.ndarray, image: np.ndarray, noise: float) -> np.ndarray:
    slots, height, width = masks.shape
    places = [(row, column) for row in range(height) for column in range(width)]
    position = {(r, c): np.array([2 * r / (height - 1) - 1, 2 * c / (width - 1) - 1]) for r, c in places}
    out = np.zeros_like(masks)
    for slot in range(slots):
        area = sum(masks[slot][place] for place in places)
        colour = sum(masks[slot][r, c] * image[:, r, c] for r, c in places) / area
        centre = sum(masks[slot][place] * position[place] for place in places) / area
        spread = sum(masks[slot][r, c] * sum((image[:, r, c] - colour) ** 2) for r, c in places) / area / 3
        covariance = SPREAD * np.eye(2)
        for place in places:
            offset = position[place] - centre
            covariance = covariance + masks[slot][place] / area * np.outer(offset, offset)
        for r, c in places:
            by_colour = log_normal(image[:, r, c], colour, (spread + noise) * np.eye(3))
            by_place = log_normal(position[r, c], centre, covariance)
            out[slot, r, c] = math.log(area / len(places)) + by_colour + by_place
    return out


def test_votes_against_a_loop_over_pixels_and_neighbours():
    masks, images = scene()
    ours = votes(masks, likeness(images, 2, 0.3))
    for index in range(2):
        expected = votes_by_loop(masks[index].numpy(), images[index].numpy(), 2, 0.3)
        np.testing.assert_allclose(ours[index].numpy(), expected, rtol=1e-9)


def test_explanation_against_densities_computed_pixel_by_pixel():
    masks, images = scene()
    ours = explanation(masks, images, 0.02)
    for index in range(2):
        expected = explanation_by_loop(masks[index].numpy(), images[index].numpy(), 0.02)
        np.testing.assert_allclose(ours[index].numpy(), expected, rtol=1e-8)


def test_rounds_against_a_slow_transcription():
    masks, images = scene(slots=4)
    in_use = torch.tensor([[True] * 4, [True, True, True, False]])
    masks = masks * in_use[..., None, None]
    masks = masks / masks.sum(1, keepdim=True)
    ours = correct_masks(masks, images, in_use, **SETTINGS)
    for index in range(2):
        image, used = images[index].numpy(), in_use[index].numpy()
        image = image - 0.4 * image.mean(0)
        below = current = masks[index].numpy()[used]
        for _ in range(SETTINGS["rounds"]):
            share = current.mean((1, 2))
            own = -np.log(share) - (SETTINGS["smallest"] / share) ** 2
            logits = np.log(np.maximum(below, 1e-6))
            logits = logits + SETTINGS["neighbours"] * votes_by_loop(current, image, 2, SETTINGS["contrast"])
            logits = logits + SETTINGS["figure"] * own[:, None, None]
            logits = logits + SETTINGS["slots"] * explanation_by_loop(current, image, SETTINGS["noise"])
            current = np.exp(logits - logits.max(0))
            current = current / current.sum(0)
        np.testing.assert_allclose(ours[index].numpy()[used], current, rtol=1e-7, atol=1e-12)
        assert (ours[index].numpy()[~used] == 0).all()


def test_masks_still_sum_to_one_and_no_rounds_change_nothing():
    masks, images = scene(size=(8, 6))
    in_use = torch.ones(2, 3, dtype=torch.bool)
    torch.testing.assert_close(correct_masks(masks, images, in_use, **SETTINGS).sum(1), torch.ones(2, 8, 6).double())
    assert correct_masks(masks, images, in_use, **SETTINGS | {"rounds": 0}) is masks


def test_a_weight_of_nothing_silences_a_voice():
    masks, images = scene()
    in_use = torch.ones(2, 3, dtype=torch.bool)
    silent = SETTINGS | {"neighbours": 0.0, "figure": 0.0, "slots": 0.0}
    torch.testing.assert_close(correct_masks(masks, images, in_use, **silent), masks, rtol=1e-6, atol=1e-6)
    for voice in ("neighbours", "figure", "slots"):
        alone = correct_masks(masks, images, in_use, **silent | {voice: 1.0})
        assert (alone - masks).abs().max() > 0.01, voice


@pytest.mark.parametrize("way", [{"regroup": True}, {"level": 2.0}], ids=["two things apart", "a stack"])
def test_spare_slots_get_what_is_grouped_anew_or_cut_off(way):
    """Two red things in one slot, on a ground in another; two slots of four are not in use."""
    thing = torch.zeros(2, 32, 32, dtype=torch.bool)
    thing[0, 4:10, 8:12] = True
    thing[1, 10:16, 6:14] = True
    if "regroup" in way:
        thing[1] = thing[1].roll((8, 12), (0, 1))
    masks = torch.zeros(1, 4, 32, 32)
    masks[0, 0], masks[0, 1] = ~thing.any(0), thing.any(0)
    image = 0.2 + masks[:, 1:2] * torch.tensor([0.6, 0.0, 0.1]).view(1, 3, 1, 1)
    in_use = torch.tensor([[True, True, False, False]])
    without = correct_masks(masks, image, in_use, **SETTINGS | way)
    assert (without[:, 2:] == 0).all()
    for spare in (~in_use, torch.tensor([[False, False, False, True]])):
        found = correct_masks(masks, image, in_use, **SETTINGS | way, spare=spare)
        owner = found.argmax(1)[0]
        names = [set(owner[where].tolist()) for where in (~thing.any(0), *thing)]
        assert [len(name) for name in names] == [1, 1, 1]
        assert len(set.union(*names)) == 3
        assert set.union(*names) <= set((in_use | spare)[0].nonzero().flatten().tolist())
        torch.testing.assert_close(found.sum(1), torch.ones(1, 32, 32))
        kept, used = up_to_last_owner(found, in_use)
        assert used[0].tolist() == [number <= max(set.union(*names)) for number in range(4)]
        assert torch.equal(kept.argmax(1), found.argmax(1))
        assert (kept[~used] == 0).all()
        torch.testing.assert_close(kept.sum(1), torch.ones(1, 32, 32))


def test_an_image_alone_is_corrected_as_in_a_batch():
    masks, images = scene(batch=3)
    in_use = torch.ones(3, 3, dtype=torch.bool)
    together = correct_masks(masks, images, in_use, **SETTINGS)
    for index in range(3):
        one = slice(index, index + 1)
        torch.testing.assert_close(correct_masks(masks[one], images[one], in_use[one], **SETTINGS), together[one])


def test_an_empty_slot_gives_finite_values_and_gradients():
    masks, images = scene(slots=3)
    masks = torch.cat((masks[:, :2] / masks[:, :2].sum(1, keepdim=True), torch.zeros_like(masks[:, 2:])), 1)
    masks.requires_grad_()
    out = correct_masks(masks, images, torch.ones(2, 3, dtype=torch.bool), **SETTINGS)
    assert bool(out.isfinite().all())
    out.square().sum().backward()
    assert bool(masks.grad.isfinite().all())


def test_a_stray_pixel_is_given_back_and_an_edge_goes_to_the_figure():
    """A disc with a hole of one pixel, and an edge whose pixels lie half way between its colour and the ground's."""
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    radius = ((rows - 7.5) ** 2 + (columns - 7.5) ** 2).sqrt()
    inside, edge = radius < 3.5, (radius >= 3.5) & (radius < 4.5)
    colour = torch.where(inside, 1.0, torch.where(edge, 0.5, 0.0))
    image = torch.stack((colour, 0 * colour, 1 - colour))[None]
    owner = inside.clone()
    owner[7, 7] = False
    found = torch.stack((~owner, owner)).float()[None]
    found = torch.where(edge, 0.5, found.clamp(0.01, 0.99))
    settings = {**SETTINGS, "rounds": 8, "neighbours": 16.0, "contrast": 0.5, "smallest": 0.003, "light": 1.0}
    in_use = torch.ones(1, 2, dtype=torch.bool)
    corrected = correct_masks(found, image, in_use, **settings | {"figure": 1.0, "slots": 0.0})[0, 1] > 0.5
    assert corrected[7, 7]
    assert torch.equal(corrected, inside | edge)
    given_away = correct_masks(found, image, in_use, **settings | {"figure": 0.0, "slots": 0.0})[0, 1] > 0.5
    assert given_away[edge].float().mean() < 0.5


def test_ownership_is_highest_for_small_segments_but_not_for_strays():
    masks = torch.zeros(1, 3, 20, 20)
    masks[0, 0], masks[0, 1, :4, :5], masks[0, 2, 10, 10] = 1.0, 1.0, 1.0
    masks[0, 0] -= masks[0, 1] + masks[0, 2]
    ground, figure, stray = border_ownership(masks, smallest=0.01)[0].tolist()
    assert figure > ground > stray
    assert figure == pytest.approx(math.log(20) - 0.2**2, abs=1e-6)


def test_masks_over_nodes_are_the_part_of_each_nodes_pixels():
    draw = torch.Generator().manual_seed(3)
    masks = torch.randn(2, 3, 4, 6, generator=draw).softmax(1)
    cells = torch.randn(2, 4, 2, 2, 3, generator=draw).softmax(2)
    ours = project_on_nodes(masks, cells)
    assert ours.shape == (2, 3, 8)
    torch.testing.assert_close(ours.sum(1), torch.ones(2, 8))
    for cell, (row, column) in enumerate([(0, 0), (0, 3), (2, 0), (2, 3)]):
        for node in range(2):
            share = cells[1, cell, node] / cells[1, cell, node].sum()
            expected = (masks[1, :, row : row + 2, column : column + 3] * share).sum((1, 2))
            torch.testing.assert_close(ours[1, :, 2 * cell + node], expected)
