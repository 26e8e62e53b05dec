"""`python -m benchmarks.workers`: images per second of `coca segment --workers`, and the processor time they take.

Runs with one and with two workers alternate. Timing starts after a quarter of the images, since workers take seconds
to load. On a shared machine two workers get more of the processor than one, which favours them; processor time is free
of that. On two idle cores, one worker needs its own processor time w₁ for an image while the parent writes on the other
core. Two workers and the parent share both cores, so that the speed-up is at most 2 w₁ / (w₂ + p₂).
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import tyro
from rich.console import Console
from rich.table import Table

from cocanet.data.generators import make_scenes
from cocanet.data.store_writer import write_store
from cocanet.predict import load
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.inputs import find_images
from cocanet.predict.segment_many import segment_many
from cocanet.predict.segment_settings import OutputFormat, OutputSettings, WorkerSettings

TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Seconds per image."""

    wall: float
    workers: float
    """Processor time of all workers."""
    parent: float


class Moment(NamedTuple):
    """Readings of the clocks."""

    finished: int
    wall: float
    workers: float
    parent: float


@dataclass(frozen=True)
class Benchmark:
    """Compare one worker with two, on scenes like those of the weights' training."""

    weights: str = "tetrominoes"
    images: int = 800
    format: OutputFormat = "files"
    repeats: int = 3


def measure(segmenter: BaseSegmenter, store: Path, out: Path, workers: int, format: OutputFormat) -> Cost:
    """Segment a store, and read the clocks after a quarter and at the end."""
    inputs, moments = find_images([store], out), list[Moment]()
    total = len(inputs.files)

    def read_clocks(finished: int) -> None:
        if finished in (total // 4, total):
            cores = sum(processor_time(child.pid) for child in multiprocessing.active_children())
            moments.append(Moment(finished, time.perf_counter(), cores, time.process_time()))

    output = OutputSettings(out, overwrite=True, format=format, sheet=0)
    segment_many(segmenter, inputs, output, workers=WorkerSettings(workers), progress=read_clocks)
    first, last = moments
    images = last.finished - first.finished
    return Cost(*((later - before) / images for before, later in zip(first[1:], last[1:], strict=True)))


def processor_time(pid: int | None) -> float:
    """Processor seconds of a process, on Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    chosen = tyro.cli(Benchmark, prog="python -m benchmarks.workers")
    segmenter = load(chosen.weights)
    with TemporaryDirectory() as scratch:
        store = Path(scratch, "store")
        write_store(make_scenes(segmenter.preset.data.name, count=chosen.images, seed=7), store)
        runs = [
            [measure(segmenter, store, Path(scratch, "out"), workers, chosen.format) for workers in (1, 2)]
            for _ in range(chosen.repeats)
        ]
    load_now = os.getloadavg()[0]
    table = Table(title=f"coca segment {chosen.weights} --format {chosen.format}: medians of {chosen.repeats} turns")
    for column in ("workers", "images/s", "worker ms/image", "parent ms/image"):
        table.add_column(column, justify="right")
    for place, workers in enumerate((1, 2)):
        wall, cores, parent = (statistics.median(field) for field in zip(*(run[place] for run in runs), strict=True))
        table.add_row(str(workers), f"{1 / wall:.1f}", f"{1000 * cores:.1f}", f"{1000 * parent:.1f}")
    walls = ", ".join(f"{one.wall / two.wall:.2f}" for one, two in runs)
    limits = ", ".join(f"{2 * one.workers / (two.workers + two.parent):.2f}" for one, two in runs)
    console = Console(width=110)
    console.print(table)
    console.print(
        f"speed-up of two workers, by the clock: {walls}; by processor time at most: {limits}; load {load_now:.1f}"
    )


if __name__ == "__main__":
    main()
