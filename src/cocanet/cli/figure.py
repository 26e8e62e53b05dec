"""`coca figure`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cocanet.cli.weights_argument import Weights
from cocanet.figures import KINDS

ABOUT = "; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items())


@dataclass(frozen=True)
class DrawFigure:
    """Draw what a trained model finds in images."""

    kind: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="{" + ",".join(KINDS) + "}", help=f"{ABOUT}."),
    ]
    weights: Weights
    data: Path | None = None
    """Folder of a store; scenes of the model's own kind if left out."""
    count: int | None = None
    """How many images; if left out 6, or 3 for slots, or the one that a hierarchy shows."""
    first: int = 0
    """The first of them."""
    out: Path | None = None
    """The picture to write, .png, .pdf or .svg; KIND.png if left out."""

    def run(self) -> None:
        from cocanet.cli.console import ConsoleWatcher
        from cocanet.figures.pictured import save_figure

        save_figure(
            self.kind,
            self.weights,
            data=self.data,
            count=self.count,
            first=self.first,
            out=self.out,
            watcher=ConsoleWatcher(),
        )
