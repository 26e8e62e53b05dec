"""Rims against a loop over border pixels, and on figures whose edge was blurred by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cocanet.functional.rims import CONTRAST, REACH, SMALLER, settle_rims, side_colours


def settled_by_loop(labels: np.ndarray, image: np.ndarray, part: float) -> np.ndarray:
    """Every pixel's segment, looked at one by one."""
    height, width = labels.shape
    area = {label: int((labels == label).sum()) for label in np.unique(labels)}

    def around(row: int, column: int, reach: int) -> list[tuple[int, int]]:
        rows, columns = (range(max(0, x - reach), min(n, x + reach + 1)) for x, n in ((row, height), (column, width)))
        return [(r, c) for r in rows for c in columns]

    def colour(label: int, row: int, column: int) -> np.ndarray:
        own = [place for place in around(row, column, REACH) if labels[place] == label]
        inside = [place for place in own if all(labels[near] == label for near in around(*place, 1))]
        return np.mean([image[:, r, c] for r, c in inside or own], axis=0)

    out = labels.copy()
    for row in range(height):
        for column in range(width):
            here = labels[row, column]
            beside = [labels[place] for place in around(row, column, 1) if labels[place] != here]
            if not beside:
                continue
            there = max(sorted(set(beside)), key=beside.count)
            figure, ground = (here, there) if area[here] < area[there] else (there, here)
            if area[figure] > SMALLER * area[ground]:
                continue
            behind = colour(ground, row, column)
            difference = colour(figure, row, column) - behind
            if difference @ difference < CONTRAST:
                continue
            alpha = (image[:, row, column] - behind) @ difference / (difference @ difference)
            out[row, column] = figure if alpha > part else ground
    return out


@pytest.mark.parametrize("part", [0.2, 0.5])
def test_against_a_loop_over_pixels(part):
    draw = torch.Generator().manual_seed(3)
    labels = torch.zeros(2, 14, 13, dtype=torch.long)
    labels[:, 3:7, 2:6], labels[0, 9:12, 7:11], labels[1, 5:9, 5:9] = 1, 2, 2
    images = torch.rand(2, 3, 14, 13, generator=draw, dtype=torch.float64)
    masks = (2 * F.one_hot(labels, 4).movedim(-1, 1).double()).softmax(1)
    ours = settle_rims(masks, images, part=part).argmax(1)
    assert (ours != labels).sum() > 10
    for index in range(2):
        assert np.array_equal(ours[index].numpy(), settled_by_loop(labels[index].numpy(), images[index].numpy(), part))


def blurred(part: float, contrast: float = 0.5):
    """A square on a ground, and around it a rim that is partly the square's; the masks leave the rim to the ground."""
    cover = torch.zeros(20, 20)
    cover[6:13, 6:13] = part
    cover[7:12, 7:12] = 1
    image = torch.full((1, 3, 20, 20), 0.3)
    image[:, 0] += contrast * cover
    masks = torch.stack((1 - (cover == 1).float(), (cover == 1).float(), torch.zeros(20, 20)))[None]
    return masks, image, cover


@pytest.mark.parametrize("contrast", [0.1, 0.5])
@pytest.mark.parametrize(("part", "taken"), [(0.2, False), (0.4, True), (0.6, True)])
def test_a_rim_is_the_figures_by_its_part_whatever_the_contrast(contrast, part, taken):
    masks, image, cover = blurred(part, contrast)
    found = settle_rims(masks, image, part=0.3).argmax(1)[0]
    assert torch.equal(found == 1, (cover > 0) if taken else (cover == 1))


def test_neither_of_two_halves_is_a_figure():
    masks = torch.zeros(1, 2, 10, 10)
    masks[:, 0, :, :4], masks[:, 1, :, 4:] = 1, 1
    image = torch.full((1, 3, 10, 10), 0.2)
    image[..., 3:] = 0.8
    assert torch.equal(settle_rims(masks, image, part=0.3), masks)


def test_masks_sum_to_one_an_image_alone_is_as_in_a_batch_and_alike_colours_change_nothing():
    masks, image, _ = blurred(0.5)
    soft = (masks + 0.1) / (masks + 0.1).sum(1, keepdim=True)
    other = blurred(0.2, 0.1)[1]
    together = settle_rims(torch.cat((soft, soft)), torch.cat((image, other)), part=0.3)
    torch.testing.assert_close(together.sum(1), torch.ones(2, 20, 20))
    torch.testing.assert_close(settle_rims(soft, image, part=0.3)[0], together[0])
    flat = torch.full_like(image, 0.5)
    assert torch.equal(settle_rims(soft, flat, part=0.3), soft)


def test_colours_of_a_side_are_those_inside_it():
    masks, image, _ = blurred(0.5)
    sides = side_colours(masks, image)
    torch.testing.assert_close(sides[0, 1, :, 6, 9], torch.tensor([0.8, 0.3, 0.3]))
