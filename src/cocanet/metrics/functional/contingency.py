"""Contingency tables: the pixels that each true segment shares with each predicted one."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from cocanet.labels import UNLABELLED


def contingency(
    truth: Int[Tensor, " b *pixels"], predicted: Int[Tensor, " b *pixels"], segments: int | None, slots: int
) -> Int64[Tensor, "b segments slots"]:
    """Number of pixels of each image with true label i and predicted label j.

    If `segments` is None, the largest true label of the batch decides it.
    """
    segments = _check_labels("true", truth, segments)
    _check_labels("predicted", predicted, slots)
    cells = segments * slots
    first_cell = torch.arange(0, len(truth) * cells, cells, device=truth.device).unsqueeze(1)
    cell = torch.add(predicted.flatten(1) + first_cell, truth.flatten(1), alpha=slots)
    return torch.bincount(cell.flatten(), minlength=len(truth) * cells).view(len(truth), segments, slots)


def mask_contingency(labels: Int[Tensor, "b h w"], masks: Float[Tensor, "b k h w"]) -> Int64[Tensor, "b segments k"]:
    """Contingency table of true labels and hard masks."""
    return contingency(labels, hard_labels(masks), None, masks.shape[1])


def hard_labels(masks: Float[Tensor, "b k h w"]) -> Int64[Tensor, "b h w"]:
    """The slot with the largest mask at each pixel; the first of equal ones."""
    # max, because argmax takes five times as long over a dimension that is not the last.
    return masks.max(1).indices


def is_labelled(labels: Int[Tensor, "b h w"]) -> Bool[Tensor, " b"]:
    """Whether each image has labels."""
    return (labels != UNLABELLED).flatten(1).any(1)


def slots_with_pixels(
    table: Int[Tensor, "b segments slots"], in_use: Bool[Tensor, "b slots"] | None = None
) -> Int64[Tensor, " b"]:
    """Number of slots of each image that are in use and own at least one pixel."""
    owning = table.sum(1) > 0
    return (owning if in_use is None else owning & in_use).sum(1)


def _check_labels(name: str, labels: Tensor, count: int | None) -> int:
    """The number of labels, checked."""
    low, high = (int(label) for label in labels.aminmax()) if labels.numel() else (0, 0)
    count = high + 1 if count is None else count
    if labels.numel() and not 0 <= low <= high < count:
        raise ValueError(f"{name} labels must lie in 0 … {count - 1}; got {low} … {high}")
    return count
