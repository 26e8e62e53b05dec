"""Evaluation of a trained model by the protocol."""

from __future__ import annotations

import contextlib
import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from cocanet.config import CocaNetConfig, Preset
from cocanet.config.baselines import AttentionConfig
from cocanet.config.slots import preset_with_slots
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.views import Images
from cocanet.evaluate.baselines import BaselineScores, methods, score_baselines
from cocanet.evaluate.evaluation import FullEvaluation, Overrides, Speed, WorstImages, mask_scores
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.protocol import ProtocolScores, refine_encoder_masks, score_batches
from cocanet.evaluate.provenance import Source, provenance
from cocanet.evaluate.scored_images import ScoredImages, choose_images
from cocanet.io.run_folder import trained_on
from cocanet.io.trained import Trained, open_model
from cocanet.metrics.table import DISCOVERIES, OVERLAPS, SCORES, SLOTS, title
from cocanet.paper_scores import paper_row
from cocanet.progress import QUIET, Progress, Update

WORST_IMAGES = 6
SAMPLED_IMAGES = 64
"""Images by which baselines over a data set find their centres."""


def evaluate_trained(source: str | Path, settings: EvaluationSettings, progress: Progress = QUIET) -> FullEvaluation:
    """Score the model that `open_model` finds."""
    own_data = trained_on(source)
    trained = open_model(
        source, settings.device, checkpoint=settings.checkpoint, change=lambda preset: with_overrides(preset, settings)
    )
    images, data = choose_images(trained.preset, own_data, settings.data, progress, first=settings.first)
    progress.say(f"{trained.path.name} of {trained.preset.name} on {data.description}")
    if not data.has_labels:
        progress.say("these images have no labels, so only the MSE and the slots are measured")
    loader = _loader(trained, images, settings)
    with repeatable(), progress.bar("batch", len(loader)) as done:
        scores = score_batches(
            trained.model,
            _counted(loader.epoch(), done),
            data.background_labels,
            labelled=data.has_labels,
            paper_empty_foreground=counts_as_paper(settings, data.source),
            refined=settings.refine,
        )
    _check_finite(scores, trained.path)
    data = replace(data, single=data.has_labels and scores.largest_label == data.background_labels)
    baselines = []
    if data.has_labels and (data.single or settings.baselines):
        sample = _evenly(images, SAMPLED_IMAGES).to(settings.device)
        chosen = methods(trained.preset, settings.device, single=data.single, refined=settings.refine, sample=sample)
        with repeatable(), progress.bar("baselines", len(loader)) as done:
            baselines = score_baselines(chosen, _counted(loader.epoch(), done), data.background_labels)
    worst = _worst_images(trained, images, scores, settings)
    return _evaluation(trained, settings, data, scores, baselines, worst)


def _evaluation(
    trained: Trained,
    settings: EvaluationSettings,
    data: ScoredImages,
    scores: ProtocolScores,
    baselines: Sequence[BaselineScores],
    worst: WorstImages,
) -> FullEvaluation:
    preset, count = trained.preset, len(scores.per_image["mse"])
    dynamic = preset.model.dynamic if isinstance(preset.model, CocaNetConfig) else None
    by_paper = counts_as_paper(settings, data.source)
    batch_size = settings.images_at_a_time(preset.model.image_size)
    return FullEvaluation(
        preset=preset.name,
        weights=trained.path.name,
        step=trained.step,
        scores={name: _number(scores.means[name]) for name in SCORES + OVERLAPS + DISCOVERIES},
        slots={name: _number(scores.means[name]) for name in SLOTS},
        images=count,
        images_without_foreground=scores.images_without_foreground if data.has_labels else None,
        images_without_labels=scores.images_without_labels,
        data=data,
        overrides=Overrides(
            slots=dynamic.max_slots if dynamic else preset.model.slots,
            dynamic=dynamic is not None,
            refined=settings.refine,
            paper_empty_foreground=by_paper,
            paper_masks=settings.paper_masks,
        ),
        provenance=provenance(preset, data.source, count, data.sha256, refined=settings.refine),
        speed=Speed(round(scores.images_per_second, 2), batch_size, settings.device, torch.get_num_threads()),
        baselines=tuple(each.means(by_paper) for each in baselines),
        paper=paper_row(preset.model, data.data_set),
        versions={"cocanet": version("cocanet"), "torch": torch.__version__, "python": platform.python_version()},
        per_image=scores.per_image | _baseline_columns(baselines, data),
        worst=worst,
    )


