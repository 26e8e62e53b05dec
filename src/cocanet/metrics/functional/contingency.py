"""How many pixels each true segment shares with each predicted one: all that the segmentation scores need."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def contingency(
    truth: Int[Tensor, b * pixels], predicted: Int[Tensor, b * pixels], segments: int, slots: int
) -> Int[Tensor, "b segments slots"]:
    """Pixels of each image with true label i and predicted label j, without a loop over images or labels."""
    _check_labels("true", truth, segments)
    _check_labels("predicted", predicted, slots)
    batch = len(truth)
    image = torch.arange(batch, device=truth.device).unsqueeze(-1)
    cell = (image * segments + truth.flatten(1)) * slots + predicted.flatten(1)
    return torch.bincount(cell.flatten(), minlength=batch * segments * slots).view(batch, segments, slots)


def hard_labels(masks: Float[Tensor, "b k h w"]) -> Int[Tensor, "b h w"]:
    """The slot with the largest mask at each pixel; the first of several equal ones."""
    return masks.argmax(1)


def _check_labels(name: str, labels: Tensor, count: int) -> None:
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < count:
        raise ValueError(f"{name} labels must lie in 0 … {count - 1}; got {int(labels.min())} … {int(labels.max())}")
