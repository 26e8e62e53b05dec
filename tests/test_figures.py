import numpy as np
import torch

from cocanet.figures import BACKGROUND, background_slot, colour_segments


def test_background_is_grey_and_objects_differ():
    labels = torch.tensor([[0, 1], [2, 3]])
    picture = colour_segments(labels, [0])
    assert tuple(picture[0, 0]) == BACKGROUND
    assert len({tuple(pixel) for pixel in picture.reshape(-1, 3)}) == 4


def test_a_missing_background_slot_changes_nothing():
    labels = torch.tensor([[0, 1]])
    np.testing.assert_array_equal(colour_segments(labels, [-1 + 7]), colour_segments(labels))


def test_the_slot_on_most_of_the_background_is_found():
    truth, found = torch.tensor([[0, 0, 0, 1]]), torch.tensor([[2, 2, 1, 3]])
    assert background_slot(found, truth, 1) == 2
    assert background_slot(found, truth + 1, 1) == -1
