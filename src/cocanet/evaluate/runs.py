"""Runs with their scores, and groups of runs over seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cocanet.config import Preset
from cocanet.config.serialization import first_difference, to_dict
from cocanet.config.slots import preset_with_slots
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.evaluate.evaluation import Baseline, Evaluation, read_evaluation, write_evaluation
from cocanet.evaluate.overrides import EvaluationSettings
from cocanet.evaluate.provenance import Provenance
from cocanet.evaluate.trained import evaluate_trained
from cocanet.io import journal
from cocanet.io.run_folder import RunFolder, Settings
from cocanet.io.weights import read_weights
from cocanet.paper_scores import PaperRow, data_set_of, paper_row
from cocanet.progress import QUIET, Progress


@dataclass(frozen=True)
class ScoredRun:
    """The scores of one run, of its evaluation or of its last validation."""

    run: Path
    settings: Settings
    preset: Preset
    """As evaluated."""
    scores: Mapping[str, float | None]
    step: int | None
    data_name: str
    data_set: str | None
    single: bool
    """Whether every image shows one object on a background."""
    details: tuple[str, ...] = ()
    """How the scores differ from the protocol: `best checkpoint`, `refined`, `validation`, …"""
    curve: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """All validations of the run."""
    evaluation: Evaluation | None = field(default=None, repr=False)
    """None for validation scores."""

    @property
    def seed(self) -> int:
        return self.settings.run.seed

    @property
    def sha256(self) -> str | None:
        return self.evaluation.data.sha256 if self.evaluation else None

    @property
    def provenance(self) -> Provenance | None:
        return self.evaluation.provenance if self.evaluation else None

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        return self.evaluation.baselines if self.evaluation else ()


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only."""

    title: str
    runs: tuple[ScoredRun, ...]

    @property
    def data_name(self) -> str:
        return self.runs[0].data_name

    @property
    def paper(self) -> PaperRow | None:
        return paper_row(self.runs[0].preset.model, self.runs[0].data_set)

    @property
    def decoder_repeats_encoder(self) -> bool:
        """Whether decoder masks of all runs score exactly as encoder masks do."""
        return all(run.evaluation is not None and run.evaluation.decoder_repeats_encoder for run in self.runs)

    def values(self, name: str) -> list[float] | None:
        """A score of every run; None if a run lacks it."""
        found = [run.scores.get(name) for run in self.runs]
        return None if any(value is None for value in found) else [value for value in found if value is not None]

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return None if values is None else statistics.mean(values)

    def deviation(self, name: str) -> float | None:
        """Sample standard deviation; None for a single run."""
        values = self.values(name)
        return None if values is None or len(values) < 2 else statistics.stdev(values)


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Run folders among the paths and directly below them, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"{path} is not a run folder: {'it is a file' if path.exists() else 'it does not exist'}")
        runs = [path] if RunFolder(path).exists else sorted(p.parent for p in path.glob("*/run.json"))
        if not runs:
            raise ValueError(f"{path} is not a run folder, and none lies directly in it: there is no run.json")
        for run in runs:
            found.setdefault(run.resolve(), run)
    if not found:
        raise ValueError("there are no runs to report; name at least one run folder")
    return list(found.values())


def score_run(run: Path, progress: Progress = QUIET, *, evaluate: bool = True) -> ScoredRun:
    """Test scores of a run, evaluated now if they are missing or outdated; validation scores without `evaluate`."""
    settings = RunFolder(run).read_settings()
    curve = tuple(line for line in journal.read(RunFolder(run).metrics) if line.get("kind") == "validation")
    found = read_evaluation(run)
    reason = "has not been evaluated" if found is None else _outdated(run, found)
    if reason and evaluate:
        progress.say(f"{run} {reason}: scoring it now on its test split")
        fresh = evaluate_trained(run, EvaluationSettings(), progress)
        write_evaluation(fresh, run)
        found, reason = fresh, None
    if reason or found is None:
        return _from_validation(run, settings, curve)
    return _from_evaluation(run, settings, curve, found)


def scores_elsewhere(run: Path) -> list[ScoredRun]:
    """Scores of a run on data that it was not trained on, as far as it was evaluated there."""
    settings = RunFolder(run).read_settings()
    found = [read_evaluation(folder) for folder in sorted(run.glob("on-*")) if folder.is_dir()]
    return [_from_evaluation(run, settings, (), evaluation) for evaluation in found if evaluation is not None]


