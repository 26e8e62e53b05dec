"""`coca demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Demo:
    """Find the objects of fresh scenes with the weights that come with the package: scores and pictures."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Weights to show (tetrominoes, multi-dsprites, objects-room, shapestacks); all if left out."""
    out: Path = Path("demo")
    """Folder for the scenes and the pictures."""

    def run(self) -> None:
        from cocanet.demo import run_demo

        run_demo(self.out, self.names)
