"""Several data sets in one picture: what was there, what was painted and what was found (the paper's Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.figures.canvas import GAP, MARGIN, TITLE, Box, blank, show, write
from cocanet.figures.grid import discovery_rows
from cocanet.models.output import Output

_SIDE = 0.86
_BETWEEN = 0.14
_NAME = 1.1
"""Inches on the left for the names of the sets."""
COLUMNS = ("image", "painted", "decoder", "encoder")


class Discovered(NamedTuple):
    """Scenes of one data set, and what a model found in them."""

    name: str
    images: Float[Tensor, "b 3 h w"]
    truth: Int[Tensor, "b h w"] | None
    output: Output
    background_labels: int = 1


def gallery_figure(sets: Sequence[Discovered]) -> Figure:
    """A row for each set with its scenes side by side: image, reconstruction, decoder masks, encoder masks.

    Colours are those of `discovery_grid`: the true segments choose them, and are not shown.
    """
    if not sets:
        raise ValueError("a gallery needs at least one data set")
    scenes = max(len(part.images) for part in sets)
    wide = len(COLUMNS) * (_SIDE + GAP)
    figure = blank(
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
        for scene, pictures in enumerate(discovery_rows(part.images, part.truth, part.output, part.background_labels)):
            left = MARGIN + _NAME + scene * (wide + _BETWEEN)
            for column, picture in enumerate((*pictures[:2], *pictures[-2:])):
                show(figure, Box(left + column * (_SIDE + GAP), top, _SIDE, _SIDE), picture)
    return figure
