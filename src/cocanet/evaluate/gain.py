"""Whether training helped: a run's score beside those of the untrained model and of methods that learn nothing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.splits import at_size, open_split
from cocanet.data.views import Images
from cocanet.evaluate.baselines import (
    SEED,
    colour_clusters,
    encoder_labels,
    felzenszwalb_segments,
    score_baselines,
)
from cocanet.evaluate.methods import Method
from cocanet.io.run_folder import trained_on
from cocanet.io.trained import open_model
from cocanet.metrics.functional.reconstruction import reconstruction_error
from cocanet.models.build import build
from cocanet.models.model import ObjectModel

BATCH = 16
LEAST_GAIN = 0.05
"""Share by which a score must be better than another to count as better."""


class Scored(NamedTuple):
    """A method and its mean score."""

    title: str
    score: float


def gain(run: Path) -> str:
    """One line: the overlap with true objects, or without labels the error of the reconstruction.

    Both are means over the run's validation images, which were not trained on.
    """
    trained = open_model(run)
    preset, path = trained.preset, trained_on(run)
    images = at_size(open_split(preset.data, "validation", path), preset.model.image_size, preset.data, path)
    models = {"trained": trained.model, "untrained": build(preset, seed=SEED).eval()}
    if images.has_labels:
        slots = preset.model.slots
        methods = [Method(name, name, encoder_labels(model)) for name, model in models.items()]
        methods += [felzenszwalb_segments(slots)] if find_spec("skimage") else []
        return by_overlap(overlaps([*methods, colour_clusters(slots)], images), len(images))
    return by_error([Scored(name, mean_error(model, images)) for name, model in models.items()], len(images))


def by_overlap(scores: list[Scored], count: int) -> str:
    """The verdict on mean overlaps with objects, mSC-FG; the first two are the trained and the untrained model's."""
    own, untrained, *baselines = scores
    best = max(baselines, key=lambda each: each.score)
    if own.score <= (1 + LEAST_GAIN) * untrained.score:
        verdict = "training did not help"
    elif own.score <= best.score:
        verdict = f"training helped, but {best.title} is better without any"
    else:
        verdict = "training helped"
    return f"{verdict}: {_listed(scores, '.2f')} mean overlap with objects (mSC-FG), {count} validation images"


def by_error(scores: list[Scored], count: int) -> str:
    """The verdict on mean errors of the reconstruction."""
    own, untrained = scores
    learned = own.score < (1 - LEAST_GAIN) * untrained.score
    verdict = "the model learned to reconstruct" if learned else "the model did not learn to reconstruct"
    return (
        f"{verdict}: {_listed(scores, '.4f')} mean squared error, {count} validation images; without labels nothing "
        "tells whether its masks are objects: look at them"
    )


def overlaps(methods: list[Method], images: Images) -> list[Scored]:
    found = score_baselines(methods, _loader(images).epoch(), images.background_labels)
    means = [each.means().scores["msc_fg"] for each in found]
    return [Scored(method.title, mean or 0.0) for method, mean in zip(methods, means, strict=True)]


@torch.inference_mode()
def mean_error(model: ObjectModel, images: Images) -> float:
    batches = (batch.images for batch in _loader(images).epoch())
    errors = [reconstruction_error(model(pixels).reconstruction, pixels) for pixels in batches]
    return float(torch.cat(errors).mean())


def _listed(scores: list[Scored], form: str) -> str:
    own, *others = scores
    return f"{own.score:{form}} ({', '.join(f'{each.title} {each.score:{form}}' for each in others)})"


def _loader(images: Images) -> Loader:
    return Loader(images, LoaderConfig(BATCH, shuffle=False, drop_last=False))
