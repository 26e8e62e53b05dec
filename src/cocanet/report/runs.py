"""Runs with their scores, and which of them belong together."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cocanet.config import Preset
from cocanet.config.plain import first_difference, to_plain
from cocanet.config.slots import preset_with_slots
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.evaluation.files import write_evaluation
from cocanet.evaluation.result import Provenance, Result, Yardstick, read_result
from cocanet.evaluation.settings import EvaluationSettings
from cocanet.evaluation.trained import evaluate_trained
from cocanet.paper_scores import PaperRow, data_set_of, paper_row
from cocanet.runs import journal
from cocanet.runs.folder import RunFolder, Settings
from cocanet.watch import QUIET, Watcher
from cocanet.weights import read_weights


@dataclass(frozen=True)
class Measured:
    """The scores of one run, and what they were measured on."""

    run: Path
    settings: Settings
    preset: Preset
    """As evaluated."""
    scores: Mapping[str, float | None]
    step: int | None
    data_name: str
    data_set: str | None
    sha256: str | None
    """None for validation scores."""
    details: tuple[str, ...] = ()
    """How they differ from the protocol: `best checkpoint`, `validation`, …"""
    curve: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """The validations of the run's journal."""
    single: bool = False
    """Whether every image shows one thing on a background."""
    generated: bool | None = None
    """Whether the images were generated; None where that is not known."""
    provenance: Provenance = field(default_factory=Provenance)
    yardsticks: tuple[Yardstick, ...] = field(default=(), repr=False)
    """The same images by ways that nobody trained."""

    @property
    def seed(self) -> int:
        return self.settings.run.seed


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only."""

    title: str
    runs: tuple[Measured, ...]

    @property
    def data_name(self) -> str:
        return self.runs[0].data_name

    @property
    def paper(self) -> PaperRow | None:
        return paper_row(self.runs[0].preset.model, self.runs[0].data_set)

    def values(self, name: str) -> list[float] | None:
        """A score of every run; None if there are runs without it."""
        found = [run.scores.get(name) for run in self.runs]
        return None if any(value is None for value in found) else [value for value in found if value is not None]

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return None if values is None else statistics.mean(values)

    def deviation(self, name: str) -> float | None:
        """The sample's standard deviation; None for a single run."""
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


def measure(run: Path, watcher: Watcher = QUIET, *, evaluate: bool = True) -> Measured:
    """A run's test scores, measured now if they are not there or older than its weights; else its validation scores."""
    settings = RunFolder(run).read_settings()
    curve = tuple(line for line in journal.read(RunFolder(run).metrics) if line.get("kind") == "validation")
    result = read_result(run)
    reason = "has not been evaluated" if result is None else _outdated(run, result)
    if reason and evaluate:
        watcher.say(f"{run} {reason}: scoring it now on its test split")
        found = evaluate_trained(run, EvaluationSettings(), watcher)
        write_evaluation(found, run)
        result, reason = found.result, None
    if reason or result is None:
        return _from_validation(run, settings, curve)
    return _from_result(run, settings, curve, result)


def measure_elsewhere(run: Path) -> list[Measured]:
    """A run's scores on data that it was not trained for, as far as they were measured."""
    settings = RunFolder(run).read_settings()
    results = [read_result(folder) for folder in sorted(run.glob("on-*")) if folder.is_dir()]
    return [_from_result(run, settings, (), result, elsewhere=True) for result in results if result is not None]


def _from_result(
    run: Path,
    settings: Settings,
    curve: tuple[Mapping[str, Any], ...],
    result: Result,
    *,
    elsewhere: bool = False,
) -> Measured:
    asked, own = result.settings, settings.preset.model.slots
    slots = None if asked.slots == own and not asked.dynamic else asked.slots
    details = [f"trained on {trained_for(settings)}"] if elsewhere else []
    details += ["best checkpoint"] if result.weights == RunFolder(run).best.name else []
    details += ["paper's counting"] if asked.compat else []
    details += ["paper's encoder masks"] if asked.paper_masks else []
    return Measured(
        run=run,
        settings=settings,
        preset=preset_with_slots(settings.preset, slots, asked.dynamic or None),
        scores=result.scores | result.slots,
        step=result.step,
        data_name=result.data.name,
        data_set=result.data.data_set,
        sha256=result.data.sha256,
        details=tuple(details),
        curve=curve,
        single=result.data.single,
        generated=result.data.generated,
        provenance=result.provenance,
        yardsticks=result.yardsticks,
    )


def trained_for(settings: Settings) -> str:
    """What a run was trained on, in a word."""
    return data_set_of(settings.preset.data) if settings.data.path is None else Path(settings.data.path).name


def group_runs(measured: Sequence[Measured]) -> list[Group]:
    """Runs of one model on one data set together, whatever their seeds; refused if their images differ."""
    kinds: dict[str, list[Measured]] = {}
    for run in measured:
        kinds.setdefault(json.dumps(_kind(run)), []).append(run)
    # The first of a name is the one the others are told apart from.
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


def _kind(run: Measured) -> dict[str, Any]:
    """All that runs of one group have in common."""
    preset, minutes = run.preset, run.settings.run.minutes
    if minutes is not None:
        # What was fitted to the time differs from run to run.
        course = replace(preset.train, steps=1, warmup_steps=0, half_life=1)
        preset = replace(preset, train=course)
    return to_plain(preset) | {"minutes": minutes, "tested on": run.data_name, "details": list(run.details)}


def _check_group(runs: Sequence[Measured]) -> None:
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


def _short(run: Measured) -> str:
    return f"{(run.sha256 or 'unknown')[:12]}…"


def _outdated(run: Path, result: Result) -> str | None:
    """Why an evaluation no longer holds: the run went on after it."""
    weights = run / result.weights
    if not weights.exists():
        return None
    step = read_weights(weights).notes.get("step")
    return None if step == result.step else f"was evaluated at step {result.step} and is now at {step}"


def _from_validation(run: Path, settings: Settings, curve: tuple[Mapping[str, Any], ...]) -> Measured:
    if not curve:
        raise ValueError(f"{run} has neither an evaluation nor validation scores: evaluate it first")
    name = trained_for(settings)
    return Measured(
        run=run,
        settings=settings,
        preset=settings.preset,
        scores=curve[-1]["scores"],
        step=curve[-1]["step"],
        data_name=name,
        data_set=name if settings.data.path is None else None,
        sha256=None,
        details=("validation",),
        curve=curve,
        single=settings.preset.data.name in PHOTOGRAPHS,
    )
