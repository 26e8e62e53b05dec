"""A look at the validation split while a run goes on: scores, diseases and a picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.views import Images
from cocanet.figures import discovery_grid, save
from cocanet.metrics.scores import SegmentationScores
from cocanet.metrics.table import TABLE
from cocanet.models.output import Output
from cocanet.train.diagnosis import Finding, diagnose

SHOWN = 6
LEAST_BATCH = 32
"""Fewer images at once may look ill by chance."""


@dataclass(frozen=True)
class Validation:
    """Means over the split, and what seems to be wrong."""

    images: int
    """How many were looked at."""
    scores: dict[str, float]
    findings: list[Finding]


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
    by_tokens: bool = False,
) -> Validation:
    """Score a model, look for diseases, and draw the first scenes of the split.

    `most` and `seconds` end it early, when that many images were looked at or that much time has passed. Of a decoder
    `by_tokens` no diseases are known.
    """
    began = time.monotonic()
    loader = Loader(images, LoaderConfig(max(LEAST_BATCH, batch_size), shuffle=False, drop_last=False), device=device)
    scores = SegmentationScores(images.background_labels, sync_on_compute=False).to(device)
    first: tuple[Batch, Output] | None = None
    looked = 0
    training = model.training
    model.eval()
    try:
        for batch in loader.epoch():
            with torch.compiler.set_stance("force_eager"):  # other sizes, seldom: not worth compiling anew
                output = model(batch.images)
            scores.update(output, batch.labels, batch.images)
            first = first or (batch, output)
            looked += len(batch.images)
            if looked >= (most or len(images)) or (seconds is not None and time.monotonic() - began > seconds):
                break
    finally:
        model.train(training)
    assert first is not None, "the loader refuses an empty split"
    draw(*first, images, picture)
    means = scores.compute()
    known = [score.name for score in TABLE.values() if images.has_labels or not score.labelled]
    return Validation(
        images=looked,
        scores={name: float(means[name]) for name in known},
        findings=diagnose(first[1], decoder=not by_tokens),
    )


def draw(batch: Batch, output: Output, images: Images, picture: Path) -> None:
    """Write a picture of what was found in the first scenes of a batch."""
    shown = slice(min(SHOWN, len(batch.images)))
    truth = batch.labels[shown] if images.has_labels else None
    save(discovery_grid(batch.images[shown], truth, output, images.background_labels), picture)
