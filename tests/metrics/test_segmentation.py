import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import contingency, hard_labels
from cocanet.metrics.functional.covering import segmentation_covering
from tests.metrics.reference import slow_covering


def random_maps(seed: int, images: int = 40, pixels: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth, predicted = rng.integers(0, 5, (images, pixels)), rng.integers(0, 7, (images, pixels))
    agree = rng.random((images, 1)) > rng.random((images, pixels))
    return truth, np.where(agree, truth, predicted)


@pytest.mark.parametrize("ignored", [0, 1, 4])
def test_agrees_with_scikit_learn_and_a_loop(ignored):
    truth, predicted = random_maps(ignored, images=300)
    table = contingency(torch.tensor(truth), torch.tensor(predicted), 5, 7)
    ari = adjusted_rand_index(table, ignored)
    covering = {by_area: segmentation_covering(table, ignored, by_area=by_area) for by_area in (False, True)}
    for index, (true, found) in enumerate(zip(truth, predicted, strict=True)):
        kept = true >= ignored
        if kept.any():
            assert float(ari[index]) == pytest.approx(adjusted_rand_score(true[kept], found[kept]), abs=1e-12)
        else:
            assert math.isnan(ari[index])
        for by_area, scores in covering.items():
            expected = slow_covering(true, found, ignored, by_area)
            assert float(scores[index]) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12), st.integers(0, 3))
def test_corner_cases(pairs, ignored):
    true, found = (np.array(x) for x in zip(*pairs, strict=True))
    table = contingency(torch.tensor(true)[None], torch.tensor(found)[None], 4, 4)
    kept = true >= ignored
    ari, covering = adjusted_rand_index(table, ignored), segmentation_covering(table, ignored)
    if kept.any():
        assert float(ari) == pytest.approx(adjusted_rand_score(true[kept], found[kept]), abs=1e-12)
        assert float(covering) == pytest.approx(slow_covering(true, found, ignored, False), abs=1e-12)
    else:
        assert math.isnan(ari)
        assert math.isnan(covering)


def test_scores_do_not_depend_on_the_numbers_of_labels():
    truth, predicted = random_maps(0)
    rng = np.random.default_rng(1)
    for ignored in (0, 1, 2):
        renamed = np.concatenate([rng.permutation(ignored), ignored + rng.permutation(5 - ignored)])[truth]
        shuffled = rng.permutation(7)[predicted]
        first = contingency(torch.tensor(truth), torch.tensor(predicted), 5, 7)
        second = contingency(torch.tensor(renamed), torch.tensor(shuffled), 5, 7)
        torch.testing.assert_close(adjusted_rand_index(first, ignored), adjusted_rand_index(second, ignored))
        for by_area in (False, True):
            torch.testing.assert_close(
                segmentation_covering(first, ignored, by_area=by_area),
                segmentation_covering(second, ignored, by_area=by_area),
            )


def test_foreground_by_hand():
    for truth, predicted, ari, covering in (
        ([1, 1, 1, 1], [2, 2, 2, 2], 1, 1),  # one object, one slot
        ([1, 1, 1, 1], [0, 0, 0, 1], 0, 3 / 4),  # one object that two slots share
        ([0, 0, 1, 1], [0, 1, 2, 2], 1, 1),  # more slots than objects: the object itself is whole
        ([0, 0, 1, 1], [2, 2, 2, 2], 1, 1 / 2),  # the object's slot spills over the background
        ([0, 0, 0, 4], [0, 0, 0, 6], 1, 1),  # only the last label is there, in the last slot
        ([0, 0, 1, 1], [0, 0, 1, 2], 0, 1 / 2),  # two slots cover the object equally well
    ):
        table = contingency(torch.tensor([truth]), torch.tensor([predicted]), 5, 7)
        assert adjusted_rand_index(table, 1).item() == ari
        assert segmentation_covering(table, 1).item() == covering


def test_the_largest_label_decides_the_number_of_segments():
    labels = torch.tensor([[0, 3], [1, 1]])
    assert torch.equal(contingency(labels, labels, None, 4), contingency(labels, labels, 4, 4))
    assert contingency(labels[:0], labels[:0], None, 4).shape == (0, 1, 4)


def test_narrow_labels_do_not_overflow():
    truth, predicted = torch.randint(0, 100, (50, 200)), torch.randint(0, 100, (50, 200))
    wide = contingency(truth, predicted, 100, 100)
    assert wide.sum((1, 2)).eq(200).all()
    for dtype in (torch.int8, torch.int16, torch.int32):
        assert torch.equal(contingency(truth.to(dtype), predicted.to(dtype), 100, 100), wide)


def test_perfect_segments_score_one():
    truth = torch.tensor(random_maps(0)[0])
    table = contingency(truth, (truth + 2) % 5, 5, 5)
    assert (adjusted_rand_index(table, 1) == 1).all()
    assert (segmentation_covering(table, 1) == 1).all()


def test_labels_out_of_range_are_named():
    labels = torch.tensor([[0, 3]])
    with pytest.raises(ValueError, match=r"true labels must lie in 0 … 2; got 0 … 3"):
        contingency(labels, labels, 3, 4)


def test_the_first_of_equal_masks_wins():
    assert hard_labels(torch.tensor([[[[0.4]], [[0.4]], [[0.2]]]])).item() == 0
    masks = torch.randint(0, 3, (50, 7, 9, 16)).float()
    assert np.array_equal(hard_labels(masks).numpy(), masks.numpy().argmax(1))
