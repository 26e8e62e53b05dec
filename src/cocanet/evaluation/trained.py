"""A trained model scored by the protocol."""

from __future__ import annotations

import contextlib
import math
import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from cocanet.config import CocaNetConfig, Preset
from cocanet.config.rivals import AttentionConfig
from cocanet.config.slots import preset_with_slots
from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.splits import fingerprint
from cocanet.evaluation.data import EvaluationData, choose_data
from cocanet.evaluation.protocol import Scored, score_batches
from cocanet.evaluation.provenance import at_evaluation, decoder_masks, losses
from cocanet.evaluation.result import Asked, Provenance, Result, ScoredImages
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.evaluation.yardsticks import Judged, judge, ways
from cocanet.metrics.functional.contingency import is_labelled
from cocanet.metrics.table import OVERLAPS, SCORES, SLOTS
from cocanet.paper_scores import TITLES, PaperRow, paper_row
from cocanet.runs.folder import OwnData, trained_on
from cocanet.watch import QUIET, Update, Watcher
from cocanet.weights import Trained, open_model


@dataclass(frozen=True)
class Evaluation:
    """What a model scored on which images."""

    trained: Trained
    """As evaluated, with the slots that were asked for."""
    settings: EvaluationSettings
    data: EvaluationData
    sha256: str
    scored: Scored
    single: bool
    """Whether every image shows one thing on a background."""

    elsewhere: bool = False
    """Whether the images are others than the model's own test split."""
    judged: tuple[Judged, ...] = ()
    """The same images by ways that nobody trained."""

    @property
    def paper(self) -> PaperRow | None:
        return paper_row(self.trained.preset.model, self.data.data_set)

    @cached_property
    def result(self) -> Result:
        """What is kept of it."""
        means, images, preset = self.scored.means, self.data.images, self.trained.preset
        dynamic = preset.model.dynamic if isinstance(preset.model, CocaNetConfig) else None
        labels = self.scored.images_without_foreground if images.has_labels else None
        return Result(
            preset=preset.name,
            weights=self.trained.path.name,
            step=self.trained.step,
            scores={name: _number(means[name]) for name in SCORES + OVERLAPS},
            slots={name: _number(means[name]) for name in SLOTS},
            images=len(images),
            images_without_foreground=labels,
            images_without_labels=self.scored.images_without_labels,
            images_per_second=round(self.scored.images_per_second, 2),
            data=ScoredImages(
                name=self.data.name,
                data_set=self.data.data_set,
                path=None if self.data.path is None else str(self.data.path),
                description=self.data.description,
                has_labels=images.has_labels,
                background_labels=images.background_labels,
                sha256=self.sha256,
                single=self.single,
                generated=self.data.generated,
            ),
            settings=Asked(
                slots=dynamic.most if dynamic else preset.model.slots,
                dynamic=dynamic is not None,
                feedback=preset.model.feedback.rounds if isinstance(preset.model, CocaNetConfig) else 0,
                compat=self.settings.compat,
                paper_masks=self.settings.paper_masks,
                batch_size=self.settings.images_at_a_time(preset.model.image_size),
                device=self.settings.device,
                threads=torch.get_num_threads(),
            ),
            paper=_paper_plain(self.paper),
            versions={
                "cocanet": version("cocanet"),
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            yardsticks=tuple(way.yardstick(compat=self.settings.compat) for way in self.judged),
            provenance=Provenance(losses(preset), decoder_masks(preset), at_evaluation(preset)),
        )

    def to_plain(self) -> dict[str, Any]:
        """Everything as `evaluation.json` has it."""
        return self.result.to_plain()


def evaluate_trained(
    source: str | Path,
    settings: EvaluationSettings,
    watcher: Watcher = QUIET,
) -> Evaluation:
    """Score the model that `open_model` finds."""
    own_data = trained_on(source)
    trained = open_model(source, settings.device, checkpoint=settings.checkpoint)
    trained = trained.as_preset(as_asked(trained.preset, settings))
    data = choose_data(trained.preset, own_data, settings.data, watcher)
    watcher.say(f"{trained.path.name} of {trained.preset.name} on {data.description}")
    if not data.images.has_labels:
        watcher.say("these images have no labels, so that only the error and the slots can be measured")
    sha256 = fingerprint(data.images)
    at_a_time = settings.images_at_a_time(trained.preset.model.image_size)
    config = LoaderConfig(at_a_time, shuffle=False, drop_last=False)
    loader = Loader(data.images, config, device=settings.device)
    seen = Seen()
    with repeatable(), watcher.progress("batch", len(loader)) as done:
        scored = score_batches(
            trained.model,
            seen.each(loader.epoch(), done),
            data.images.background_labels,
            labelled=data.images.has_labels,
            compat=settings.compat,
        )
    bad = scored.per_image["mse"].isfinite().logical_not().nonzero()
    if len(bad):
        raise ValueError(f"{trained.path} paints image {int(bad[0])} with values that are not finite: it is broken")
    single = data.images.has_labels and seen.most == data.images.background_labels
    judged: list[Judged] = []
    if data.images.has_labels and (single or settings.yardsticks):
        with repeatable(), watcher.progress("yardsticks", len(loader)) as done:
            others = ways(trained.preset, settings.device)
            judged = judge(others, seen.each(loader.epoch(), done), data.images.background_labels)
    elsewhere = _is_elsewhere(data, own_data)
    return Evaluation(trained, settings, data, sha256, scored, single, elsewhere, tuple(judged))


class Seen:
    """The largest label among the labelled images that went by."""

    most = -1

    def each(self, batches: Iterable[Batch], done: Update) -> Iterator[Batch]:
        for number, batch in enumerate(batches, 1):
            largest = batch.labels.flatten(1).amax(1).where(is_labelled(batch.labels), -1)
            self.most = max(self.most, int(largest.max()))
            yield batch
            done(number)


def change_feedback(preset: Preset, rounds: int) -> Preset:
    """A preset that evaluates with `rounds` of top-down feedback; no weight depends on them."""
    if not isinstance(preset.model, CocaNetConfig):
        raise ValueError(f"a {preset.model.kind} has no hierarchy that feedback could correct")
    feedback = replace(preset.model.feedback, rounds=rounds)
    return replace(preset, model=replace(preset.model, feedback=feedback))


def with_paper_masks(preset: Preset) -> Preset:
    """A preset whose encoder masks are those that the paper evaluates; most models have but one kind."""
    if not isinstance(preset.model, AttentionConfig):
        return preset
    return replace(preset, model=replace(preset.model, encoder_masks="paper"))


def as_asked(preset: Preset, settings: EvaluationSettings) -> Preset:
    """The preset as an evaluation changes it."""
    preset = preset_with_slots(preset, settings.slots, settings.dynamic or None)
    if settings.feedback is not None:
        preset = change_feedback(preset, settings.feedback)
    return with_paper_masks(preset) if settings.paper_masks else preset


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """The same random anchors each time, for models that draw them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _is_elsewhere(data: EvaluationData, own: OwnData | None) -> bool:
    if data.path is None or own is None:
        return data.path is not None
    return own.path.exists() and data.path.resolve() != own.path.resolve()


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _paper_plain(row: PaperRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    scores = {name: {"mean": score.mean, "deviation": score.deviation} for name, score in row.scores.items()}
    plain = {"model": TITLES[row.model], "data_set": row.data_set, "seeds": row.seeds, "scores": scores}
    return plain | ({"note": row.note} if row.note else {})
