import itertools

import numpy as np
import torch

from cocanet.explain.figures.colours import (
    BACKGROUND,
    GREY,
    PALETTE,
    background_slot,
    colour_segments,
    match_numbers,
    slot_numbers,
    to_colours,
)


def test_background_is_grey_and_objects_differ():
    labels = torch.tensor([[0, 1], [2, 3]])
    picture = colour_segments(labels, [0])
    assert tuple(picture[0, 0]) == BACKGROUND
    np.testing.assert_array_equal(picture[[0, 1, 1], [1, 0, 1]], PALETTE[:3])


def test_a_missing_background_slot_changes_nothing():
    labels = torch.tensor([[0, 1]])
    np.testing.assert_array_equal(colour_segments(labels, [-1 + 7]), colour_segments(labels))


def test_colours_beyond_the_palette_are_all_different():
    picture = to_colours(np.arange(GREY, 40))
    assert len({tuple(colour) for colour in picture.round(3)}) == 41
    assert ((picture >= 0) & (picture <= 1)).all()
    assert tuple(picture[0]) == BACKGROUND


def test_the_slot_on_most_of_the_background_is_found():
    truth, found = torch.tensor([[0, 0, 0, 1]]), torch.tensor([[2, 2, 1, 3]])
    assert background_slot(found, truth, 1) == 2
    assert background_slot(found, truth + 1, 1) == -1


def test_of_equal_slots_on_the_background_the_first_to_appear_counts():
    truth = torch.zeros(1, 4, dtype=torch.long)
    assert background_slot(torch.tensor([[3, 3, 1, 1]]), truth, 1) == 3
    assert background_slot(torch.tensor([[1, 1, 3, 3]]), truth, 1) == 1


def test_the_matching_shares_most_pixels_of_all():
    """Against every one-to-one assignment of four slots to four true segments."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth, found = rng.integers(0, 4, (6, 7)), rng.integers(0, 4, (6, 7))
        ours = match_numbers(found, 4, [truth])
        shared = [np.sum(np.array(order)[found] == truth) for order in itertools.permutations(range(4))]
        assert np.sum(ours[found] == truth) == max(shared)


def test_slots_without_a_match_get_further_colours():
    truth = np.array([[0, 0, 0, 1]])
    found = np.array([[5, 5, 2, 0]])
    numbers = match_numbers(found, 6, [truth])
    assert numbers[5] == 0
    assert numbers[0] == 1
    assert sorted(numbers[[1, 2, 3, 4]]) == [2, 3, 4, 5], "all others differ, seen or not"
    assert numbers[2] == 2, "those that are seen come first"


def test_an_overlap_of_nothing_is_no_match():
    numbers = match_numbers(np.array([[0, 0, 0, 1]]), 2, [np.array([[3, 3, 5, GREY]])])
    assert numbers.tolist() == [3, 6]


def test_slots_without_a_match_in_the_first_reference_match_the_second():
    """Two segments of decoder and encoder lie on the background; in the encoder the second appears first."""
    truth = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]])
    decoder = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2, 3]])
    encoder = torch.tensor([[3, 1, 1, 3, 3, 0, 0, 0, 0, 2]])
    first, second = slot_numbers([decoder, encoder], 4, truth, 1)
    assert second[[1, 3, 0, 2]].tolist() == [1, 2, GREY, 0]
    np.testing.assert_array_equal(second[[1, 3, 0, 2]], first)


def test_the_index_of_a_slot_makes_no_difference():
    """Coarse random segments, so that many overlaps are equal."""
    for seed, labelled in itertools.product(range(5), (True, False)):
        generator = torch.Generator().manual_seed(seed)
        truth, decoder, encoder = torch.randint(0, 5, (3, 3, 4), generator=generator)
        known = truth if labelled else None
        found = [decoder, encoder]
        renamed = [torch.randperm(5, generator=generator)[x] for x in found]
        numbers, others = slot_numbers(found, 5, known, 2), slot_numbers(renamed, 5, known, 2)
        for index in range(2):
            np.testing.assert_array_equal(numbers[index][found[index].numpy()], others[index][renamed[index].numpy()])


def test_without_a_truth_the_largest_segment_is_grey_in_all():
    decoder, encoder = torch.tensor([[0, 1, 1, 1]]), torch.tensor([[1, 0, 0, 1]])
    first, second = slot_numbers([decoder, encoder], 2, None, 1)
    assert first.tolist() == [0, GREY]
    assert second.tolist() == [GREY, 0]
