"""Parting against a loop over pieces that scipy found, and on things laid by hand."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from cocanet.functional.parting import part_pieces
from tests.functional.test_ground import masks_of, reaches_by_loop

SIDE = 24


def parted_by_loop(owner: np.ndarray, in_use: list[bool], smallest: float) -> np.ndarray:
    """Piece by piece: the largest of those apart goes to the first slot that is free."""
    owner = owner.copy()
    ground = [reaches_by_loop(owner, slot) for slot in range(len(in_use))]
    while free := [slot for slot, used in enumerate(in_use) if used and not (owner == slot).any()]:
        apart = []
        for slot in range(len(in_use)):
            names, count = ndimage.label(owner == slot, np.ones((3, 3)))
            found = sorted(((names == name).sum(), np.flatnonzero(names == name).max()) for name in range(1, count + 1))
            if not ground[slot]:
                apart += [(area, last, names == names.flat[last]) for area, last in found[:-1]]
        apart = [piece for piece in apart if piece[0] >= smallest * owner.size]
        if not apart:
            break
        owner[max(apart, key=lambda piece: piece[:2])[2]] = free[0]
    return owner


@given(st.integers(0, 10_000), st.lists(st.booleans(), min_size=3, max_size=3), st.sampled_from([0.0, 0.01, 0.04]))
def test_against_a_loop_over_pieces(seed, free_in_use, smallest):
    generator = np.random.default_rng(seed)
    owner = np.zeros((SIDE, SIDE), dtype=np.int64)
    for _ in range(generator.integers(1, 9)):
        row, column = generator.integers(0, SIDE - 4, 2)
        height, width = generator.integers(1, 8, 2)
        owner[row : row + height, column : column + width] = generator.integers(0, 4)
    in_use = [True] * 4 + free_in_use
    masks = masks_of(torch.from_numpy(owner), 7)
    found = part_pieces(masks, torch.tensor([in_use]), smallest=smallest)
    assert torch.equal(found.argmax(1)[0], torch.from_numpy(parted_by_loop(owner, in_use, smallest)))
    torch.testing.assert_close(found.sum(1), torch.ones(1, SIDE, SIDE))
    assert (found >= -1e-6).all()


def two_in_slot(slot: int) -> torch.Tensor:
    owner = torch.zeros(SIDE, SIDE, dtype=torch.int64)
    owner[3:9, 3:9], owner[14:18, 12:20] = slot, slot
    return owner


def test_two_things_of_one_slot_become_two_and_the_larger_keeps_it():
    found = part_pieces(masks_of(two_in_slot(1), 3), torch.ones(1, 3, dtype=torch.bool), smallest=0.01).argmax(1)[0]
    assert (found[3:9, 3:9] == 1).all()
    assert (found[14:18, 12:20] == 2).all()


def test_without_a_free_slot_and_on_the_ground_nothing_changes():
    two = masks_of(two_in_slot(1), 3)
    assert torch.equal(part_pieces(two, torch.tensor([[True, True, False]]), smallest=0.01), two)
    # A wall of slot 1 from top to bottom leaves the ground in two pieces.
    wall = torch.zeros(SIDE, SIDE, dtype=torch.int64)
    wall[:, 10:14] = 1
    ground = masks_of(wall, 3)
    assert torch.equal(part_pieces(ground, torch.ones(1, 3, dtype=torch.bool), smallest=0.01), ground)


def test_an_image_alone_is_as_in_a_batch():
    masks = torch.cat([masks_of(two_in_slot(slot), 4) for slot in (1, 2, 3)])
    used = torch.tensor([[True] * 4, [True, False, True, True], [True, True, True, True]])
    together = part_pieces(masks, used, smallest=0.01)
    for index in range(3):
        one = slice(index, index + 1)
        assert torch.equal(part_pieces(masks[one], used[one], smallest=0.01), together[one])
