"""The paper's protocol: nine scores of a model on labelled images (Sec. 4.2)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from cocanet.data.loader import Batch
from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import contingency, hard_labels
from cocanet.metrics.functional.covering import segmentation_covering
from cocanet.models.output import Output

SCORES = (
    "decoder_ari_fg",
    "decoder_msc_fg",
    "decoder_ari",
    "decoder_msc",
    "encoder_ari_fg",
    "encoder_msc_fg",
    "encoder_ari",
    "encoder_msc",
    "mse",
)


def image_scores(output: Output, batch: Batch, background_labels: int) -> dict[str, Float64[Tensor, b]]:
    """The nine scores of each image; NaN where an image has no foreground to score."""
    scores = {}
    for side, masks in (("decoder", output.decoder_masks), ("encoder", output.encoder_masks)):
        table = contingency(batch.labels, hard_labels(masks), int(batch.labels.max()) + 1, masks.shape[1])
        for suffix, ignored in (("_fg", background_labels), ("", 0)):
            scores[f"{side}_ari{suffix}"] = adjusted_rand_index(table, ignored)
            scores[f"{side}_msc{suffix}"] = segmentation_covering(table, ignored)
    scores["mse"] = (output.reconstruction - batch.images).double().square().mean((1, 2, 3))
    return {name: scores[name] for name in SCORES}


@torch.inference_mode()
def evaluate(model: nn.Module, batches: Iterable[Batch], background_labels: int) -> dict[str, float]:
    """Mean of each score over the images that have it."""
    training = model.training
    model.eval()
    try:
        parts = [image_scores(model(batch.images), batch, background_labels) for batch in batches]
    finally:
        model.train(training)
    if not parts:
        raise ValueError("there are no images to evaluate on")
    return {name: float(torch.cat([part[name] for part in parts]).nanmean()) for name in SCORES}
