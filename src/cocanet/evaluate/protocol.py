"""The paper's protocol: nine scores of a model on labelled images (Sec. 4.2)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from cocanet.config import RefineConfig
from cocanet.data.loader import Batch
from cocanet.metrics.functional.contingency import is_labelled
from cocanet.metrics.scores import SegmentationScores, score_images
from cocanet.metrics.table import SCORES, TABLE
from cocanet.models.output import Output
from cocanet.refine import refine


class ProtocolScores(NamedTuple):
    """Scores of every image, and their means; NaN where there is nothing to score."""

    per_image: dict[str, Float64[Tensor, " n"]]
    means: dict[str, float]
    images_without_foreground: int
    images_without_labels: int
    """They count in the MSE and the slots only."""
    largest_label: int
    """-1 without labels."""
    images_per_second: float
    """The model alone, without its first batch if there are more."""


def evaluate(model: nn.Module, batches: Iterable[Batch], background_labels: int) -> dict[str, float]:
    """Mean of each of the nine scores over the images that have it; each process counts its own images."""
    means = score_batches(model, batches, background_labels).means
    return {name: means[name] for name in SCORES}


def score_batches(
    model: nn.Module,
    batches: Iterable[Batch],
    background_labels: int,
    *,
    labelled: bool = True,
    paper_empty_foreground: bool = False,
    refined: bool = False,
) -> ProtocolScores:
    """All scores of all images; images without labels have only those that need none.

    With `paper_empty_foreground` an image without foreground counts as in the paper's code; otherwise it is left out.
    With `refined` the encoder masks are refined before they are scored.
    """
    rows, known, seconds, largest = _score_each(model, batches, background_labels, refined)
    if not rows:
        raise ValueError("there are no images to evaluate on")
    table, with_labels = torch.cat(rows), torch.cat(known) & labelled
    # One process may evaluate while the others train, so it does not wait for them.
    means = SegmentationScores(background_labels, paper_empty_foreground=paper_empty_foreground, sync_on_compute=False)
    table[~with_labels.unsqueeze(1) & means.of_masks] = math.nan
    means.count(table, with_labels)
    warm = slice(1 if len(rows) > 1 else 0, None)
    return ProtocolScores(
        per_image=dict(zip(TABLE, table.unbind(1), strict=True)),
        means=dict(zip(TABLE, means.means().tolist(), strict=True)),
        images_without_foreground=int(means.empty[0]),
        images_without_labels=int((~with_labels).sum()),
        largest_label=largest if labelled else -1,
        images_per_second=sum(map(len, rows[warm])) / sum(seconds[warm]),
    )


def refine_encoder_masks(output: Output, images: Float[Tensor, "b 3 h w"]) -> Output:
    """The output with refined encoder masks."""
    return replace(output, encoder_masks=refine(output.encoder_masks, images, output.in_use, RefineConfig()))


class _EachBatch(NamedTuple):
    rows: list[Float64[Tensor, "_ scores"]]
    labelled: list[Bool[Tensor, " _"]]
    seconds: list[float]
    largest_label: int


@torch.inference_mode()
def _score_each(model: nn.Module, batches: Iterable[Batch], background_labels: int, refined: bool) -> _EachBatch:
    """Scores of each batch, which of its images have labels, and the seconds that the model took."""
    rows, known, seconds, largest = [], [], [], -1
    training = model.training
    model.eval()
    try:
        for batch in batches:
            start = _now(batch.images)
            output = model(batch.images)
            seconds.append(_now(batch.images) - start)
            if refined:
                output = refine_encoder_masks(output, batch.images)
            scores = score_images(output, batch.labels, batch.images, background_labels)
            rows.append(torch.stack(list(scores.values()), 1).cpu())
            known.append(is_labelled(batch.labels).cpu())
            largest = max(largest, int(batch.labels.flatten(1).amax(1).cpu().where(known[-1], -1).max()))
    finally:
        model.train(training)
    return _EachBatch(rows, known, seconds, largest)


def _now(images: Tensor) -> float:
    if images.is_cuda:
        torch.cuda.synchronize(images.device)
    return time.perf_counter()