def with_overrides(preset: Preset, settings: EvaluationSettings) -> Preset:
    """The preset with the slots and masks of an evaluation; no weight depends on them."""
    preset = preset_with_slots(preset, settings.slots, settings.dynamic or None)
    return with_paper_masks(preset) if settings.paper_masks else preset


def with_paper_masks(preset: Preset) -> Preset:
    """The preset with encoder masks as the paper evaluates them; only attention models have two kinds."""
    if not isinstance(preset.model, AttentionConfig):
        return preset
    return replace(preset, model=replace(preset.model, encoder_masks="paper"))


def counts_as_paper(settings: EvaluationSettings, source: Source) -> bool:
    """Whether images without foreground count as in the paper's code; published images do by default."""
    return settings.paper_empty_foreground or (source == "published" and not settings.skip_empty_foreground)


def worst_indices(per_image: Mapping[str, Float64[Tensor, " n"]]) -> tuple[str, list[int]]:
    """The score that ranks images, and the indices of the worst, worst first."""
    found = per_image["decoder_ari_fg"]
    if bool(found.isnan().all()):
        return "mse", per_image["mse"].argsort(descending=True, stable=True)[:WORST_IMAGES].tolist()
    count = min(WORST_IMAGES, int((~found.isnan()).sum()))
    return "decoder_ari_fg", found.nan_to_num(math.inf).argsort(stable=True)[:count].tolist()


@torch.inference_mode()
def _worst_images(
    trained: Trained, images: Images, scores: ProtocolScores, settings: EvaluationSettings
) -> WorstImages:
    score, indices = worst_indices(scores.per_image)
    pixels, labels = images.gather(np.array(indices))
    batch = torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(255)
    truth = torch.from_numpy(labels).long() if images.has_labels else None
    on_device = batch.to(settings.device)
    with repeatable():
        output = trained.model(on_device)
    if settings.refine:
        output = refine_encoder_masks(output, on_device)
    captions = [f"image {index}: {title(score)} {float(scores.per_image[score][index]):.3f}" for index in indices]
    return WorstImages(indices, captions, batch, truth, output)


def _evenly(images: Images, count: int) -> Float[Tensor, "b 3 h w"]:
    """Evenly spaced images of a split, or all of them."""
    chosen = np.unique(np.linspace(0, len(images) - 1, count).round().astype(np.int64))
    return torch.from_numpy(images.gather(chosen)[0]).permute(0, 3, 1, 2).float().div(255)


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """The same random anchors each time, for models that draw them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _loader(trained: Trained, images: Images, settings: EvaluationSettings) -> Loader:
    batch_size = settings.images_at_a_time(trained.preset.model.image_size)
    return Loader(images, LoaderConfig(batch_size, shuffle=False, drop_last=False), device=settings.device)


def _counted(batches: Iterable[Batch], done: Update) -> Iterator[Batch]:
    for number, batch in enumerate(batches, 1):
        yield batch
        done(number)


def _check_finite(scores: ProtocolScores, path: Path) -> None:
    bad = scores.per_image["mse"].isfinite().logical_not().nonzero()
    if len(bad):
        raise ValueError(f"the reconstruction of image {int(bad[0])} by {path} is not finite")


def _baseline_columns(baselines: Sequence[BaselineScores], data: ScoredImages) -> dict[str, Float64[Tensor, " n"]]:
    names = mask_scores(single=data.single)
    return {f"{each.name}_{name}": each.per_image[name] for each in baselines for name in names}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
