"""Mask scores of one image by loops over sets of pixels."""

import math

import numpy as np

EPSILON = 1e-8


def slow_covering(
    truth: np.ndarray, predicted: np.ndarray, ignored: int, by_area: bool = False, forbidden: int | None = None
) -> float:
    """Best IoU of each true segment; the slot `forbidden` covers nothing."""
    total = weight = 0.0
    for label in sorted(set(truth.ravel().tolist())):
        if label < ignored:
            continue
        segment = truth == label
        best = 0.0
        for slot in sorted(set(predicted.ravel().tolist()) - {forbidden}):
            other = predicted == slot
            best = max(best, (segment & other).sum() / (segment | other).sum())
        share = segment.sum() if by_area else 1
        total, weight = total + share * best, weight + share
    return total / weight if weight else math.nan


def slow_iou(region: np.ndarray, other: np.ndarray) -> float:
    return ((region & other).sum() + EPSILON) / ((region | other).sum() + EPSILON)


def slow_dice(region: np.ndarray, other: np.ndarray) -> float:
    return (2 * (region & other).sum() + EPSILON) / (region.sum() + other.sum() + EPSILON)


def slow_border_slot(predicted: np.ndarray, slots: int) -> int:
    height, width = predicted.shape
    shares = [[0, 0, -slot] for slot in range(slots)]
    for row in range(height):
        for column in range(width):
            share = shares[predicted[row, column]]
            share[0] += row in (0, height - 1) or column in (0, width - 1)
            share[1] += 1
    return -max(shares)[2]


def slow_overlaps(truth: np.ndarray, predicted: np.ndarray, slots: int, background_labels: int) -> dict[str, float]:
    foreground = truth >= background_labels
    chosen = slow_border_slot(predicted, slots)
    scores = {
        "mbo": slow_covering(truth, predicted, background_labels),
        "mbo_united": slow_covering(truth, predicted, background_labels, forbidden=chosen),
    }
    for name, measure in (("iou", slow_iou), ("dice", slow_dice)):
        best = {
            side: max(measure(region, predicted == slot) for slot in range(slots))
            for side, region in (("fore", foreground), ("back", ~foreground))
            if region.any()
        }
        scores[name] = best.get("fore", math.nan)
        scores[f"{name}_both"] = sum(best.values()) / len(best) if "fore" in best else math.nan
        scores[f"{name}_united"] = measure(foreground, predicted != chosen) if "fore" in best else math.nan
    return scores
