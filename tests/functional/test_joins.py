"""Joins against a loop over pairs and pixels, and on things that were cut in two by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cocanet.functional.joins import CONTACT, REACH, ROUGH, join_gain, join_wholes
from cocanet.functional.outlines import THING
from tests.functional.test_cuts import BALL_ON_BOX, TWO_BOXES, error_by_loop, stack


def error_of(own: np.ndarray) -> float:
    rows = np.flatnonzero(own.any(1))
    edges = [(int(row), int(np.flatnonzero(own[row])[0]), int(np.flatnonzero(own[row])[-1]) + 1) for row in rows]
    return error_by_loop(edges, edges[0][0], edges[-1][0] + 1)


def gain_by_loop(one: np.ndarray, other: np.ndarray) -> float:
    def touched(a: np.ndarray, b: np.ndarray) -> int:
        near = {
            (r + y, c + x)
            for r, c in np.argwhere(a)
            for y in range(-REACH, REACH + 1)
            for x in range(-REACH, REACH + 1)
        }
        return sum((int(r), int(c)) in near for r, c in np.argwhere(b))

    if not one.any() or not other.any() or max(one.mean(), other.mean()) > THING:
        return 0.0
    both = one | other
    contact = min(touched(one, other), touched(other, one)) / math.sqrt(min(one.sum(), other.sum()))
    size, together = math.sqrt(both.sum()), error_of(both)
    if contact <= CONTACT or together >= ROUGH * size:
        return 0.0
    return (error_of(one) + error_of(other) - together) / size


def split(masks: torch.Tensor, by) -> torch.Tensor:
    """The thing of slot 1 in two: what `by` says of row and column goes to slot 2."""
    row, column = torch.meshgrid(torch.arange(40), torch.arange(40), indexing="ij")
    out = masks.clone()
    out[0, 2] = masks[0, 1] * by(row, column)
    out[0, 1] = masks[0, 1] - out[0, 2]
    return out


DISC, BOX = stack(("ball", 15, 15, 10)), stack(("box", 12, 12, 10))
CAP = split(DISC, lambda row, column: row + column // 3 < 13)
TOP = split(BOX, lambda row, column: row + column // 2 < 13)


@pytest.mark.parametrize("masks", [CAP, TOP, split(stack(*TWO_BOXES), lambda row, _: row < 10)])
def test_against_a_loop_over_pairs_and_pixels(masks):
    ours = join_gain(masks)[0]
    own = masks[0].numpy() > 0
    for one in range(5):
        for other in range(5):
            expected = 0.0 if one == other else gain_by_loop(own[one], own[other])
            assert float(ours[one, other]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("masks", [CAP, TOP])
def test_the_two_sides_of_one_thing_become_one(masks):
    found = join_wholes(masks, least=0.5)
    thing = masks[0, 1] + masks[0, 2] > 0
    owner = found.argmax(1)[0]
    assert (owner[thing] == 1).all()
    assert (owner[~thing] == 0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(1, 40, 40).double())


@pytest.mark.parametrize(("shapes", "row"), [(TWO_BOXES, 10), (BALL_ON_BOX, 13)])
def test_two_things_on_each_other_stay_two(shapes, row):
    masks = split(stack(*shapes), lambda rows, _: rows < row)
    assert torch.equal(join_wholes(masks, least=0.5), masks)


def test_things_apart_stay_apart_and_an_image_alone_is_as_in_a_batch():
    apart = stack(("box", 8, 8, 4))
    apart[0, 2, 4:12, 20:28], apart[0, 0, 4:12, 20:28] = 1, 0
    assert torch.equal(join_wholes(apart, least=0.1), apart)
    batch = torch.cat((CAP, apart, TOP))
    together = join_wholes(batch, least=0.5)
    for index in range(3):
        assert torch.equal(join_wholes(batch[index : index + 1], least=0.5)[0], together[index])


def test_empty_and_full_masks_are_no_trouble():
    masks = torch.zeros(1, 3, 8, 8)
    masks[:, 0] = 1
    assert torch.equal(join_wholes(masks, least=0.1), masks)
