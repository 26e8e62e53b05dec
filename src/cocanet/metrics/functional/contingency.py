"""How many pixels each true segment shares with each predicted one: all that the segmentation scores need."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from cocanet.labels import UNLABELLED


def contingency(
    truth: Int[Tensor, " b *pixels"], predicted: Int[Tensor, " b *pixels"], segments: int | None, slots: int
) -> Int64[Tensor, "b segments slots"]:
    """Pixels of each image with true label i and predicted label j, without a loop over images or labels.

    Without a number of `segments` there are as many as the batch's largest true label asks for.
    """
    segments = _check_labels("true", truth, segments)
    _check_labels("predicted", predicted, slots)
    cells = segments * slots
    first_cell = torch.arange(0, len(truth) * cells, cells, device=truth.device).unsqueeze(1)
    cell = torch.add(predicted.flatten(1) + first_cell, truth.flatten(1), alpha=slots)
    return torch.bincount(cell.flatten(), minlength=len(truth) * cells).view(len(truth), segments, slots)


def mask_contingency(labels: Int[Tensor, "b h w"], masks: Float[Tensor, "b k h w"]) -> Int64[Tensor, "b segments k"]:
    """Contingency table of true labels and of masks made hard."""
    return contingency(labels, hard_labels(masks), None, masks.shape[1])


def hard_labels(masks: Float[Tensor, "b k h w"]) -> Int64[Tensor, "b h w"]:
    """The slot with the largest mask at each pixel; the first of several equal ones."""
    # max, because argmax takes five times as long over a dimension that is not the last.
    return masks.max(1).indices


def is_labelled(labels: Int[Tensor, "b h w"]) -> Bool[Tensor, " b"]:
    """Whether an image's true segments are known."""
    return (labels != UNLABELLED).flatten(1).any(1)


def _check_labels(name: str, labels: Tensor, count: int | None) -> int:
    """The number of labels, checked."""
    low, high = (int(label) for label in labels.aminmax()) if labels.numel() else (0, 0)
    count = high + 1 if count is None else count
    if labels.numel() and not 0 <= low <= high < count:
        raise ValueError(f"{name} labels must lie in 0 … {count - 1}; got {low} … {high}")
    return count
