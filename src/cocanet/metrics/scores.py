"""All scores of a model's output, from one contingency table per kind of mask."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from torch import Tensor

from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import contingency, hard_labels, is_labelled, slots_with_pixels
from cocanet.metrics.functional.covering import segmentation_covering
from cocanet.metrics.functional.discovery import localised, pair_scores, panoptic_quality
from cocanet.metrics.functional.overlap import best_slot_overlap, both_regions_overlap
from cocanet.metrics.functional.reconstruction import reconstruction_error
from cocanet.metrics.means import ImageMeans
from cocanet.metrics.table import TABLE
from cocanet.models.output import Output


def score_images(
    output: Output, labels: Int[Tensor, "b h w"], images: Float[Tensor, "b 3 h w"], background_labels: int
) -> dict[str, Float64[Tensor, " b"]]:
    """All scores of the table for each image; NaN where an image has no foreground or no labels."""
    scores: dict[str, Tensor] = {}
    known = is_labelled(labels)
    labels = labels * known[:, None, None]
    for side, masks in (("decoder", output.decoder_masks), ("encoder", output.encoder_masks)):
        predicted, count = hard_labels(masks), masks.shape[1]
        table = contingency(labels, predicted, None, count)
        of_masks = score_masks(table, background_labels)
        of_masks["corloc"] = localised(labels, predicted, count, background_labels)
        scores |= {f"{side}_{name}": values for name, values in of_masks.items()}
        scores[f"{side}_slots"] = slots_with_pixels(table, output.in_use).double()
    scores["mse"] = reconstruction_error(output.reconstruction, images)
    scores["slots"] = output.in_use.sum(1).double()
    return {
        name: scores[name].masked_fill(~known, torch.nan) if score.labelled else scores[name]
        for name, score in TABLE.items()
    }


def score_masks(table: Int64[Tensor, "b segments k"], background_labels: int) -> dict[str, Float64[Tensor, " b"]]:
    """The scores of masks, `OF_MASKS` but for boxes, for each image, from a contingency table."""
    (iou, dice), both = best_slot_overlap(table, background_labels), both_regions_overlap(table, background_labels)
    scores = {"iou": iou, "dice": dice, "iou_both": both.iou, "dice_both": both.dice}
    for suffix, ignored in (("_fg", background_labels), ("", 0)):
        scores[f"ari{suffix}"] = adjusted_rand_index(table, ignored)
        scores[f"msc{suffix}"] = segmentation_covering(table, ignored)
    scores["precision_fg"], scores["recall_fg"] = pair_scores(table, background_labels)
    scores["pq"] = panoptic_quality(table)
    return scores


class SegmentationScores(ImageMeans):
    """Means of all scores of the table, with the number of images and of images without foreground.

    Foreground scores leave out images without foreground. With `paper_empty_foreground` these count as in the paper's
    code, with an ARI-FG of 1 and an mSC-FG of 0. Scores that need labels leave out images without them.
    """

    foreground: Bool[Tensor, " scores"]
    of_masks: Bool[Tensor, " scores"]

    def __init__(self, background_labels: int, *, paper_empty_foreground: bool = False, **options: Any) -> None:
        fill = [score.empty for score in TABLE.values()] if paper_empty_foreground else None
        super().__init__(len(TABLE), fill, **options)
        self.background_labels = background_labels
        foreground = torch.tensor([score.foreground for score in TABLE.values()])
        self.register_buffer("foreground", foreground, persistent=False)
        self.register_buffer("of_masks", torch.tensor([score.labelled for score in TABLE.values()]), persistent=False)

    def update(self, output: Output, labels: Int[Tensor, "b h w"], images: Float[Tensor, "b 3 h w"]) -> None:
        parts = score_images(output, labels, images, self.background_labels)
        self.count(torch.stack(list(parts.values()), 1), is_labelled(labels))

    def count(self, scores: Float64[Tensor, "b scores"], labelled: Bool[Tensor, " b"]) -> None:
        """Add images by their scores."""
        scores, labelled = scores.to(self.total.device), labelled.to(self.total.device)
        unknown = ~labelled[:, None] & self.of_masks
        # NaN for any other reason must show in the mean.
        self.add(scores, scores.isnan() & self.foreground & ~unknown, unknown)

    def compute(self) -> dict[str, Tensor]:
        """Means by name, `images` and `images_without_foreground`."""
        means = dict(zip(TABLE, self.means(), strict=True))
        return means | {"images": self.scored[-1], "images_without_foreground": self.empty[0]}
