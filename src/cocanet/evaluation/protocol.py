"""The paper's protocol: nine scores of a model on labelled images (Sec. 4.2)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from cocanet.data.loader import Batch
from cocanet.metrics.functional.contingency import is_labelled
from cocanet.metrics.scores import SegmentationScores, score_images
from cocanet.metrics.table import SCORES, TABLE
from cocanet.models.output import Output


class Scored(NamedTuple):
    """Scores of every image, and their means; NaN where there is nothing to score."""

    per_image: dict[str, Float64[Tensor, " n"]]
    means: dict[str, float]
    images_without_foreground: int
    images_without_labels: int
    """They are in the means of the MSE and the slots only."""
    images_per_second: float
    """The model alone; without the first batch, which is slower, unless there is no other."""


def image_scores(output: Output, batch: Batch, background_labels: int) -> dict[str, Float64[Tensor, " b"]]:
    """The nine scores of each image; NaN where an image has nothing to score."""
    scores = score_images(output, batch.labels, batch.images, background_labels)
    return {name: scores[name] for name in SCORES}


def evaluate(model: nn.Module, batches: Iterable[Batch], background_labels: int) -> dict[str, float]:
    """Mean of each score over the images that have it; among several processes, over those of this one."""
    means = score_batches(model, batches, background_labels).means
    return {name: means[name] for name in SCORES}


def score_batches(
    model: nn.Module,
    batches: Iterable[Batch],
    background_labels: int,
    *,
    labelled: bool = True,
    compat: bool = False,
) -> Scored:
    """All scores of all images; of images without labels only those that need none.

    With `compat` an image without foreground counts as in the paper's code, otherwise it is left out of the means.
    """
    rows, known, seconds = _score_each(model, batches, background_labels)
    if not rows:
        raise ValueError("there are no images to evaluate on")
    table = torch.cat(rows)
    # One process may evaluate while the others train on, so it waits for none.
    means = SegmentationScores(background_labels, compat=compat, sync_on_compute=False)
    with_labels = torch.cat(known) & labelled
    table[~with_labels.unsqueeze(1) & means.of_masks] = math.nan
    means.count(table, with_labels)
    warm = slice(1 if len(rows) > 1 else 0, None)
    return Scored(
        per_image=dict(zip(TABLE, table.unbind(1), strict=True)),
        means=dict(zip(TABLE, means.means().tolist(), strict=True)),
        images_without_foreground=int(means.empty[0]),
        images_without_labels=int((~with_labels).sum()),
        images_per_second=sum(map(len, rows[warm])) / sum(seconds[warm]),
    )


@torch.inference_mode()
def _score_each(
    model: nn.Module, batches: Iterable[Batch], background_labels: int
) -> tuple[list[Float64[Tensor, "_ scores"]], list[Bool[Tensor, " _"]], list[float]]:
    """Each batch's scores, which of them have labels, and how long the model took."""
    rows, known, seconds = [], [], []
    training = model.training
    model.eval()
    try:
        for batch in batches:
            start = _now(batch.images)
            output = model(batch.images)
            seconds.append(_now(batch.images) - start)
            parts = score_images(output, batch.labels, batch.images, background_labels)
            rows.append(torch.stack(list(parts.values()), 1).cpu())
            known.append(is_labelled(batch.labels).cpu())
    finally:
        model.train(training)
    return rows, known, seconds


def _now(images: Tensor) -> float:
    if images.is_cuda:
        torch.cuda.synchronize(images.device)
    return time.perf_counter()
