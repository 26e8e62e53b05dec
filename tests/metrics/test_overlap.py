import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cocanet.metrics.functional.contingency import contingency
from cocanet.metrics.functional.overlap import (
    best_slot_overlap,
    border_slot,
    both_regions_overlap,
    mean_best_overlap,
    united_overlap,
)
from tests.metrics.reference import slow_overlaps

SEGMENTS, SLOTS = 4, 5


def fast_overlaps(truth: np.ndarray, predicted: np.ndarray, background_labels: int) -> dict[str, torch.Tensor]:
    table = contingency(torch.tensor(truth), torch.tensor(predicted), SEGMENTS, SLOTS)
    chosen = border_slot(torch.tensor(predicted), SLOTS)
    scores = {
        "mbo": mean_best_overlap(table, background_labels),
        "mbo_united": mean_best_overlap(table, background_labels, chosen),
    }
    for suffix, overlap in (
        ("", best_slot_overlap(table, background_labels)),
        ("_both", both_regions_overlap(table, background_labels)),
        ("_united", united_overlap(table, chosen, background_labels)),
    ):
        scores |= {f"iou{suffix}": overlap.iou, f"dice{suffix}": overlap.dice}
    return scores


def random_maps(seed: int, images: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Label maps that agree to any degree, with few or many labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, rng.integers(1, SEGMENTS + 1, (images, 1, 1)), (images, 6, 5))
    predicted = rng.integers(0, rng.integers(1, SLOTS + 1, (images, 1, 1)), (images, 6, 5))
    return truth, np.where(rng.random((images, 1, 1)) > rng.random(truth.shape), truth, predicted)


def assert_equal_to_loops(truth: np.ndarray, predicted: np.ndarray, background_labels: int) -> None:
    fast = fast_overlaps(truth, predicted, background_labels)
    for index in range(len(truth)):
        expected = slow_overlaps(truth[index], predicted[index], SLOTS, background_labels)
        assert {name: float(score[index]) for name, score in fast.items()} == pytest.approx(
            expected, abs=1e-12, nan_ok=True
        )


@pytest.mark.parametrize("background_labels", [0, 1, 3])
def test_agrees_with_a_loop(background_labels):
    assert_equal_to_loops(*random_maps(background_labels, images=400), background_labels)


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 4), st.integers(0, SEGMENTS))
def test_corner_cases(data, height, width, background_labels):
    truth = data.draw(arrays(np.int64, (1, height, width), elements=st.integers(0, SEGMENTS - 1)))
    predicted = data.draw(arrays(np.int64, (1, height, width), elements=st.integers(0, SLOTS - 1)))
    assert_equal_to_loops(truth, predicted, background_labels)


def test_scores_do_not_depend_on_the_numbers_of_labels():
    truth, predicted = random_maps(0, images=500)
    rng = np.random.default_rng(1)
    renamed = np.concatenate([[0], 1 + rng.permutation(SEGMENTS - 1)])[truth]
    slots = rng.permutation(SLOTS)
    # Where slots tie for the background the first is taken, so numbers matter there.
    same = (
        slots[border_slot(torch.tensor(predicted), SLOTS)] == border_slot(torch.tensor(slots[predicted]), SLOTS).numpy()
    )
    assert same.mean() > 0.9
    first, second = fast_overlaps(truth, predicted, 1), fast_overlaps(renamed, slots[predicted], 1)
    for name in first:
        rows = torch.tensor(same) if name.endswith("united") else slice(None)
        torch.testing.assert_close(first[name][rows], second[name][rows], equal_nan=True)


def test_perfect_foreground_scores_one():
    truth = np.zeros((1, 6, 6), dtype=np.int64)
    truth[:, 2:4, 2:5] = 1
    scores = fast_overlaps(truth, 3 - truth, 1)
    assert {float(score) for score in scores.values()} == {1.0}


def test_the_background_is_the_slot_along_the_border_even_if_small():
    predicted = torch.zeros(1, 8, 8, dtype=torch.int64)
    predicted[:, 1:-1, 1:-1] = 1
    assert int(border_slot(predicted, 3)) == 0
    assert int((predicted == 1).sum()) > 32


def test_one_slot_for_everything_finds_no_foreground_without_an_oracle():
    truth = np.array([[[0, 0], [1, 1]]])
    scores = fast_overlaps(truth, np.zeros_like(truth), 1)
    assert float(scores["iou"]) == pytest.approx(1 / 2)
    assert float(scores["dice"]) == pytest.approx(2 / 3)
    for name in ("iou_united", "dice_united", "mbo_united"):
        assert float(scores[name]) == pytest.approx(0, abs=1e-8)


def test_no_foreground_is_no_score():
    nothing = np.zeros((2, 3, 3), dtype=np.int64)
    assert all(math.isnan(value) for score in fast_overlaps(nothing, nothing, 1).values() for value in score)
