"""The ground against a loop over the pixels of a picture's edge, and on floors laid by hand."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cocanet.config import FeedbackConfig
from cocanet.functional.feedback import correct_masks
from cocanet.functional.ground import RAGGED, REACHED, SIDES, is_ragged, join_ground, reaches_sides
from cocanet.functional.ownership import as_masks

SIDE = 40


def reaches_by_loop(owner: np.ndarray, slot: int) -> bool:
    height, width = owner.shape
    pixels = dict.fromkeys(("top", "bottom", "left", "right"), 0)
    for row in range(height):
        for column in range(width):
            if owner[row, column] == slot:
                pixels["top"] += row == 0
                pixels["bottom"] += row == height - 1
                pixels["left"] += column == 0
                pixels["right"] += column == width - 1
    length = {"top": width, "bottom": width, "left": height, "right": height}
    return sum(pixels[side] / length[side] >= REACHED for side in pixels) >= SIDES


def ragged_by_loop(owner: np.ndarray, slot: int) -> bool:
    height, width = owner.shape
    outline = sum(
        (owner[row, column] == slot) != (owner[row + down, column + across] == slot)
        for down, across in ((0, 1), (1, 0))
        for row in range(height - down)
        for column in range(width - across)
    )
    return bool(outline > RAGGED * (owner == slot).sum() ** 0.5)


def masks_of(owner: torch.Tensor, slots: int = 5, sure: float = 0.9) -> torch.Tensor:
    hard = as_masks(owner.unsqueeze(0), torch.zeros(1, slots, *owner.shape))
    return sure * hard + (1 - sure) / slots


def chequered(*things: tuple[slice, slice]) -> torch.Tensor:
    """Squares of 5 pixels of slots 0 and 1, and things of the slots after them."""
    row, column = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    owner = (row // 5 + column // 5) % 2
    for slot, thing in enumerate(things, 2):
        owner[thing] = slot
    return owner


INSIDE, CUT_OFF, CORNER = (
    (slice(12, 20), slice(10, 22)),
    (slice(25, 33), slice(0, 9)),
    (slice(0, 6), slice(34, 40)),
)


@given(st.integers(0, 10_000), st.sampled_from([(8, 8), (12, 30), (40, 8)]), st.integers(1, 12))
def test_against_loops_over_pixels(seed, size, coarse):
    generator = np.random.default_rng(seed)
    grid = generator.integers(0, 4, tuple(-(-side // coarse) for side in size))
    owner = np.kron(grid, np.ones((coarse, coarse), dtype=np.int64))[: size[0], : size[1]]
    own = as_masks(torch.from_numpy(owner)[None], torch.zeros(1, 5, *size))
    assert reaches_sides(own)[0].tolist() == [reaches_by_loop(owner, slot) for slot in range(5)]
    assert is_ragged(own)[0].tolist() == [ragged_by_loop(owner, slot) for slot in range(5)]


def test_a_chequered_floor_becomes_one_and_things_stay_things():
    owner = chequered(INSIDE, CUT_OFF)
    found = join_ground(masks_of(owner))
    expected = torch.where(owner < 2, (owner == 0).sum() < (owner == 1).sum(), owner)
    assert torch.equal(found.argmax(1)[0], expected)
    torch.testing.assert_close(found.sum(1), torch.ones(1, SIDE, SIDE))
    torch.testing.assert_close(found[:, 2:], masks_of(owner)[:, 2:])


def test_what_lies_in_a_corner_is_ground_too():
    """The rule's price: a thing that two sides cut off is taken for a part of what is behind it."""
    assert (join_ground(masks_of(chequered(INSIDE, CORNER))).argmax(1) != 3).all()


def test_a_pattern_inside_is_the_grounds_and_a_plain_thing_is_not():
    owner = torch.zeros(SIDE, SIDE, dtype=torch.int64)
    owner[4:30:2, 4:30:2] = 1
    owner[32:38, 8:30] = 2
    assert join_ground(masks_of(owner)).argmax(1).unique().tolist() == [0, 2]


def test_one_ground_or_none_stays_as_it_was():
    one = masks_of(torch.where(chequered(INSIDE) < 2, 0, 2))
    torch.testing.assert_close(join_ground(one), one)
    # Four triangles, each with a side of its own, and a pattern in the middle: nothing that it could be given to.
    row, column = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    nearest = torch.stack((row, column, SIDE - 1 - row, SIDE - 1 - column)).argmin(0)
    nearest[14:28:2, 14:28:2] = 4
    none = masks_of(nearest)
    assert is_ragged(as_masks(nearest.unsqueeze(0), none))[0].tolist() == [False] * 4 + [True]
    torch.testing.assert_close(join_ground(none), none)


def test_an_image_alone_is_as_in_a_batch():
    owners = [chequered(INSIDE), chequered(INSIDE, CUT_OFF), torch.zeros(SIDE, SIDE, dtype=torch.int64)]
    masks = torch.cat([masks_of(owner) for owner in owners])
    together = join_ground(masks)
    for index in range(3):
        assert torch.equal(join_ground(masks[index : index + 1])[0], together[index])


@pytest.mark.parametrize("ground", [False, True])
def test_feedback_joins_the_ground_where_it_is_asked_to(ground):
    owner = chequered(INSIDE)
    image = torch.tensor([[0.1, 0.9, 0.5], [0.1, 0.9, 0.1], [0.1, 0.9, 0.1]])[:, owner].unsqueeze(0)
    settings = asdict(FeedbackConfig(rounds=2, light=1.0, ground=ground))
    found = correct_masks(masks_of(owner), image, torch.ones(1, 5, dtype=torch.bool), **settings)
    floor = found.argmax(1)[0][owner < 2]
    assert floor.unique().numel() == (1 if ground else 2)
    assert (found.argmax(1)[0][INSIDE] == 2).all()
