"""Regrouping against scipy's components and a slow loop over all pairs, and on scenes whose answer is plain."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from sklearn.metrics import adjusted_rand_score

from cocanet.functional.feedback import correct_masks
from cocanet.functional.regrouping import SPREAD, largest, merge_pieces, moments, pieces, regroup_masks


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_pieces_are_scipys_components(seed, labels, size):
    grid = torch.randint(0, labels, (2, *size), generator=torch.Generator().manual_seed(seed))
    for ours, image in zip(pieces(grid), grid.numpy(), strict=True):
        expected, count = np.zeros_like(image), 0
        for label in range(labels):
            found, number = ndimage.label(image == label, np.ones((3, 3)))
            expected, count = expected + np.where(found > 0, found + count, 0), count + number
        assert len(ours.unique()) == count
        assert adjusted_rand_score(expected.ravel(), ours.numpy().ravel()) == 1


def test_a_snake_is_one_piece():
    """As long as a way through 31 × 31 pixels can be: names have to travel all of it."""
    grid = torch.zeros(1, 31, 31, dtype=torch.long)
    grid[0, ::2] = 1
    grid[0, 1::4, -1] = grid[0, 3::4, 0] = 1
    assert len(pieces(grid)[grid == 1].unique()) == 1


def length_by_loop(group: list[int], image: np.ndarray, rank: np.ndarray, noise: float) -> float:
    height, width = rank.shape
    own = [(r, c) for r in range(height) for c in range(width) if rank[r, c] in group]
    place = np.array([(2 * r / (height - 1) - 1, 2 * c / (width - 1) - 1) for r, c in own])
    colour = np.array([image[:, r, c] for r, c in own])
    centred = place - place.mean(0)
    covariance = centred.T @ centred / len(own) + SPREAD * np.eye(2)
    variance = ((colour - colour.mean(0)) ** 2).sum() / len(own) / 3 + noise
    per_pixel = 0.5 * math.log(np.linalg.det(covariance)) + 1.5 * math.log(variance) - math.log(len(own))
    return len(own) * per_pixel


@pytest.mark.parametrize("most", [2, 4, 9])
def test_merging_against_a_loop_over_all_pairs_and_pixels(most):
    draw = torch.Generator().manual_seed(most)
    labels = torch.randn(2, 3, 12, 10, generator=draw).argmax(1)
    labels = labels[:, ::3, ::2].repeat_interleave(3, 1).repeat_interleave(2, 2)
    images = torch.rand(2, 3, 12, 10, generator=draw, dtype=torch.float64) * 0.3 + labels[:, None] * 0.05
    rank, counted = largest(pieces(labels), 9, 0.02)
    ours = merge_pieces(moments(rank, images, 9), counted, torch.tensor([most, most]), 0.01)
    for index in range(2):
        image, own = images[index].numpy(), rank[index].numpy()
        groups = [[piece] for piece in range(9) if counted[index, piece]]
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
            assert len({int(ours[index, piece]) for piece in group}) == 1
        assert len({int(ours[index, group[0]]) for group in groups}) == len(groups)


def picture(*boxes: tuple[slice, slice, tuple[float, float, float], int], slots: int = 4):
    """A grey ground of slot 0 with boxes on it: where, what colour, whose."""
    image, label = torch.full((3, 24, 24), 0.5), torch.zeros(24, 24, dtype=torch.long)
    for rows, columns, colour, slot in boxes:
        image[:, rows, columns] = torch.tensor(colour)[:, None, None]
        label[rows, columns] = slot
    return torch.nn.functional.one_hot(label, slots).permute(2, 0, 1).float()[None], image[None]


def regrouped(masks, image, in_use=None, **kwargs):
    in_use = torch.ones(masks.shape[:2], dtype=torch.bool) if in_use is None else in_use
    return regroup_masks(masks, image, in_use, **{"smallest": 0.003, "noise": 0.01, **kwargs})


LEFT, RIGHT, TOP, BOTTOM = slice(2, 8), slice(15, 21), slice(2, 8), slice(15, 21)


def test_two_things_of_one_colour_become_two_slots_and_the_ground_keeps_its_own():
    masks, image = picture((TOP, LEFT, (1, 0, 0), 1), (BOTTOM, RIGHT, (1, 0, 0), 1))
    found = regrouped(masks, image).argmax(1)[0]
    assert len({int(found[4, 4]), int(found[17, 17]), int(found[0, 0])}) == 3
    assert found[0, 0] == 0
    assert 1 in (found[4, 4], found[17, 17])
    assert len(found.unique()) == 3


def test_two_sides_of_one_thing_become_one_slot():
    masks, image = picture((slice(4, 9), LEFT, (0.9, 0.1, 0.1), 1), (slice(9, 14), LEFT, (0.82, 0.1, 0.1), 2))
    found = regrouped(masks, image).argmax(1)[0]
    assert found[5, 4] == found[12, 4] != found[0, 0]
    # Of quite another colour, they are two things.
    masks, image = picture((slice(4, 9), LEFT, (0.9, 0.1, 0.1), 1), (slice(9, 14), LEFT, (0.1, 0.1, 0.9), 2))
    found = regrouped(masks, image).argmax(1)[0]
    assert found[5, 4] != found[12, 4]


def test_no_more_slots_than_are_in_use():
    masks, image = picture((TOP, LEFT, (1, 0, 0), 1), (BOTTOM, RIGHT, (1, 0, 0), 1), (TOP, RIGHT, (0, 1, 0), 2))
    in_use = torch.tensor([[True, True, True, False]])
    out = regrouped(masks, image, in_use)
    assert (out[:, 3] == 0).all()
    torch.testing.assert_close(out.sum(1), torch.ones(1, 24, 24))
    found = out.argmax(1)[0]
    assert found[17, 17] == found[4, 4], "with no slot to spare, what is alike stays together"
    assert found[4, 17] == 2


def test_a_speck_is_left_to_the_rounds_that_follow():
    masks, image = picture((TOP, LEFT, (1, 0, 0), 1), (slice(12, 13), slice(12, 13), (1, 0, 0), 1))
    out = regrouped(masks, image)
    torch.testing.assert_close(out[0, :, 12, 12], torch.full((4,), 0.25))


def test_an_image_alone_is_regrouped_as_in_a_batch_and_batches_sum_to_one():
    draw = torch.Generator().manual_seed(5)
    masks = torch.nn.functional.avg_pool2d(torch.randn(3, 5, 20, 24, generator=draw), 5, 1, 2).mul(9).softmax(1)
    images = torch.rand(3, 3, 20, 24, generator=draw)
    together = regrouped(masks, images)
    torch.testing.assert_close(together.sum(1), torch.ones(3, 20, 24))
    for index in range(3):
        one = slice(index, index + 1)
        torch.testing.assert_close(regrouped(masks[one], images[one]), together[one])


def test_one_mask_over_everything_stays_one():
    masks = torch.zeros(1, 3, 8, 8)
    masks[:, 1] = 1
    out = regrouped(masks, torch.rand(1, 3, 8, 8))
    assert (out.argmax(1) == 1).all()


def test_within_feedback_it_comes_after_the_rounds_and_not_without_them():
    masks, image = picture((TOP, LEFT, (1, 0, 0), 1), (BOTTOM, RIGHT, (1, 0, 0), 1))
    soft = 0.9 * masks + 0.025
    voices = {"neighbours": 4.0, "contrast": 0.3, "reach": 1, "figure": 1.0, "smallest": 0.003}
    voices |= {"slots": 1.0, "noise": 0.01, "light": 1.0}
    in_use = torch.ones(1, 4, dtype=torch.bool)
    apart, together = (
        correct_masks(soft, image, in_use, rounds=4, **voices, regroup=regroup).argmax(1)[0]
        for regroup in (True, False)
    )
    assert together[4, 4] == together[17, 17]
    assert apart[4, 4] != apart[17, 17]
    assert correct_masks(soft, image, in_use, rounds=0, **voices, regroup=True) is soft
