"""Cuts along upright lines against a loop over all columns, and on rooms whose corner is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cocanet.functional.cuts import DARKEST, LARGE, NOISE, SIDE, cut_upright, upright_gain


def gain_by_loop(own: np.ndarray, light: np.ndarray, column: int) -> float:
    """Of a cut behind a column, pixel by pixel."""
    height, width = own.shape
    left = [light[r, c] for r in range(height) for c in range(width) if own[r, c] and c <= column]
    right = [light[r, c] for r in range(height) for c in range(width) if own[r, c] and c > column]
    both = left + right
    if len(both) < LARGE * own.size or min(len(left), len(right)) < SIDE * len(both):
        return 0.0
    one = sum((x - np.mean(both)) ** 2 for x in both) / len(both)
    two = sum((x - np.mean(side)) ** 2 for side in (left, right) for x in side) / len(both)
    return len(both) / 2 * math.log((one + NOISE) / (two + NOISE))


def test_gain_against_a_loop_over_columns_and_pixels():
    draw = torch.Generator().manual_seed(0)
    owner = torch.randint(0, 3, (2, 9, 11), generator=draw)
    own = torch.nn.functional.one_hot(owner, 4).movedim(-1, 1).double()
    light = torch.rand(2, 9, 11, generator=draw, dtype=torch.float64).log()
    ours = upright_gain(own, light)
    assert (ours > 0.5).any()
    for image in range(2):
        for slot in range(4):
            expected = [gain_by_loop(own[image, slot].numpy(), light[image].numpy(), column) for column in range(11)]
            np.testing.assert_allclose(ours[image, slot].numpy(), expected, atol=1e-9)


def room(corner: int = 20, contrast: float = 0.85, texture: float = 0.05, slots: int = 4):
    """Ground, one slot for two walls that meet behind a column, and slots that nobody uses."""
    draw = torch.Generator().manual_seed(1)
    masks = torch.full((1, slots, 32, 32), 0.02)
    masks[:, 0, 20:], masks[:, 1, :20] = 1.0, 1.0
    masks = masks / masks.sum(1, keepdim=True)
    image = torch.full((1, 3, 32, 32), 0.6)
    image[..., :20, corner + 1 :] *= contrast
    # Light that fades towards the front: what no upright line can explain.
    image[..., 20:, :] *= torch.linspace(1, 0.5, 12)[:, None]
    return (
        masks,
        image * (1 + texture * torch.randn(1, 1, 32, 32, generator=draw)),
        torch.ones(1, slots, dtype=torch.bool),
    )


@pytest.mark.parametrize("corner", [7, 15, 25])
def test_two_walls_are_parted_where_they_meet(corner):
    masks, image, in_use = room(corner)
    found = cut_upright(masks, image, in_use, least=20.0, smallest=0.01)
    owner = found.argmax(1)[0]
    left, right = owner[:20, : corner + 1].unique(), owner[:20, corner + 1 :].unique()
    assert (len(left), len(right)) == (1, 1)
    assert left != right
    assert (owner[20:] == 0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(1, 32, 32))


def test_nothing_is_cut_without_an_edge_a_reason_or_a_slot_to_spare():
    masks, image, in_use = room()
    assert cut_upright(masks, image, in_use, least=20.0, smallest=0.01).argmax(1).unique().numel() == 3
    same = cut_upright(masks, room(contrast=1.0)[1], in_use, least=20.0, smallest=0.01)
    assert torch.equal(same, masks)
    assert torch.equal(cut_upright(masks, image, in_use, least=1e5, smallest=0.01), masks)
    only_two = torch.tensor([[True, True, False, False]])
    assert torch.equal(cut_upright(masks, image, only_two, least=20.0, smallest=0.01), masks)


def test_an_image_alone_is_cut_as_in_a_batch():
    rooms = [room(corner, contrast) for corner, contrast in ((7, 0.8), (20, 1.0), (25, 0.7))]
    masks, images, in_use = (torch.cat(parts) for parts in zip(*rooms, strict=True))
    together = cut_upright(masks, images, in_use, least=20.0, smallest=0.01)
    for index, (alone, image, used) in enumerate(rooms):
        torch.testing.assert_close(cut_upright(alone, image, used, least=20.0, smallest=0.01)[0], together[index])


def test_black_images_and_empty_masks_are_no_trouble():
    masks = torch.zeros(1, 3, 8, 8)
    masks[:, 0] = 1
    found = cut_upright(masks, torch.zeros(1, 3, 8, 8), torch.ones(1, 3, dtype=torch.bool), least=1.0, smallest=0.01)
    assert torch.equal(found, masks)
    assert math.isfinite(math.log(DARKEST))
