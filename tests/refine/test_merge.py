"""Merging against scipy's components and a slow loop over all pairs, and on scenes whose answer is plain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from sklearn.metrics import adjusted_rand_score

from cocanet.config import RefineConfig
from cocanet.refine import refine
from cocanet.refine.merge import (
    POSITION_VARIANCE,
    connected_components,
    largest,
    merge_components,
    merge_pairs,
    moments,
)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_components_are_scipys(seed, labels, size):
    grid = torch.randint(0, labels, (2, *size), generator=torch.Generator().manual_seed(seed))
    for ours, image in zip(connected_components(grid), grid.numpy(), strict=True):
        expected, count = np.zeros_like(image), 0
        for label in range(labels):
            found, number = ndimage.label(image == label, np.ones((3, 3)))
            expected, count = expected + np.where(found > 0, found + count, 0), count + number
        assert len(ours.unique()) == count
        assert adjusted_rand_score(expected.ravel(), ours.numpy().ravel()) == 1


def test_a_snake_is_one_component():
    """As long as a path through 31 × 31 pixels can be: names have to travel all of it."""
    grid = torch.zeros(1, 31, 31, dtype=torch.long)
    grid[0, ::2] = 1
    grid[0, 1::4, -1] = grid[0, 3::4, 0] = 1
    assert len(connected_components(grid)[grid == 1].unique()) == 1


def length_by_loop(group: list[int], image: np.ndarray, rank: np.ndarray, noise: float) -> float:
    height, width = rank.shape
    own = [(r, c) for r in range(height) for c in range(width) if rank[r, c] in group]
    place = np.array([(2 * r / (height - 1) - 1, 2 * c / (width - 1) - 1) for r, c in own])
    colour = np.array([image[:, r, c] for r, c in own])
    centred = place - place.mean(0)
    covariance = centred.T @ centred / len(own) + POSITION_VARIANCE * np.eye(2)
    variance = ((colour - colour.mean(0)) ** 2).sum() / len(own) / 3 + noise
    per_pixel = 0.5 * math.log(np.linalg.det(covariance)) + 1.5 * math.log(variance) - math.log(len(own))
    return len(own) * per_pixel


@pytest.mark.parametrize("most", [2, 4, 9])
def test_merging_against_a_loop_over_all_pairs_and_pixels(most):
    draw = torch.Generator().manual_seed(most)
    labels = torch.randn(2, 3, 12, 10, generator=draw).argmax(1)
    labels = labels[:, ::3, ::2].repeat_interleave(3, 1).repeat_interleave(2, 2)
    images = torch.rand(2, 3, 12, 10, generator=draw, dtype=torch.float64) * 0.3 + labels[:, None] * 0.05
    rank, counted = largest(connected_components(labels), 9, 0.02)
    ours = merge_pairs(moments(rank, images, 9), counted, torch.tensor([most, most]), 0.01)
    for index in range(2):
        image, own = images[index].numpy(), rank[index].numpy()
        groups = [[component] for component in range(9) if counted[index, component]]
        while len(groups) > 1:
            length = [length_by_loop(group, image, own, 0.01) for group in groups]
            price, i, j = min(
                (length_by_loop(groups[i] + groups[j], image, own, 0.01) - length[i] - length[j], i, j)
                for i in range(len(groups))
                for j in range(i)
            )
            if price >= 0 and len(groups) <= most:
                break
            groups = [*(g for k, g in enumerate(groups) if k not in (i, j)), groups[i] + groups[j]]
        assert len(groups) < counted[index].sum()
        for group in groups:
            assert len({int(ours[index, component]) for component in group}) == 1
        assert len({int(ours[index, group[0]]) for group in groups}) == len(groups)


def scene(*boxes: tuple[slice, slice, tuple[float, float, float], int], slots: int = 4):
    """A grey background of slot 0 with boxes on it: rows, columns, colour, slot."""
    image, label = torch.full((3, 24, 24), 0.5), torch.zeros(24, 24, dtype=torch.long)
    for rows, columns, colour, slot in boxes:
        image[:, rows, columns] = torch.tensor(colour)[:, None, None]
        label[rows, columns] = slot
    return torch.nn.functional.one_hot(label, slots).permute(2, 0, 1).float()[None], image[None]


def merged(masks, image, in_use=None, **kwargs):
    in_use = torch.ones(masks.shape[:2], dtype=torch.bool) if in_use is None else in_use
    return merge_components(masks, image, in_use, **{"min_area": 0.003, "noise": 0.01, **kwargs})


LEFT, RIGHT, TOP, BOTTOM = slice(2, 8), slice(15, 21), slice(2, 8), slice(15, 21)


def test_two_objects_of_one_colour_become_two_slots_and_the_background_keeps_its_own():
    masks, image = scene((TOP, LEFT, (1, 0, 0), 1), (BOTTOM, RIGHT, (1, 0, 0), 1))
    found = merged(masks, image).argmax(1)[0]
    assert len({int(found[4, 4]), int(found[17, 17]), int(found[0, 0])}) == 3
    assert found[0, 0] == 0
    assert 1 in (found[4, 4], found[17, 17])
    assert len(found.unique()) == 3


def test_two_halves_of_one_object_become_one_slot():
    masks, image = scene((slice(4, 9), LEFT, (0.9, 0.1, 0.1), 1), (slice(9, 14), LEFT, (0.82, 0.1, 0.1), 2))
    found = merged(masks, image).argmax(1)[0]
    assert found[5, 4] == found[12, 4] != found[0, 0]
    # Of another colour, they are two objects.
    masks, image = scene((slice(4, 9), LEFT, (0.9, 0.1, 0.1), 1), (slice(9, 14), LEFT, (0.1, 0.1, 0.9), 2))
    found = merged(masks, image).argmax(1)[0]
    assert found[5, 4] != found[12, 4]


def test_no_more_slots_than_are_in_use():
    masks, image = scene((TOP, LEFT, (1, 0, 0), 1), (BOTTOM, RIGHT, (1, 0, 0), 1), (TOP, RIGHT, (0, 1, 0), 2))
    in_use = torch.tensor([[True, True, True, False]])
    out = merged(masks, image, in_use)
    assert (out[:, 3] == 0).all()
    torch.testing.assert_close(out.sum(1), torch.ones(1, 24, 24))
    found = out.argmax(1)[0]
    assert found[17, 17] == found[4, 4], "with no slot to spare, what is alike stays together"
    assert found[4, 17] == 2


def test_a_component_below_the_least_area_is_spread_over_all_slots():
    masks, image = scene((TOP, LEFT, (1, 0, 0), 1), (slice(12, 13), slice(12, 13), (1, 0, 0), 1))
    out = merged(masks, image)
    torch.testing.assert_close(out[0, :, 12, 12], torch.full((4,), 0.25))


def test_an_image_alone_is_merged_as_in_a_batch_and_masks_sum_to_one():
    draw = torch.Generator().manual_seed(5)
    masks = torch.nn.functional.avg_pool2d(torch.randn(3, 5, 20, 24, generator=draw), 5, 1, 2).mul(9).softmax(1)
    images = torch.rand(3, 3, 20, 24, generator=draw)
    together = merged(masks, images)
    torch.testing.assert_close(together.sum(1), torch.ones(3, 20, 24))
    for index in range(3):
        one = slice(index, index + 1)
        torch.testing.assert_close(merged(masks[one], images[one]), together[one])


def test_one_mask_over_everything_stays_one():
    masks = torch.zeros(1, 3, 8, 8)
    masks[:, 1] = 1
    out = merged(masks, torch.rand(1, 3, 8, 8))
    assert (out.argmax(1) == 1).all()


def test_two_blobs_in_one_slot_are_parted_by_merging_only():
    """Two red squares in one slot, and two slots to spare: refinement without merging leaves them together."""
    masks, image = scene((TOP, LEFT, (1, 0, 0), 1), (BOTTOM, RIGHT, (1, 0, 0), 1))
    truth = torch.zeros(24, 24, dtype=torch.long)
    truth[TOP, LEFT], truth[BOTTOM, RIGHT] = 1, 2
    soft, in_use = 0.9 * masks + 0.025, torch.ones(1, 4, dtype=torch.bool)
    config = RefineConfig(rounds=4, pairwise_weight=4.0, colour_sigma=0.3, radius=1, noise=0.01, brightness_weight=1.0)
    apart, together = (
        refine(soft, image, in_use, replace(config, merge=merge)).argmax(1)[0] for merge in (True, False)
    )
    assert together[4, 4] == together[17, 17]
    assert adjusted_rand_score(truth.flatten(), apart.flatten()) == 1


def test_a_slot_that_is_not_in_use_gets_no_mass_anywhere():
    generator = torch.Generator().manual_seed(3)
    image, masks = torch.rand(2, 3, 12, 12, generator=generator), torch.rand(2, 4, 12, 12, generator=generator)
    in_use = torch.tensor([[True, True, False, True], [True, False, False, True]])
    masks = (masks * in_use[:, :, None, None]).softmax(1) * in_use[:, :, None, None]
    out = merged(masks / masks.sum(1, keepdim=True), image, in_use, min_area=0.05)
    assert (out[~in_use] == 0).all()
    torch.testing.assert_close(out.sum(1), torch.ones(2, 12, 12))
