"""The models of a comparison with what was measured of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cocanet.compare.note import read_note
from cocanet.compare.settings import Job
from cocanet.compare.training import Trainer, clear_failure
from cocanet.evaluation.files import write_evaluation
from cocanet.evaluation.result import FILE as RESULT
from cocanet.evaluation.result import read_result
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.evaluation.trained import evaluate_trained, with_paper_masks
from cocanet.metrics.table import SCORES
from cocanet.models.build import build
from cocanet.report.runs import Group, Measured, measure
from cocanet.runs.folder import RunFolder
from cocanet.watch import QUIET, Watcher
from cocanet.weights import read_weights

COSTS = ("parameters", "images", "images_per_second", "evaluation_images_per_second", "peak_bytes")
"""What a run cost, beside its scores. The images are those seen in training."""


PAPER_MASKS = {f"paper_masks_{name}": name for name in SCORES if name.startswith("encoder")}
"""Encoder scores by the paper's masks, and the scores that they stand beside."""


class Failure(NamedTuple):
    seed: int
    reason: str


@dataclass(frozen=True)
class Row:
    """A model: its runs that were finished, and those that failed."""

    model: str
    group: Group | None
    """Scores and `COSTS` of the finished runs; None if there are none."""
    failures: tuple[Failure, ...] = ()


def run_job(job: Job, trainer: Trainer, watcher: Watcher = QUIET) -> Measured | Failure:
    """Train and evaluate, as far as that has not been done yet."""
    if not job.finished:
        clear_failure(job)
        trainer(job)
        failed = read_note(job.run).failed
        if failed is not None:
            return Failure(job.seed, failed)
    try:
        if not _by_protocol(job):
            (job.run / RESULT).unlink()
        measured = measure(job.run, watcher)
        return replace(measured, scores={**measured.scores, **paper_mask_scores(job), **costs(job)})
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        return Failure(job.seed, f"not evaluated: {(str(error).splitlines() or [type(error).__name__])[0]}")


def costs(job: Job) -> dict[str, float | None]:
    """`COSTS` of a run that was evaluated."""
    folder = RunFolder(job.run)
    model = build(folder.read_settings().preset)
    notes = read_weights(folder.last).notes
    result = read_result(job.run)
    found = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "images": notes["images"],
        "images_per_second": notes["images"] / notes["seconds"],
        "evaluation_images_per_second": result.images_per_second if result else None,
        "peak_bytes": read_note(job.run).peak_bytes,
    }
    return {name: None if value is None else float(value) for name, value in found.items()}


def _by_protocol(job: Job) -> bool:
    """Whether a run's evaluation, if there is one, is of its last weights, on the data of all, with no option."""
    result = read_result(job.run)
    if result is None:
        return True
    usual = (RunFolder(job.run).last.name, job.preset.name, job.comparison.data)
    options = result.settings.compat, result.settings.paper_masks
    return usual == (result.weights, result.preset, result.data.path) and not any(options)


def paper_mask_scores(job: Job) -> dict[str, float | None]:
    """Encoder scores by the paper's masks, of models that have them besides those of the softmax over slots."""
    if with_paper_masks(job.preset) == job.preset:
        return {}
    folder = job.run / "paper-masks"
    result = read_result(folder)
    if result is None or result.step != read_weights(RunFolder(job.run).last).notes["step"]:
        evaluation = evaluate_trained(job.run, EvaluationSettings(paper_masks=True))
        write_evaluation(evaluation, folder)
        result = evaluation.result
    return {name: result.scores[usual] for name, usual in PAPER_MASKS.items()}


def rows_of(results: Mapping[Job, Measured | Failure]) -> list[Row]:
    """A row for each model, in the order in which they were named."""
    rows = []
    for model in dict.fromkeys(job.model for job in results):
        found = [result for job, result in results.items() if job.model == model]
        runs = tuple(result for result in found if isinstance(result, Measured))
        failures = tuple(result for result in found if isinstance(result, Failure))
        rows.append(Row(model, Group(model, runs) if runs else None, failures))
    return rows


def groups_of(rows: Sequence[Row]) -> list[Group]:
    return [row.group for row in rows if row.group is not None]
