"""The paper's protocol: nine scores of a model on labelled images (Sec. 4.2)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from cocanet.data.loader import Batch
from cocanet.metrics.scores import SCORES, SegmentationScores, score_images
from cocanet.models.output import Output

__all__ = ["SCORES", "evaluate", "image_scores"]


def image_scores(output: Output, batch: Batch, background_labels: int) -> dict[str, Float64[Tensor, " b"]]:
    """The nine scores of each image; NaN where an image has no foreground to score."""
    scores = score_images(output, batch.labels, batch.images, background_labels)
    return {name: scores[name] for name in SCORES}


@torch.inference_mode()
def evaluate(model: nn.Module, batches: Iterable[Batch], background_labels: int) -> dict[str, float]:
    """Mean of each score over the images that have it; among several processes, over those of this one."""
    # One process may evaluate while the others train on, so it waits for none.
    scores = SegmentationScores(background_labels, sync_on_compute=False)
    training = model.training
    model.eval()
    try:
        for batch in batches:
            scores.update(model(batch.images), batch.labels, batch.images)
    finally:
        model.train(training)
    if not scores.update_called:
        raise ValueError("there are no images to evaluate on")
    means = scores.compute()
    return {name: float(means[name]) for name in SCORES}
