"""Scores of object discovery against scikit-learn, loops over pixels, and SciPy's boxes."""

import math

import numpy as np
import pytest
import torch
from scipy.ndimage import find_objects
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import pair_confusion_matrix

from cocanet.metrics.functional.contingency import contingency
from cocanet.metrics.functional.discovery import localised, pair_scores, panoptic_quality
from tests.metrics.reference import slow_border_slot
from tests.metrics.test_overlap import SEGMENTS, SLOTS, random_maps


def slow_pairs(truth: np.ndarray, predicted: np.ndarray, ignored: int) -> tuple[float, float]:
    kept = truth >= ignored
    if kept.sum() < 2:
        return math.nan, math.nan
    (_, false_positive), (false_negative, both) = pair_confusion_matrix(truth[kept], predicted[kept])
    predicted_pairs, true_pairs = both + false_positive, both + false_negative
    return (both / predicted_pairs if predicted_pairs else math.nan, both / true_pairs if true_pairs else math.nan)


def slow_quality(truth: np.ndarray, predicted: np.ndarray) -> float:
    segments, slots = np.unique(truth), np.unique(predicted)
    found = []
    for segment in segments:
        for slot in slots:
            one, other = truth == segment, predicted == slot
            iou = (one & other).sum() / (one | other).sum()
            found += [iou] if iou > 0.5 else []
    missed, invented = len(segments) - len(found), len(slots) - len(found)
    return sum(found) / (len(found) + missed / 2 + invented / 2)


def slow_localised(truth: np.ndarray, predicted: np.ndarray, background_labels: int) -> float:
    def box_pixels(labels: np.ndarray, label: int) -> np.ndarray:
        filled = np.zeros(labels.shape, bool)
        filled[find_objects((labels == label).astype(int))[0]] = True
        return filled

    objects = [box_pixels(truth, label) for label in np.unique(truth) if label >= background_labels]
    ground = slow_border_slot(predicted, SLOTS)
    slots = [box_pixels(predicted, slot) for slot in np.unique(predicted) if slot != ground]
    ious = [(one & other).sum() / (one | other).sum() for one in objects for other in slots]
    return float(max(ious, default=0) >= 0.5) if objects else math.nan


@pytest.mark.parametrize("ignored", [0, 1, 3])
def test_agree_with_independent_implementations(ignored):
    truth, predicted = random_maps(ignored, images=300)
    truth[0], predicted[1] = 0, 0
    table = contingency(torch.tensor(truth), torch.tensor(predicted), SEGMENTS, SLOTS)
    pairs, quality = pair_scores(table, ignored), panoptic_quality(table)
    hits = localised(torch.tensor(truth), torch.tensor(predicted), SLOTS, ignored)
    for index, (one, other) in enumerate(zip(truth, predicted, strict=True)):
        found = [float(each[index]) for each in (pairs.precision, pairs.recall, quality, hits)]
        expected = [*slow_pairs(one, other, ignored), slow_quality(one, other), slow_localised(one, other, ignored)]
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert 0 < hits.nanmean() < 1


def test_merging_costs_precision_and_splitting_recall():
    truth = torch.tensor([[[1, 1, 2, 2]]])
    merged, split = torch.tensor([[[1, 1, 1, 1]]]), torch.tensor([[[0, 1, 2, 3]]])
    of_merged, of_split = (pair_scores(contingency(truth, each, 3, 4), 1) for each in (merged, split))
    assert (float(of_merged.precision), float(of_merged.recall)) == (pytest.approx(1 / 3), 1.0)
    assert math.isnan(of_split.precision)
    assert float(of_split.recall) == 0
    assert adjusted_rand_score([1, 1, 2, 2], [1, 1, 1, 1]) == adjusted_rand_score([1, 1, 2, 2], [0, 1, 2, 3]) == 0
