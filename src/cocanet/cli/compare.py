"""`coca compare`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Compare:
    """Train models for the same time on the same images, and compare them: scores, cost and curves in one table."""

    dataset: tyro.conf.Positional[str]
    """tetrominoes, multi-dsprites, shapestacks, objects-room, clevr6 or clevrtex."""
    minutes: float
    """Of training, for each run."""
    models: tuple[str, ...] = ("coca-net", "coca-net-cpu", "slot-attention", "inv-sa", "bo-qsa", "genesis-v2")
    """coca-net is the paper's preset, coca-net-cpu the quick recipe; coca-net-ras, coca-net-dyna and the rivals too."""
    seeds: int = 1
    """Runs of each model, from seed 0 on."""
    out: Path | None = None
    """Folder for the runs and the tables; comparison/DATASET if left out. The same command goes on with what it has."""
    batch_size: int | None = None
    """One for all models; each preset's own if left out."""
    data: Path | None = None
    """A store of images, or a folder with the stores train, validation and test; without it, scenes are made."""

    def run(self) -> None:
        from cocanet.compare.command import run_compare

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