def _from_evaluation(
    run: Path, settings: Settings, curve: tuple[Mapping[str, Any], ...], evaluation: Evaluation
) -> ScoredRun:
    overrides, data = evaluation.overrides, evaluation.data
    slots = None if overrides.slots == settings.preset.model.slots and not overrides.dynamic else overrides.slots
    details = [f"trained on {trained_on_name(settings)}"] if data.elsewhere else []
    details += ["best checkpoint"] if evaluation.weights == RunFolder(run).best.name else []
    return ScoredRun(
        run=run,
        settings=settings,
        preset=preset_with_slots(settings.preset, slots, overrides.dynamic or None),
        scores=evaluation.scores | evaluation.slots,
        step=evaluation.step,
        data_name=data.name,
        data_set=data.data_set,
        single=data.single,
        details=(*details, *evaluation.off_protocol),
        curve=curve,
        evaluation=evaluation,
    )


def _from_validation(run: Path, settings: Settings, curve: tuple[Mapping[str, Any], ...]) -> ScoredRun:
    if not curve:
        raise ValueError(f"{run} has neither an evaluation nor validation scores: evaluate it first")
    name = trained_on_name(settings)
    return ScoredRun(
        run=run,
        settings=settings,
        preset=settings.preset,
        scores=curve[-1]["scores"],
        step=curve[-1]["step"],
        data_name=name,
        data_set=name if settings.data.path is None else None,
        single=settings.preset.data.name in PHOTOGRAPHS,
        details=("validation",),
        curve=curve,
    )


def trained_on_name(settings: Settings) -> str:
    """Name of the data that a run was trained on."""
    return data_set_of(settings.preset.data) if settings.data.path is None else Path(settings.data.path).name


def group_runs(scored: Sequence[ScoredRun]) -> list[Group]:
    """Runs that differ in their seed only, together; ValueError if their test images differ."""
    kinds: dict[str, list[ScoredRun]] = {}
    for run in scored:
        kinds.setdefault(json.dumps(_kind(run)), []).append(run)
    # The titles of later groups of a name say how they differ from its first.
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    groups = []
    for kind, runs in kinds.items():
        _check_group(runs)
        name = (runs[0].data_name, runs[0].preset.name, *runs[0].details)
        plain = json.loads(kind)
        difference = first_difference(plain, first.setdefault(name, plain))
        details = [*runs[0].details, *([difference] if difference else [])]
        title = runs[0].preset.name + (f" ({', '.join(details)})" if details else "")
        groups.append(Group(title, tuple(sorted(runs, key=lambda run: run.seed))))
    return sorted(groups, key=lambda group: group.data_name)


def _kind(run: ScoredRun) -> dict[str, Any]:
    """What runs of one group have in common."""
    preset, minutes = run.preset, run.settings.run.minutes
    if minutes is not None:
        # The number of steps is fitted to the time and differs from run to run.
        preset = replace(preset, train=replace(preset.train, steps=1))
    return to_dict(preset) | {"minutes": minutes, "tested on": run.data_name, "details": list(run.details)}


def _check_group(runs: Sequence[ScoredRun]) -> None:
    one = runs[0]
    for other in runs[1:]:
        if other.sha256 != one.sha256:
            raise ValueError(
                f"{one.run} and {other.run} were tested on different images of {one.data_name}, "
                f"sha256 {_short(one)} and {_short(other)}: evaluate both on the same"
            )
    seeds: dict[int, Path] = {}
    for run in runs:
        if run.seed in seeds:
            raise ValueError(
                f"{seeds[run.seed]} and {run.run} do not differ, not even in their seed {run.seed}: name one"
            )
        seeds[run.seed] = run.run


def _short(run: ScoredRun) -> str:
    return f"{(run.sha256 or 'unknown')[:12]}…"


def _outdated(run: Path, evaluation: Evaluation) -> str | None:
    """Why an evaluation no longer holds: the run continued after it."""
    weights = run / evaluation.weights
    if not weights.exists():
        return None
    step = read_weights(weights).notes.get("step")
    return None if step == evaluation.step else f"was evaluated at step {evaluation.step} and is now at {step}"
