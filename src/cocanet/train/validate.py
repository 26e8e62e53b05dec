"""Validation during a run: scores, failure modes and a picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.views import Images
from cocanet.explain.figures import discovery_grid, save
from cocanet.metrics.scores import SegmentationScores
from cocanet.metrics.table import TABLE
from cocanet.models.output import Output
from cocanet.models.pretrained import known_features
from cocanet.train.diagnosis import Diagnosis, diagnose

SHOWN = 6
LEAST_BATCH = 32
"""Fewer images at once may show a failure mode by chance."""


@dataclass(frozen=True)
class Validation:
    """Means over the split, and failure modes."""

    images: int
    """Images that were scored."""
    scores: dict[str, float]
    diagnoses: list[Diagnosis]


@torch.inference_mode()
def validate(
    model: nn.Module,
    images: Images,
    batch_size: int,
    device: torch.device,
    picture: Path,
    *,
    most: int | None = None,
    seconds: float | None = None,
    token_decoder: bool = False,
) -> Validation:
    """Score a model, diagnose failure modes, and draw the first scenes of the split.

    `most` and `seconds` end it early, after that many images or that much time. A token decoder is not diagnosed.
    """
    began = time.monotonic()
    loader = Loader(images, LoaderConfig(max(LEAST_BATCH, batch_size), shuffle=False, drop_last=False), device=device)
    scores = SegmentationScores(images.background_labels, sync_on_compute=False).to(device)
    first: tuple[Batch, Output] | None = None
    scored = 0
    training = model.training
    model.eval()
    try:
        for batch in loader.epoch():
            # other sizes, seldom: not worth another compilation
            with torch.compiler.set_stance("force_eager"), known_features(model, batch.images, batch.features):
                output = model(batch.images)
            scores.update(output, batch.labels, batch.images)
            first = first or (batch, output)
            scored += len(batch.images)
            if scored >= (most or len(images)) or (seconds is not None and time.monotonic() - began > seconds):
                break
    finally:
        model.train(training)
    assert first is not None, "the loader refuses an empty split"
    draw(*first, images, picture)
    means = scores.compute()
    known = [score.name for score in TABLE.values() if images.has_labels or not score.labelled]
    return Validation(
        images=scored,
        scores={name: float(means[name]) for name in known},
        diagnoses=diagnose(first[1], decoder=not token_decoder),
    )


def draw(batch: Batch, output: Output, images: Images, picture: Path) -> None:
    """Write a picture of what was found in the first scenes of a batch."""
    shown = slice(min(SHOWN, len(batch.images)))
    truth = batch.labels[shown] if images.has_labels else None
    save(discovery_grid(batch.images[shown], truth, output, images.background_labels), picture)
