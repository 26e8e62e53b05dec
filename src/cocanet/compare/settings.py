"""What a comparison was asked for, and the runs that make it up: OUT/MODEL/seed-N."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cocanet import presets
from cocanet.config import Preset, RunConfig
from cocanet.config.plain import changed, first_difference, from_plain, to_plain
from cocanet.data.splits import at_size, open_split
from cocanet.files import read_json, write_atomically
from cocanet.presets.rivals import MODELS as RIVALS
from cocanet.runs.folder import DataChoice, RunFolder, Settings
from cocanet.suggest import unknown
from cocanet.watch import QUIET, Watcher
from cocanet.weights import read_weights

OURS = "coca-net"
QUICK = "-cpu"
MODELS = (OURS, f"{OURS}{QUICK}", *RIVALS)
OF_PHOTOGRAPHS = (f"{OURS}{QUICK}", f"bo-qsa{QUICK}")
"""Those with a decoder by tokens; at published sizes they are for a GPU."""
DATA_SETS = (*presets.PRESETS, *presets.SLOTS)
FILE = "comparison.json"
FORMAT = "cocanet-comparison"


@dataclass(frozen=True)
class Comparison:
    """What all runs of a comparison have in common."""

    data_set: str
    minutes: float
    """Minutes of training, for each run."""
    threads: int
    batch_size: int | None = None
    """Each preset's own if None."""
    data: str | None = None
    """The user's images; scenes are made if None."""
    changes: dict[str, Any] = field(default_factory=dict, hash=False)
    """To the settings of every run, as plain values."""

    def __post_init__(self) -> None:
        if self.data_set not in DATA_SETS:
            raise ValueError(unknown("data set", self.data_set, DATA_SETS))
        if not (self.minutes > 0 and math.isfinite(self.minutes)):
            raise ValueError(f"minutes must be positive; got {self.minutes:g}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch size must be at least 1; got {self.batch_size}")

    def command(self, models: Sequence[str], seeds: int) -> str:
        """What a person types to make it again."""
        given = {
            "--minutes": f"{self.minutes:g}",
            "--seeds": seeds,
            "--batch-size": self.batch_size,
            "--data": self.data,
        }
        flags = [f"{flag} {value}" for flag, value in given.items() if value is not None]
        return " ".join(["coca compare", self.data_set, *flags, "--models", *models])


class Job(NamedTuple):
    """One run: a model from one seed."""

    model: str
    seed: int
    run: Path
    comparison: Comparison

    @property
    def preset(self) -> Preset:
        return presets.find(preset_name(self.model, self.comparison.data_set))

    @property
    def title(self) -> str:
        return f"{self.model}, seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the run has had its time; one with a damaged checkpoint has not."""
        try:
            return bool(read_weights(RunFolder(self.run).last).notes.get("finished"))
        except ValueError:
            return False

    @property
    def settings(self) -> Settings:
        """What is trained."""
        shared = self.comparison
        preset = self.preset
        if shared.batch_size is not None:
            preset = replace(preset, train=replace(preset.train, batch_size=shared.batch_size))
        asked = Settings(preset, RunConfig(seed=self.seed, minutes=shared.minutes), DataChoice(shared.data))
        return from_plain(Settings, changed(to_plain(asked), shared.changes), "the comparison")


def models_for(data_set: str) -> tuple[str, ...]:
    """What is compared on a data set unless others are named."""
    return OF_PHOTOGRAPHS if data_set in presets.SLOTS else MODELS


def preset_name(model: str, data_set: str) -> str:
    """The preset of a model for a data set: coca-net-cpu on clevr6 is clevr6-cpu, inv-sa on it inv-sa-clevr6, and
    bo-qsa-cpu on birds bo-qsa-birds-cpu."""
    own = model == OURS or model.startswith(f"{OURS}-")
    rival, quick = model.removesuffix(QUICK), QUICK * model.endswith(QUICK)
    name = f"{data_set}{model.removeprefix(OURS)}" if own else f"{rival}-{data_set}{quick}"
    if not presets.is_known(name):
        variants = [f"{OURS}-{suffix}" for suffix in presets.VARIANTS]
        others = OF_PHOTOGRAPHS[1:] if data_set in presets.SLOTS else RIVALS
        raise ValueError(unknown("model", model, [OURS, *variants, *others]))
    return presets.find(name).name


def plan(comparison: Comparison, models: Sequence[str], seeds: int, out: Path) -> list[Job]:
    """All runs, seed by seed, so that every model has one before any has two."""
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1; got {seeds}")
    if not models:
        known = ", ".join(models_for(comparison.data_set))
        raise ValueError(f"there are no models to compare; name some of {known}")
    for model, count in Counter(models).items():
        preset_name(model, comparison.data_set)
        if count > 1:
            raise ValueError(f"the model {model} is named {count} times; once is enough")
    return [Job(model, seed, out / model / f"seed-{seed}", comparison) for seed in range(seeds) for model in models]


def finished_before(jobs: Sequence[Job], comparison: Comparison, out: Path) -> list[Job]:
    """Finished runs of other models and seeds in the folder: they belong into its table, whoever is named now."""
    found = []
    for run in sorted(out.glob("*/seed-*")):
        seed = run.name.removeprefix("seed-")
        if not seed.isdecimal() or not _is_model(run.parent.name, comparison.data_set):
            continue
        job = Job(run.parent.name, int(seed), run, comparison)
        if job not in jobs and job.finished:
            found.append(job)
    return found


def _is_model(name: str, data_set: str) -> bool:
    try:
        preset_name(name, data_set)
    except ValueError:
        return False
    return True


def prepare_data(comparison: Comparison, watcher: Watcher = QUIET) -> None:
    """Open all splits, which makes scenes that are not there yet: no run's clock or memory shall pay for it."""
    preset = presets.find(comparison.data_set)
    path = None if comparison.data is None else Path(comparison.data)
    splits = [open_split(preset.data, split, path, watcher=watcher) for split in ("train", "validation", "test")]
    for images in splits:
        at_size(images, preset.model.image_size, preset.data, path)


def claim(out: Path, comparison: Comparison) -> None:
    """Make a folder the comparison's; ValueError if it belongs to anything else."""
    file = out / FILE
    if file.exists():
        difference = first_difference(to_plain(_read(file)), to_plain(comparison))
        if difference:
            hint = "set OMP_NUM_THREADS to it, or " if difference.startswith("threads") else ""
            raise ValueError(f"{out} holds runs made with {difference}; {hint}choose another --out")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is neither empty nor the folder of a comparison; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "version": 1, "settings": to_plain(comparison)}
    write_atomically(file, [json.dumps(content, indent=1).encode(), b"\n"])


def _read(file: Path) -> Comparison:
    content = read_json(file)
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, 1):
        raise ValueError(f'{file} does not describe a comparison: expected "format": "{FORMAT}", version 1')
    return from_plain(Comparison, content.get("settings") or {}, str(file))
