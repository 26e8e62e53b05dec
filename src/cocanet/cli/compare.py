"""`coca compare`: every model the same time on the same images, and one table of them all."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from cocanet.compare.rows import Failure
    from cocanet.compare.settings import Job
    from cocanet.compare.training import Trainer
    from cocanet.report.runs import Measured


@dataclass(frozen=True)
class Compare:
    """Train models for the same time on the same images, and compare them: scores, cost and curves in one table."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """tetrominoes, multi-dsprites, shapestacks, objects-room, clevr6 or clevrtex; birds or flowers with --data."""
    minutes: float
    """Minutes of training, for each run."""
    models: tuple[str, ...] | None = None
    """coca-net is the paper's preset, coca-net-cpu the quick recipe; coca-net-ras, coca-net-dyna and the rivals too.
    If left out coca-net, coca-net-cpu and all rivals; on photographs coca-net-cpu and bo-qsa-cpu."""
    seeds: int = 1
    """Runs of each model, from seed 0 on."""
    out: Path | None = None
    """Folder for the runs and the tables; comparison/DATASET if left out. The same command goes on with what it has."""
    batch_size: int | None = None
    """One for all models; each preset's own if left out."""
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; without it, scenes are made."""

    def run(self) -> None:
        sys.exit(
            run_compare(
                self.dataset,
                models=self.models,
                minutes=self.minutes,
                seeds=self.seeds,
                out=self.out,
                batch_size=self.batch_size,
                data=self.data,
            )
        )


def run_compare(
    data_set: str,
    *,
    models: Sequence[str] | None = None,
    minutes: float,
    seeds: int = 1,
    out: Path | None = None,
    batch_size: int | None = None,
    data: Path | None = None,
    changes: Mapping[str, Any] | None = None,
    trainer: Trainer | None = None,
) -> int:
    """Train and evaluate what is missing in `out` and write the tables and curves; returns the exit code.

    `changes` are made to the settings of every run. The tables are written after every run, so that they are there if
    it is stopped.
    """
    import torch

    from cocanet.cli.console import ConsoleWatcher
    from cocanet.compare.files import NAME, write_comparison
    from cocanet.compare.rows import Failure, run_job
    from cocanet.compare.settings import Comparison, claim, finished_before, models_for, plan, prepare_data
    from cocanet.compare.training import train_apart
    from cocanet.train.interrupt import Stopped
    from cocanet.words import duration, plural

    path = None if data is None else str(data.resolve())
    comparison = Comparison(data_set, float(minutes), torch.get_num_threads(), batch_size, path, dict(changes or {}))
    folder = out or Path(NAME) / data_set
    jobs = plan(comparison, models_for(data_set) if models is None else models, seeds, folder)
    watcher = ConsoleWatcher()
    prepare_data(comparison, watcher)
    claim(folder, comparison)
    jobs = [*finished_before(jobs, comparison, folder), *jobs]
    waiting = sum(not job.finished for job in jobs)
    watcher.say(
        f"{plural(len(jobs), 'run')} in {folder}, {waiting} to train: {duration(60 * minutes * waiting)} at most"
    )
    results: dict[Job, Measured | Failure] = {}
    try:
        for number, job in enumerate(jobs, 1):
            watcher.say(f"{number}/{len(jobs)}: {job.title}")
            result = results[job] = run_job(job, trainer or train_apart, watcher)
            if isinstance(result, Failure):
                watcher.say(f"{job.title} failed: {result.reason}")
            text = write_comparison(folder, comparison, results, jobs[number:])
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal", signal.SIGINT)
        raise Stopped(f"stopped; the same command goes on with {folder}", number) from None
    watcher.say(text)
    watcher.say(f"The tables and curves are {NAME}.md, .csv, .tex and .png in {folder}")
    return int(any(isinstance(result, Failure) for result in results.values()))
