"""Colours of segments: an object has the same colour wherever it is drawn.

A colour is first a number, an index into the palette or GREY, so that segments can be matched before they are drawn.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from cocanet.labels import UNLABELLED

BACKGROUND = (0.45, 0.45, 0.45)
PALETTE = np.array(
    [
        (0.90, 0.29, 0.23), (0.20, 0.60, 0.86), (0.95, 0.77, 0.06), (0.18, 0.70, 0.44), (0.61, 0.35, 0.71),
        (0.95, 0.55, 0.15), (0.10, 0.74, 0.71), (0.91, 0.47, 0.71), (0.55, 0.76, 0.29), (0.36, 0.42, 0.75),
        (0.75, 0.60, 0.42),
    ]
)  # fmt: skip
GREY = -1


def to_colours(numbers: Int[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape 3"]:
    """RGB of colour numbers; numbers beyond the palette have further hues."""
    beyond = range(len(PALETTE), int(numbers.max(initial=GREY)) + 1)
    further = [colorsys.hsv_to_rgb(number * 0.618 % 1, 0.45, 0.85) for number in beyond]
    table = np.array([*PALETTE, *further, BACKGROUND])
    return np.asarray(table[numbers])


def colour_segments(labels: Int[Tensor, "h w"], background: Sequence[int] = ()) -> Float[np.ndarray, "h w 3"]:
    """A colour for each label, grey for the background ones."""
    numbers = np.full(int(labels.max()) + 1, GREY)
    shown = [label for label in range(len(numbers)) if label not in background]
    numbers[shown] = np.arange(len(shown))
    return to_colours(numbers[labels.cpu().numpy()])


def background_slot(segments: Int[Tensor, "h w"], truth: Int[Tensor, "h w"], background_labels: int) -> int:
    """The predicted segment that covers most of the true background; the first to appear of several."""
    covered = segments[truth < background_labels].cpu().numpy()
    if not covered.size:
        return -1
    labels, first, pixels = np.unique(covered, return_index=True, return_counts=True)
    return int(labels[np.lexsort((first, -pixels))[0]])


def known_truth(truth: Int[Tensor, "h w"] | None) -> Int[Tensor, "h w"] | None:
    """The ground truth of an image; None if the image is not labelled."""
    return None if truth is None or bool((truth == UNLABELLED).all()) else truth


def truth_numbers(truth: Int[Tensor, "h w"], background_labels: int) -> Int[np.ndarray, "h w"]:
    """Colour numbers of the ground truth: objects in the order of their labels, background grey."""
    return np.maximum(truth.cpu().numpy().astype(np.int64) - background_labels, GREY)


def match_numbers(
    segments: Int[np.ndarray, "h w"], slots: int, references: Sequence[Int[np.ndarray, "h w"]], grey: int = -1
) -> Int[np.ndarray, " slots"]:
    """A colour number for each slot: that of the reference segment it overlaps most, matched one to one.

    References are maps of colour numbers. A slot without a match in the first is matched to the second, and so on;
    slots without any match get new numbers. The order of slots makes no difference.
    """
    labels, first = np.unique(segments, return_index=True)
    absent = np.setdiff1d(np.arange(slots), labels)
    unmatched = [int(label) for label in (*labels[np.argsort(first)], *absent)]
    numbers = np.full(slots, GREY)
    unmatched = [slot for slot in unmatched if slot != grey]
    taken = {GREY}
    for reference in references:
        free = [number for number in np.unique(reference) if number not in taken]
        shared = np.array(
            [[np.sum((segments == slot) & (reference == number)) for number in free] for slot in unmatched]
        )
        pairs = linear_sum_assignment(shared.reshape(len(unmatched), len(free)), maximize=True)
        for row, column in zip(*pairs, strict=True):
            if shared[row, column]:
                numbers[unmatched[row]] = free[column]
        taken.update(numbers.tolist())
        unmatched = [slot for slot in unmatched if numbers[slot] == GREY]
    fresh = 1 + max((int(reference.max()) for reference in references), default=GREY)
    numbers[unmatched] = np.arange(fresh, fresh + len(unmatched))
    return numbers


def slot_numbers(
    predicted: Sequence[Int[Tensor, "h w"]], slots: int, truth: Int[Tensor, "h w"] | None, background_labels: int
) -> list[Int[np.ndarray, " slots"]]:
    """Colour numbers of the slots in each of several segmentations of one image.

    All are matched to the ground truth, and remaining slots to the segmentations before. The slot that overlaps the
    background most is grey, as in the paper's Figure 3. Without ground truth the first segmentation's largest segment
    counts as background.
    """
    truth = known_truth(truth)
    references = [] if truth is None else [truth_numbers(truth, background_labels)]
    if truth is None:
        largest = background_slot(predicted[0], torch.zeros_like(predicted[0]), 1)
        truth, background_labels = (predicted[0] != largest).long(), 1
    results = []
    for segments in predicted:
        labels = segments.cpu().numpy()
        numbers = match_numbers(labels, slots, references, background_slot(segments, truth, background_labels))
        results.append(numbers)
        references.append(numbers[labels])
    return results
