"""`coca scenes`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Scenes:
    """Generate a data set of scenes with exact instance masks."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SET")]
    """tetrominoes, multi-dsprites, objects-room, shapestacks, clevr or clevrtex."""
    count: int
    """How many images."""
    out: Path
    """Folder of the store; if a stopped run left one there, it is continued."""
    seed: int = 0
    """Image i of a seed is always the same."""
    workers: int = 1
    """Processes to share the work."""
    max_objects: int | None = None
    """Most objects in a scene, where the set leaves a choice; 6 makes CLEVR6 of clevr."""
    size: int | None = None
    """Pixels a side; the published size if left out."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.data.filling import fill
        from cocanet.data.scenes import make_scenes

        source = make_scenes(self.name, count=self.count, seed=self.seed, max_objects=self.max_objects, size=self.size)
        fill(source, self.out, workers=self.workers, watcher=ConsoleWatcher())
