"""`coca figure`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


@dataclass(frozen=True)
class DrawFigure:
    """Draw what a trained model finds in images."""

    kind: tyro.conf.Positional[Literal["grid", "hierarchy", "compactness", "slots"]]
    """grid: image, reconstruction, truth and masks; hierarchy: how one image's objects were put together;
    compactness: of every pixel's masks; slots: each slot's own picture."""
    weights: tyro.conf.Positional[str]
    """A run folder, a weights file, or a name of weights that come with the package (tetrominoes, multi-dsprites,
    objects-room, shapestacks)."""
    data: Path | None = None
    """Folder of a store; scenes of the model's own kind if left out."""
    count: int | None = None
    """How many images; if left out 6, or 3 for slots, or the one that a hierarchy shows."""
    first: int = 0
    """The first of them."""
    out: Path | None = None
    """The picture to write, .png, .pdf or .svg; KIND.png if left out."""

    def run(self) -> None:
        from cocanet.figures.command import save_figure

        save_figure(self.kind, self.weights, data=self.data, count=self.count, first=self.first, out=self.out)
