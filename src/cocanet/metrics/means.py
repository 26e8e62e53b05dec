"""The state that all metric classes share: a sum and a count of per-image scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor
from torchmetrics import Metric


class ImageMeans(Metric):
    """Means of several scores over images, independent of batches and processes.

    An image that lacks a score counts in `empty` and not in the mean. A number in `fill` enters the mean in its place;
    NaN in `fill` leaves the image out.
    """

    is_differentiable = False
    full_state_update = False
    total: Float64[Tensor, " scores"]
    scored: Int64[Tensor, " scores"]
    empty: Int64[Tensor, " scores"]
    fill: Float64[Tensor, " scores"]

    def __init__(self, scores: int, fill: Sequence[float] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("total", torch.zeros(scores, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("scored", torch.zeros(scores, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("empty", torch.zeros(scores, dtype=torch.int64), dist_reduce_fx="sum")
        values = torch.tensor(fill or [torch.nan] * scores, dtype=torch.float64)
        self.register_buffer("fill", values, persistent=False)

    def add(
        self,
        scores: Float64[Tensor, "b scores"],
        lacking: Bool[Tensor, "b scores"],
        unknown: Bool[Tensor, "b scores"] | None = None,
    ) -> None:
        """Add a batch. `lacking` marks scores that an image cannot have; `unknown` ones are not counted at all."""
        scores, lacking = scores.to(self.total.device), lacking.to(self.total.device)
        self.empty += lacking.sum(0)
        scores = torch.where(lacking, self.fill, scores)
        without = lacking & self.fill.isnan()
        if unknown is not None:
            without = without | unknown.to(self.total.device)
        self.total += scores.masked_fill(without, 0).sum(0)
        self.scored += (~without).sum(0)

    def means(self) -> Float64[Tensor, " scores"]:
        """The mean of each score; NaN where no image has it."""
        return self.total / self.scored
