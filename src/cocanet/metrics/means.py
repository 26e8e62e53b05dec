"""What all the metric classes share: a sum and a count of per-image scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor
from torchmetrics import Metric


class ImageMeans(Metric):
    """Means of several scores over images, the same however images are split into batches and processes.

    Images that lack a score (NaN in the functional form) are counted in `empty` and left out of its mean, or, if `fill`
    is given, enter it with that value.
    """

    is_differentiable = False
    full_state_update = False
    total: Float64[Tensor, " scores"]
    scored: Int64[Tensor, " scores"]
    empty: Int64[Tensor, " scores"]
    fill: Float64[Tensor, " scores"] | None

    def __init__(self, scores: int, fill: Sequence[float] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("total", torch.zeros(scores, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("scored", torch.zeros(scores, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("empty", torch.zeros(scores, dtype=torch.int64), dist_reduce_fx="sum")
        values = None if fill is None else torch.tensor(fill, dtype=torch.float64)
        self.register_buffer("fill", values, persistent=False)

    def add(
        self,
        scores: Float64[Tensor, "b scores"],
        lacking: Bool[Tensor, "b scores"],
        unknown: Bool[Tensor, "b scores"] | None = None,
    ) -> None:
        """Count a batch of scores, some of which images do not have. What is `unknown` is not counted at all."""
        scores, lacking = scores.to(self.total.device), lacking.to(self.total.device)
        unknown = torch.zeros_like(lacking) if unknown is None else unknown.to(self.total.device)
        self.empty += lacking.sum(0)
        if self.fill is not None:
            scores, lacking = torch.where(lacking, self.fill, scores), torch.zeros_like(lacking)
        without = lacking | unknown
        self.total += scores.masked_fill(without, 0).sum(0)
        self.scored += (~without).sum(0)

    def means(self) -> Float64[Tensor, " scores"]:
        """NaN for a score that no image has."""
        return self.total / self.scored
