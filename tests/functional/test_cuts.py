"""Cuts along upright lines against a loop over all columns, and on rooms whose corner is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cocanet.functional.cuts import (
    DARKEST,
    HIGH,
    NOISE,
    SIDE,
    WALL,
    cut_level,
    cut_upright,
    level_gain,
    upright_gain,
)
from cocanet.functional.outlines import THING


def gain_by_loop(own: np.ndarray, light: np.ndarray, column: int) -> float:
    """Of a cut behind a column, pixel by pixel."""
    height, width = own.shape
    left = [light[r, c] for r in range(height) for c in range(width) if own[r, c] and c <= column]
    right = [light[r, c] for r in range(height) for c in range(width) if own[r, c] and c > column]
    both = left + right
    if len(both) < WALL * own.size or min(len(left), len(right)) < SIDE * len(both):
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


def error_by_loop(edges: list[tuple[int, int, int]], begin: int, end: int) -> float:
    """Pixels between (row, left, right) and the better of a box and an ellipse from a row up to another."""
    if not edges:
        return 0.0
    left, right = np.mean([left for _, left, _ in edges]), np.mean([right for _, _, right in edges])
    box = sum(abs(a - left) + abs(b - right) for _, a, b in edges)
    middle, radius, centre = (begin + end - 1) / 2, (end - begin) / 2, (left + right) / 2
    arc = {row: math.sqrt(max(0.0, 1 - ((row - middle) / radius) ** 2)) for row, _, _ in edges}
    wide = sum(arc[row] * (b - a) / 2 for row, a, b in edges) / max(1e-3, sum(x * x for x in arc.values()))
    ball = sum(abs(a - centre + wide * arc[row]) + abs(b - centre - wide * arc[row]) for row, a, b in edges)
    return min(box, ball)


def outline_gain_by_loop(own: np.ndarray, line: int) -> float:
    edges = [
        (int(row), int(np.flatnonzero(own[row])[0]), int(np.flatnonzero(own[row])[-1]) + 1)
        for row in np.flatnonzero(own.any(1))
    ]
    above, below = ([edge for edge in edges if (edge[0] <= line) == up] for up in (True, False))
    if own.mean() > THING or min(len(above), len(below)) < HIGH * len(own):
        return 0.0
    begin, end = edges[0][0], edges[-1][0] + 1
    return (
        error_by_loop(edges, begin, end) - error_by_loop(above, begin, line + 1) - error_by_loop(below, line + 1, end)
    )


def stack(*shapes: tuple[str, int, int, int], size: int = 40) -> torch.Tensor:
    """Boxes and balls of one slot on top of each other on a ground of another: kind, rows, columns, first column."""
    row, column = np.mgrid[:size, :size]
    own, top = np.zeros((size, size), dtype=bool), 4
    for kind, high, wide, first in shapes:
        inside = (row >= top) & (row < top + high) & (column >= first) & (column < first + wide)
        if kind == "ball":
            middle, centre = top + (high - 1) / 2, first + (wide - 1) / 2
            inside &= ((row - middle) / (high / 2)) ** 2 + ((column - centre) / (wide / 2)) ** 2 <= 1
        own, top = own | inside, top + high
    masks = torch.zeros(1, 5, size, size, dtype=torch.float64)
    masks[0, 1], masks[0, 0] = torch.from_numpy(own), torch.from_numpy(~own)
    return masks


TWO_BOXES = (("box", 6, 6, 12), ("box", 7, 10, 11))
BALL_ON_BOX = (("ball", 9, 9, 12), ("box", 8, 11, 11))


@pytest.mark.parametrize("shapes", [TWO_BOXES, BALL_ON_BOX, (("ball", 11, 11, 5),)])
def test_outlines_against_a_loop_over_rows(shapes):
    own = stack(*shapes)
    own[0, 2, 30:36, 3:9] = own[0, 0, 30:36, 3:9]
    own[0, 0, 30:36, 3:9] = 0
    ours = level_gain(own)
    for slot in range(5):
        if not own[0, slot].any():
            assert (ours[0, slot] == 0).all()
            continue
        expected = [outline_gain_by_loop(own[0, slot].numpy() > 0, line) for line in range(40)]
        np.testing.assert_allclose(ours[0, slot].numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("shapes", [TWO_BOXES, BALL_ON_BOX, (*TWO_BOXES, ("box", 7, 16, 8))])
def test_blocks_in_a_stack_are_parted_where_they_touch(shapes):
    masks = stack(*shapes)
    owner = cut_level(masks, torch.ones(1, 5, dtype=torch.bool), least=2.0, smallest=0.003).argmax(1)[0]
    top, seen = 4, []
    for _, high, _, _ in shapes:
        block = owner[top : top + high][masks[0, 1, top : top + high] > 0].unique()
        assert len(block) == 1
        seen.append(int(block))
        top += high
    assert len({0, *seen}) == 1 + len(shapes)
    assert (owner[masks[0, 0] > 0] == 0).all()


@pytest.mark.parametrize("shape", [("box", 12, 8, 10), ("ball", 13, 13, 10), ("ball", 9, 13, 10)])
def test_one_box_or_ball_stays_one(shape):
    masks = stack(shape)
    assert torch.equal(cut_level(masks, torch.ones(1, 5, dtype=torch.bool), least=2.0, smallest=0.003), masks)


def test_no_stack_is_cut_without_a_slot_to_spare_and_an_image_alone_is_as_in_a_batch():
    masks = torch.cat([stack(*TWO_BOXES), stack(*BALL_ON_BOX), stack(("box", 12, 8, 10))])
    every, two = torch.ones(3, 5, dtype=torch.bool), torch.tensor([[True, True, False, False, False]] * 3)
    assert torch.equal(cut_level(masks, two, least=2.0, smallest=0.003), masks)
    together = cut_level(masks, every, least=2.0, smallest=0.003)
    torch.testing.assert_close(together.sum(1), torch.ones(3, 40, 40).double())
    for index in range(3):
        one = slice(index, index + 1)
        assert torch.equal(cut_level(masks[one], every[one], least=2.0, smallest=0.003), together[one])
