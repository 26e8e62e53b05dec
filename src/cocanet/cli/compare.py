"""`coca compare`: models trained for the same time on the same images, in one table."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from cocanet.evaluate.compare import Job
    from cocanet.evaluate.compare_run import Failure, Trainer
    from cocanet.evaluate.runs import ScoredRun


@dataclass(frozen=True)
class Compare:
    """Train models for the same time on the same images: scores, cost and curves in one table."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """tetrominoes, multi-dsprites, shapestacks, objects-room, clevr6 or clevrtex; birds or flowers with --data."""
    minutes: float
    """Minutes of training, for each run."""
    models: tuple[str, ...] | None = None
    """coca-net (the paper's preset), coca-net-fast (the fast recipe), coca-net-ras, coca-net-dyna, and the baselines.
    If left out: coca-net, coca-net-fast and all baselines; on photographs coca-net and bo-qsa."""
    seeds: int = 1
    """Runs of each model, from seed 0 on."""
    out: Path | None = None
    """Folder for the runs and the tables; comparison/DATASET if left out. The same command continues it."""
    batch_size: int | None = None
    """The batch size of all models; each preset's own if left out."""
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; scenes are generated if left out."""

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
    """Train and evaluate the runs that `out` lacks, and write tables and curves; returns the exit code.

    `changes` apply to the settings of every run. The tables are written after every run, so that a stopped comparison
    has them too.
    """
    import torch

    from cocanet.cli.progress import ConsoleProgress
    from cocanet.evaluate.compare import Comparison, claim, finished_before, models_for, plan, prepare_data
    from cocanet.evaluate.compare_run import Failure, run_job, train_in_child
    from cocanet.evaluate.compare_tables import NAME, write_comparison
    from cocanet.train.interrupt import Stopped
    from cocanet.words import duration, plural

    path = None if data is None else str(data.resolve())
    comparison = Comparison(data_set, float(minutes), torch.get_num_threads(), batch_size, path, dict(changes or {}))
    folder = out or Path(NAME) / data_set
    jobs = plan(comparison, models_for(data_set) if models is None else models, seeds, folder)
    progress = ConsoleProgress()
    prepare_data(comparison, progress)
    claim(folder, comparison)
    jobs = [*finished_before(jobs, comparison, folder), *jobs]
    waiting = sum(not job.finished for job in jobs)
    progress.say(
        f"{plural(len(jobs), 'run')} in {folder}, {waiting} to train: {duration(60 * minutes * waiting)} at most"
    )
    results: dict[Job, ScoredRun | Failure] = {}
    try:
        for number, job in enumerate(jobs, 1):
            progress.say(f"{number}/{len(jobs)}: {job.title}")
            result = results[job] = run_job(job, trainer or train_in_child, progress)
            if isinstance(result, Failure):
                progress.say(f"{job.title} failed: {result.reason}")
            text = write_comparison(folder, comparison, results, jobs[number:])
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal", signal.SIGINT)
        raise Stopped(f"stopped; the same command goes on with {folder}", number) from None
    progress.say(text)
    progress.say(f"The tables and curves are {NAME}.md, .csv, .tex and .png in {folder}")
    return int(any(isinstance(result, Failure) for result in results.values()))
