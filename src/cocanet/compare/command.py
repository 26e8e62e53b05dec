"""What `coca compare` does: every model the same time on the same images, and one table of them all."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.console import Console

from cocanet.compare.rows import Failure, carry_out, groups_of, rows_of
from cocanet.compare.settings import MODELS, Comparison, Job, claim, finished_before, plan, prepare_data
from cocanet.compare.table import comparison_csv, latex_text, markdown_text
from cocanet.compare.training import Trainer, train_apart
from cocanet.figures import save
from cocanet.files import write_atomically
from cocanet.report.plots import CLOCKS, plot_curves
from cocanet.report.runs import Measured
from cocanet.train.display import duration
from cocanet.train.interrupt import Stopped
from cocanet.words import plural

CURVES = ("decoder_ari_fg", "encoder_ari_fg", "mse")
NAME = "comparison"


def run_compare(
    data_set: str,
    *,
    models: Sequence[str] = MODELS,
    minutes: float,
    seeds: int = 1,
    out: Path | None = None,
    batch_size: int | None = None,
    data: Path | None = None,
    flags: Sequence[str] = (),
    trainer: Trainer = train_apart,
) -> int:
    """Train and evaluate what is missing in `out` and write the tables and curves; returns the exit code.

    `flags` are given to every `coca train`. The tables are written after every run, so they are there if it is stopped.
    """
    path = None if data is None else str(data.resolve())
    comparison = Comparison(data_set, float(minutes), torch.get_num_threads(), batch_size, path, tuple(flags))
    folder = out or Path(NAME) / data_set
    jobs = plan(comparison, models, seeds, folder)
    prepare_data(comparison)
    claim(folder, comparison)
    jobs = [*finished_before(jobs, comparison, folder), *jobs]
    console = Console(highlight=False, markup=False, soft_wrap=True)
    waiting = sum(not job.finished for job in jobs)
    console.print(
        f"{plural(len(jobs), 'run')} in {folder}, {waiting} to train: {duration(60 * minutes * waiting)} at most"
    )
    results: dict[Job, Measured | Failure] = {}
    try:
        for number, job in enumerate(jobs, 1):
            console.print(f"{number}/{len(jobs)}: {job.title}")
            result = results[job] = carry_out(job, trainer, console)
            if isinstance(result, Failure):
                console.print(f"{job.title} failed: {result.reason}")
            text = write_comparison(folder, comparison, results, jobs[number:])
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal", signal.SIGINT)
        raise Stopped(f"stopped; the same command goes on with {folder}", number) from None
    print(text)
    console.print(f"The tables and curves are {NAME}.md, .csv, .tex and .png in {folder}")
    return int(any(isinstance(result, Failure) for result in results.values()))


def write_comparison(
    folder: Path, comparison: Comparison, results: Mapping[Job, Measured | Failure], missing: Sequence[Job] = ()
) -> str:
    """Write tables and curves of the runs so far; returns the one for people."""
    rows = rows_of(results)
    text = markdown_text(rows, comparison, missing)
    texts = {"md": text, "csv": comparison_csv(rows), "tex": latex_text(rows, comparison, missing)}
    for suffix, content in texts.items():
        write_atomically(folder / f"{NAME}.{suffix}", [content.encode()])
    groups = groups_of(rows)
    if any(run.curve for group in groups for run in group.runs):
        clock = {"seconds": CLOCKS["seconds"]}
        labels = [group.title for group in groups]
        save(plot_curves(groups, names=CURVES, clocks=clock, labels=labels), folder / f"{NAME}.png")
    return text
