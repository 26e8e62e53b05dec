"""`python -m tools.gallery`: predictions of the shipped weights on all data sets, in one figure for the README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import tyro
from matplotlib.figure import Figure

from cocanet.data.splits import open_split
from cocanet.explain.figures.canvas import GAP, MARGIN, TITLE, Rect, new_figure, save, show, write
from cocanet.explain.figures.from_model import FigureImages, pick
from cocanet.explain.figures.grids import discovery_rows
from cocanet.io.trained import open_model, shipped_names
from cocanet.models.output import Output

ORDER = ("tetrominoes", "multi-dsprites", "objects-room", "shapestacks", "clevr6", "clevrtex")
"""The order of the paper."""
COLUMNS = ("image", "reconstruction", "decoder", "encoder")
_SIDE, _BETWEEN = 0.86, 0.14
_NAME = 1.1
"""Inches on the left for the names of the data sets."""


@dataclass(frozen=True)
class Gallery:
    out: Path = Path("docs/images/gallery.png")
    scenes: int = 2
    """Scenes of each data set, from `first` on."""
    first: int = 0


class PredictedScenes(NamedTuple):
    """Scenes of one data set, with a model's output."""

    name: str
    scenes: FigureImages
    output: Output


def gallery_figure(sets: Sequence[PredictedScenes]) -> Figure:
    """A row for each data set, its scenes side by side: image, reconstruction, decoder masks, encoder masks.

    Colours are those of `discovery_grid`; the ground truth chooses them and is not shown.
    """
    if not sets:
        raise ValueError("a gallery needs at least one data set")
    scenes = max(len(part.scenes.images) for part in sets)
    wide = len(COLUMNS) * (_SIDE + GAP)
    figure = new_figure(
        2 * MARGIN + _NAME + scenes * (wide + _BETWEEN) - GAP - _BETWEEN,
        TITLE + len(sets) * (_SIDE + GAP) - GAP + MARGIN,
    )
    for scene in range(scenes):
        left = MARGIN + _NAME + scene * (wide + _BETWEEN)
        for column, title in enumerate(COLUMNS):
            write(figure, left + column * (_SIDE + GAP) + _SIDE / 2, TITLE / 2, title)
    for row, part in enumerate(sets):
        top = TITLE + row * (_SIDE + GAP)
        write(figure, MARGIN, top + _SIDE / 2, part.name, align="left")
        images, truth, background_labels = part.scenes
        for scene, panels in enumerate(discovery_rows(images, truth, part.output, background_labels)):
            left = MARGIN + _NAME + scene * (wide + _BETWEEN)
            for column, panel in enumerate((*panels[:2], *panels[-2:])):
                show(figure, Rect(left + column * (_SIDE + GAP), top, _SIDE, _SIDE), panel)
    return figure


@torch.no_grad()
def main() -> None:
    options = tyro.cli(Gallery, prog="python -m tools.gallery")
    sets = []
    for name in (name for name in ORDER if name in shipped_names()):
        trained = open_model(name)
        scenes = pick(open_split(trained.preset.data, "validation"), options.scenes, options.first)
        sets.append(PredictedScenes(name, scenes, trained.model(scenes.images)))
    save(gallery_figure(sets), options.out)
    print(f"{options.out}: {options.scenes} validation scenes of {len(sets)} data sets")


if __name__ == "__main__":
    main()
