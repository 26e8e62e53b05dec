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


def slow_covering(truth: np.ndarray, predicted: np.ndarray, ignored: int, by_area: bool) -> float:
    """Best IoU of each true segment, by sets of pixels."""
    total = weight = 0.0
    for label in sorted(set(truth.tolist())):
        if label < ignored:
            continue
        segment = truth == label
        best = 0.0
        for slot in sorted(set(predicted.tolist())):
            other = predicted == slot
            best = max(best, (segment & other).sum() / (segment | other).sum())
        share = segment.sum() if by_area else 1
        total, weight = total + share * best, weight + share
    return total / weight if weight else math.nan


def random_maps(seed: int, images: int = 40, pixels: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth, predicted = rng.integers(0, 5, (images, pixels)), rng.integers(0, 7, (images, pixels))
    agree = rng.random((images, 1)) > rng.random((images, pixels))
    return truth, np.where(agree, truth, predicted)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("ignored", [0, 1, 4])
def test_agrees_with_scikit_learn_and_a_loop(seed, ignored):
    truth, predicted = random_maps(seed)
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


def test_names_of_segments_do_not_matter():
    truth, predicted = random_maps(0)
    shuffled = np.random.default_rng(1).permutation(7)[predicted]
    first, second = (contingency(torch.tensor(truth), torch.tensor(x), 5, 7) for x in (predicted, shuffled))
    torch.testing.assert_close(adjusted_rand_index(first), adjusted_rand_index(second))
    torch.testing.assert_close(segmentation_covering(first), segmentation_covering(second))


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
