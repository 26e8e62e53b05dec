"""The plan of a comparison: its settings, and its runs in OUT/MODEL/seed-N."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cocanet import presets
from cocanet.config import Preset, RunConfig
from cocanet.config.serialization import changed, first_difference, from_dict, to_dict
from cocanet.data.splits import at_size, open_split
from cocanet.files import read_json, write_atomically
from cocanet.io.run_folder import DataChoice, RunFolder, Settings
from cocanet.io.weights import read_weights
from cocanet.presets.baselines import MODELS as BASELINES
from cocanet.progress import QUIET, Progress
from cocanet.words import unknown

OURS = "coca-net"
MODELS = (OURS, f"{OURS}-fast", *BASELINES)
PHOTOGRAPH_MODELS = (OURS, "bo-qsa")
"""The models with a token decoder."""
FEATURE_MODELS = tuple(presets.FEATURE_MODELS)
DATA_SETS = (*presets.PRESETS, *presets.SLOTS, *presets.FEATURE_SETS)
FILE, NOTE_FILE = "comparison.json", "compare.json"
FORMAT = "cocanet-comparison"


@dataclass(frozen=True)
class Comparison:
    """The settings that all runs of a comparison share."""

    data_set: str
    minutes: float
    """Minutes of training of each run."""
    threads: int
    batch_size: int | None = None
    """None for that of each preset."""
    data: str | None = None
    """Folder of images; None for generated scenes."""
    changes: dict[str, Any] = field(default_factory=dict, hash=False)
    """Changes to the settings of every run, as plain values."""

    def __post_init__(self) -> None:
        if self.data_set not in DATA_SETS:
            raise ValueError(unknown("data set", self.data_set, DATA_SETS))
        if not (self.minutes > 0 and math.isfinite(self.minutes)):
            raise ValueError(f"minutes must be positive; got {self.minutes:g}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch size must be at least 1; got {self.batch_size}")

    def command(self, models: Sequence[str], seeds: int) -> str:
        """The command that repeats it."""
        given = {
            "--minutes": f"{self.minutes:g}",
            "--seeds": seeds,
            "--batch-size": self.batch_size,
            "--data": self.data,
        }
        flags = [f"{flag} {value}" for flag, value in given.items() if value is not None]
        return " ".join(["coca compare", self.data_set, *flags, "--models", *models])


class Job(NamedTuple):
    """One run: a model and a seed."""

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
        """Whether the training is complete; one with a damaged checkpoint is not."""
        try:
            return bool(read_weights(RunFolder(self.run).last).notes.get("finished"))
        except ValueError:
            return False

    @property
    def settings(self) -> Settings:
        """Settings of the training."""
        shared = self.comparison
        preset = self.preset
        if shared.batch_size is not None:
            preset = replace(preset, train=replace(preset.train, batch_size=shared.batch_size))
        settings = Settings(preset, RunConfig(seed=self.seed, minutes=shared.minutes), DataChoice(shared.data))
        return from_dict(Settings, changed(to_dict(settings), shared.changes), "the comparison")


@dataclass(frozen=True)
class Note:
    """What compare.json says about a run, however often it was resumed."""

    peak_bytes: int | None = None
    """Peak memory of the training process."""
    failed: str | None = None
    """Why the run failed."""


def read_note(run: Path) -> Note:
    """The note of a run; an empty one if there is none."""
    file = run / NOTE_FILE
    return from_dict(Note, read_json(file), str(file)) if file.exists() else Note()


def write_note(run: Path, note: Note) -> None:
    run.mkdir(parents=True, exist_ok=True)
    write_atomically(run / NOTE_FILE, [json.dumps(asdict(note), indent=1).encode(), b"\n"])


def models_for(data_set: str) -> tuple[str, ...]:
    """The models that are compared on a data set by default."""
    if data_set in presets.FEATURE_SETS:
        return FEATURE_MODELS
    return PHOTOGRAPH_MODELS if data_set in presets.SLOTS else MODELS


def preset_name(model: str, data_set: str) -> str:
    """The preset of a model for a data set: coca-net-fast on clevr6 is clevr6-fast, inv-sa on it inv-sa-clevr6."""
    own = model == OURS or model.startswith(f"{OURS}-")
    name = f"{data_set}{model.removeprefix(OURS)}" if own else f"{model}-{data_set}"
    if not presets.is_known(name):
        variants = [f"{OURS}-{suffix}" for suffix in presets.VARIANTS]
        others = BASELINES if data_set in presets.PRESETS else models_for(data_set)[1:]
        raise ValueError(unknown("model", model, [OURS, *variants, *others]))
    return presets.find(name).name


def plan(comparison: Comparison, models: Sequence[str], seeds: int, out: Path) -> list[Job]:
    """All runs, seed by seed, so that every model has one run before any has two."""
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
    """Finished runs of other models and seeds in the folder; they stay in its table."""
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


def prepare_data(comparison: Comparison, progress: Progress = QUIET) -> None:
    """Open all splits, so that no run spends time or memory on generating scenes."""
    preset = presets.find(comparison.data_set)
    path = None if comparison.data is None else Path(comparison.data)
    splits = [open_split(preset.data, split, path, progress=progress) for split in ("train", "validation", "test")]
    for images in splits:
        at_size(images, preset.model.image_size, preset.data, path)


def claim(out: Path, comparison: Comparison) -> None:
    """Make a folder the comparison's own; ValueError if it holds anything else."""
    file = out / FILE
    if file.exists():
        difference = first_difference(to_dict(_read(file)), to_dict(comparison))
        if difference:
            hint = "set OMP_NUM_THREADS to it, or " if difference.startswith("threads") else ""
            raise ValueError(f"{out} holds runs made with {difference}; {hint}choose another --out")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is neither empty nor the folder of a comparison; choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "version": 1, "settings": to_dict(comparison)}
    write_atomically(file, [json.dumps(content, indent=1).encode(), b"\n"])


def _read(file: Path) -> Comparison:
    content = read_json(file)
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, 1):
        raise ValueError(f'{file} does not describe a comparison: expected "format": "{FORMAT}", version 1')
    return from_dict(Comparison, content.get("settings") or {}, str(file))
