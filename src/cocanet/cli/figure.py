"""`coca figure`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cocanet.cli.arguments import Weights
from cocanet.explain.figures import KINDS

ABOUT = "; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items())


@dataclass(frozen=True)
class DrawFigure:
    """Draw a trained model's predictions."""

    kind: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="{" + ",".join(KINDS) + "}", help=f"{ABOUT}."),
    ]
    weights: Weights
    data: Path | None = None
    """Folder of a store; validation scenes of the model's data set if left out."""
    count: int | None = None
    """How many images; if left out 6, 3 for slots, 1 for hierarchy."""
    first: int = 0
    """The first of them."""
    out: Path | None = None
    """The file to write, .png, .pdf or .svg; KIND.png if left out."""

    def run(self) -> None:
        from cocanet.cli.progress import ConsoleProgress
        from cocanet.explain.figures.from_model import save_figure

        save_figure(
            self.kind,
            self.weights,
            data=self.data,
            count=self.count,
            first=self.first,
            out=self.out,
            progress=ConsoleProgress(),
        )
