"""`python -m benchmarks.overhead`: what loader, journal, display and checkpoints add to a training step.

The loader makes batches in a thread of its own: what that costs is the thread's CPU time. The rest is the time between
steps of a run. Both are compared with the bare step, taken before, between and after on one batch that never changes.
Validation is left out: how often it happens is the user's choice.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from rich.console import Console
from rich.table import Table

from cocanet import presets
from cocanet.config import Preset, RunConfig
from cocanet.data.loader import Batch, Loader, Stretch
from cocanet.io.run_folder import DataChoice, Settings
from cocanet.models.build import build
from cocanet.train import loop
from cocanet.train.losses import Objective
from cocanet.train.optimiser import make_optimiser
from cocanet.train.session import Session


@dataclass(frozen=True)
class Overhead:
    """Time a training run and the bare step in turn."""

    preset: str = "tetrominoes"
    batch_size: int = 16
    steps: int = 60
    checkpoint_every: int = 7
    """Far more often than by default."""


class Clock:
    """When each step of a run began and ended."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    def timed(self, session: Session, batch: Batch, done: float) -> tuple[float, float]:
        start = time.perf_counter()
        result = _STEP(session, batch, done)
        self.spans.append((start, time.perf_counter()))
        return result

    def between(self) -> list[float]:
        return [after[0] - before[1] for before, after in zip(self.spans, self.spans[1:], strict=False)]


_STEP = loop.step
_MAKE = Loader._make
LOADING: list[float] = []
"""CPU seconds of the loader's thread for each batch."""


def timed_make(loader: Loader, stretch: Stretch) -> Batch:
    start = time.thread_time()
    batch = _MAKE(loader, stretch)
    LOADING.append(time.thread_time() - start)
    return batch


def main() -> None:
    chosen = tyro.cli(Overhead, prog="python -m benchmarks.overhead")
    preset = presets.find(chosen.preset)
    preset = replace(preset, train=replace(preset.train, steps=chosen.steps, batch_size=chosen.batch_size))
    run = RunConfig(checkpoint_every=chosen.checkpoint_every, validate_every=10**9, accelerator="cpu")
    clock = Clock()
    loop.step = clock.timed
    Loader._make = timed_make  # type: ignore[method-assign, assignment]
    bare = []
    with tempfile.TemporaryDirectory() as folder:
        # Halves of one run, resumed, with the bare step before, between and after.
        for half in (chosen.steps // 2, chosen.steps):
            bare += bare_steps(preset, 8)
            part = replace(preset, train=replace(preset.train, steps=half))
            loop.train(Settings(part, run, DataChoice()), Path(folder) / "run", resume=True)
        bare += bare_steps(preset, 8)
    Console(width=100).print(summary(chosen, bare, clock))


def bare_steps(preset: Preset, count: int) -> list[float]:
    """Seconds of single steps on a batch that is there already."""
    model = build(preset, seed=0)
    (stage,) = preset.train.stages
    objective, optimiser = Objective(model, stage), make_optimiser(model, stage)
    images = torch.rand(preset.train.batch_size, 3, *preset.model.image_size)
    seconds = []
    for _ in range(count + 2):
        start = time.perf_counter()
        objective(images).backward()
        optimiser.step()
        optimiser.zero_grad()
        seconds.append(time.perf_counter() - start)
    return seconds[2:]


def summary(chosen: Overhead, bare: list[float], clock: Clock) -> Table:
    step = statistics.median(bare)
    loading = statistics.mean(LOADING)
    between = statistics.mean(sorted(clock.between())[:-2])  # the restart and the last validation are not part of it
    table = Table(title=f"{chosen.preset}, batch {chosen.batch_size}, {chosen.steps} steps")
    for column in ("part", "ms", "of the bare step"):
        table.add_column(column, justify="left" if column == "part" else "right")
    rows = {
        "bare step, the same batch again": step,
        "a batch in the loader's thread": loading,
        "between steps: waiting for a batch, journal, display, checkpoint": between,
        "loader, logging and checkpoints together": loading + between,
    }
    for name, seconds in rows.items():
        table.add_row(name, f"{1000 * seconds:.1f}", f"{100 * seconds / step:.1f} %")
    return table


if __name__ == "__main__":
    main()
