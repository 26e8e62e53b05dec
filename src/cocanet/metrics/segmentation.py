"""Metric classes, one for each kind of score; `functional` computes the scores."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import (
    contingency,
    hard_labels,
    is_labelled,
    mask_contingency,
    slots_with_pixels,
)
from cocanet.metrics.functional.covering import segmentation_covering
from cocanet.metrics.functional.overlap import (
    best_slot_overlap,
    border_slot,
    both_regions_overlap,
    mean_best_overlap,
    united_overlap,
)
from cocanet.metrics.functional.reconstruction import reconstruction_error
from cocanet.metrics.means import ImageMeans
from cocanet.metrics.table import EMPTY_ARI, EMPTY_COVERING

OVERLAPS = (
    "iou",
    "dice",
    "mbo",
    "iou_both",
    "dice_both",
    "iou_united",
    "dice_united",
    "mbo_united",
)


def _labelled_only(
    masks: Float[Tensor, "b k h w"], labels: Int[Tensor, "b h w"]
) -> tuple[Float[Tensor, "n k h w"], Int[Tensor, "n h w"]]:
    """The images that have labels."""
    known = is_labelled(labels)
    return masks[known], labels[known]


class AdjustedRandIndex(ImageMeans):
    """Mean ARI of masks over the pixels of all but the first `ignored` labels."""

    higher_is_better = True

    def __init__(self, ignored: int = 0, *, paper_empty_foreground: bool = False, **options: Any) -> None:
        super().__init__(1, [EMPTY_ARI] if paper_empty_foreground else None, **options)
        self.ignored = ignored

    def update(self, masks: Float[Tensor, "b k h w"], labels: Int[Tensor, "b h w"]) -> None:
        masks, labels = _labelled_only(masks, labels)
        scores = adjusted_rand_index(mask_contingency(labels, masks), self.ignored).unsqueeze(1)
        self.add(scores, scores.isnan())

    def compute(self) -> Float64[Tensor, ""]:
        return self.means()[0]


class SegmentationCovering(ImageMeans):
    """Mean segmentation covering of all but the first `ignored` labels; `by_area` weights segments by their size."""

    higher_is_better = True

    def __init__(
        self, ignored: int = 0, *, by_area: bool = False, paper_empty_foreground: bool = False, **options: Any
    ) -> None:
        super().__init__(1, [EMPTY_COVERING] if paper_empty_foreground else None, **options)
        self.ignored, self.by_area = ignored, by_area

    def update(self, masks: Float[Tensor, "b k h w"], labels: Int[Tensor, "b h w"]) -> None:
        masks, labels = _labelled_only(masks, labels)
        table = mask_contingency(labels, masks)
        scores = segmentation_covering(table, self.ignored, by_area=self.by_area).unsqueeze(1)
        self.add(scores, scores.isnan())

    def compute(self) -> Float64[Tensor, ""]:
        return self.means()[0]


class ForegroundOverlap(ImageMeans):
    """Mean IoU, Dice and best overlap of masks with the foreground, for photographs: all of `OVERLAPS` at once.

    `_both` averages over foreground and background. `_united` needs no ground truth to separate the two.
    """

    higher_is_better = True

    def __init__(self, background_labels: int = 1, **options: Any) -> None:
        super().__init__(len(OVERLAPS), **options)
        self.background_labels = background_labels

    def update(self, masks: Float[Tensor, "b k h w"], labels: Int[Tensor, "b h w"]) -> None:
        masks, labels = _labelled_only(masks, labels)
        predicted, slots, background = hard_labels(masks), masks.shape[1], self.background_labels
        table, chosen = contingency(labels, predicted, None, slots), border_slot(predicted, slots)
        parts = (
            *best_slot_overlap(table, background),
            mean_best_overlap(table, background),
            *both_regions_overlap(table, background),
            *united_overlap(table, chosen, background),
            mean_best_overlap(table, background, chosen),
        )
        scores = torch.stack(parts, 1)
        self.add(scores, scores.isnan())

    def compute(self) -> dict[str, Float64[Tensor, ""]]:
        return dict(zip(OVERLAPS, self.means(), strict=True))


class ReconstructionError(ImageMeans):
    """Mean squared error of reconstructions, clamped to [0, 1]."""

    higher_is_better = False

    def __init__(self, **options: Any) -> None:
        super().__init__(1, **options)

    def update(self, reconstruction: Float[Tensor, "b c h w"], images: Float[Tensor, "b c h w"]) -> None:
        scores = reconstruction_error(reconstruction, images).unsqueeze(1)
        self.add(scores, torch.zeros_like(scores, dtype=torch.bool))

    def compute(self) -> Float64[Tensor, ""]:
        return self.means()[0]


class SlotsInUse(ImageMeans):
    """Mean number of slots in use that own at least one pixel."""

    def __init__(self, **options: Any) -> None:
        super().__init__(1, **options)

    def update(self, masks: Float[Tensor, "b k h w"], in_use: Bool[Tensor, "b k"] | None = None) -> None:
        predicted = hard_labels(masks)
        table = contingency(torch.zeros_like(predicted), predicted, 1, masks.shape[1])
        scores = slots_with_pixels(table, in_use).double().unsqueeze(1)
        self.add(scores, torch.zeros_like(scores, dtype=torch.bool))

    def compute(self) -> Float64[Tensor, ""]:
        return self.means()[0]
