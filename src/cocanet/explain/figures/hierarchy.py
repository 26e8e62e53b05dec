"""The clustering steps of each level in one image: anchors, scopes, affinities and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.explain.figures.canvas import (
    GAP,
    INK,
    MARGIN,
    PAGE_WIDTH,
    SMALL,
    TITLE,
    Panel,
    Rect,
    draw_colour_bar,
    draw_window_borders,
    main_axes,
    new_figure,
    over_white,
    rgb,
    show,
    write,
)
from cocanet.explain.figures.colours import PALETTE, slot_numbers, to_colours
from cocanet.explain.steps import ClusteringSteps, clustering_steps, select_image, window_cells
from cocanet.functional.resizing import shrink
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.coca_net import as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.models.output import Level, Output
from cocanet.words import plural

_PARTS = ("scope", "affinity", "cluster")
_BETWEEN = 0.34
_LEGEND = 1.25
_DOT = PALETTE[0]
_DOTTED = 100
"""With more windows than this, dots would cover a small panel."""
_NUMBERED = 0.2
"""Smallest window, in inches, whose anchors are numbered."""


def hierarchy_figure(
    images: Float[Tensor, "b 3 h w"],
    output: Output,
    index: int = 0,
    truth: Int[Tensor, "b h w"] | None = None,
    background_labels: int = 1,
) -> Figure:
    """One image through the hierarchy, a column for each level.

    On top are the level's clusters in the mean colour of their pixels, or on the last level the slots in the colours
    of `discovery_grid`. Numbers or dots mark the anchors of each window. Below, step by step, are the scope before an
    anchor was chosen, the anchor's affinity mask, and the resulting cluster.
    """
    if not output.levels:
        raise ValueError("this model has no hierarchy to draw")
    image, levels = rgb(images[index]), select_image(output.levels, index)
    cells = rgb(shrink(images[index].unsqueeze(0), levels[0].grid).squeeze(0))
    stride = len(image) // len(cells)
    steps = [clustering_steps(levels, number) for number in range(len(levels))]
    slots = _colour_slots(output, index, None if truth is None else truth[index], background_labels)
    layout = _Layout.of(image.shape[0] / image.shape[1], [level.used for level in steps])
    figure = new_figure(layout.left(layout.columns) - _BETWEEN + MARGIN, layout.bottom)
    write(figure, layout.left(0) + layout.big[0] / 2, TITLE / 2, "image")
    show(figure, Rect(layout.left(0), TITLE, *layout.big), image)
    _draw_legend(figure, layout)
    for number, level in enumerate(steps):
        window = window_cells(levels, number)
        rect = Rect(layout.left(number + 1), TITLE, *layout.big)
        write(figure, rect.left + rect.width / 2, TITLE / 2, _title(levels, number, level.used))
        last = number == len(levels) - 1
        clusters = slots[::stride, ::stride] if last else mean_colours(cells, level.clusters, window)
        panel = show(figure, rect, clusters)
        _draw_anchors(figure, panel, level, window)
        _draw_steps(figure, layout, number + 1, level, cells)
    return figure


class _Layout(NamedTuple):
    """Columns of a big panel over rows of three small ones; sizes are (width, height) in inches."""

    big: tuple[float, float]
    small: tuple[float, float]
    steps: int
    columns: int

    @classmethod
    def of(cls, aspect: float, steps: Sequence[int]) -> _Layout:
        columns = len(steps) + 1
        available = (PAGE_WIDTH - 2 * MARGIN - (columns - 1) * _BETWEEN) / columns
        width = min(0.75, (available - 2 * GAP) / 3)
        small = (width, width * aspect)
        return cls((3 * small[0] + 2 * GAP, 3 * small[1] + 2 * GAP), small, max(steps), columns)

    @property
    def top(self) -> float:
        """Where the first step begins."""
        return TITLE + self.big[1] + TITLE

    @property
    def bottom(self) -> float:
        return self.top + max(self.steps * (self.small[1] + GAP) - GAP, _LEGEND) + MARGIN

    def left(self, column: int) -> float:
        return MARGIN + column * (self.big[0] + _BETWEEN)

    def step(self, column: int, row: int, part: int) -> Rect:
        width, height = self.small
        return Rect(self.left(column) + part * (width + GAP), self.top + row * (height + GAP), width, height)


def mean_colours(
    image: Float[np.ndarray, "h w 3"], clusters: Float[np.ndarray, "k h w"], window: Window
) -> Float[np.ndarray, "h w 3"]:
    """Each cluster of each window in the mean colour of its pixels."""
    rows, columns = np.indices(image.shape[:2])
    place = rows // window[0] * (image.shape[1] // window[1]) + columns // window[1]
    cluster = place * len(clusters) + clusters.argmax(0)
    count = np.bincount(cluster.ravel())
    sums = [np.bincount(cluster.ravel(), channel.ravel()) for channel in np.moveaxis(image, -1, 0)]
    return np.asarray((np.stack(sums, -1) / np.maximum(count, 1)[:, None])[cluster])


def _colour_slots(
    output: Output, index: int, truth: Int[Tensor, "h w"] | None, background_labels: int
) -> Float[np.ndarray, "h w 3"]:
    labels = [hard_labels(masks)[index] for masks in (output.decoder_masks, output.encoder_masks)]
    numbers = slot_numbers(labels, output.encoder_masks.shape[1], truth, background_labels)[1]
    return to_colours(numbers[labels[1].cpu().numpy()])


def _title(levels: Sequence[Level], number: int, steps: int) -> str:
    last = number == len(levels) - 1
    count, noun = (steps, "slot") if last else (levels[number].clusters.masks.shape[1], "window")
    return f"level {number + 1}: {plural(count, noun)}"


def _draw_anchors(figure: Figure, panel: Panel, steps: ClusteringSteps, window: Window) -> None:
    """Window borders, and dots at the anchors, with numbers where windows are large enough."""
    side = min(panel.rect.height * window[0] / panel.rows, panel.rect.width * window[1] / panel.columns)
    numbered = side >= _NUMBERED
    draw_window_borders(figure, panel, window, 0.5 if numbered else 0.25)
    for order, anchors in enumerate(steps.anchors.transpose(1, 0, 2), 1):
        positions = panel.to_inches(anchors[~np.isnan(anchors[:, 0])])
        if not numbered:
            _draw_dots(figure, positions, min(1.5, 72 * side / 6), colour=_DOT)
            continue
        size = min(9.0, 72 * side / 3.2)
        _draw_dots(figure, positions, size, colour="white", border=INK, over=order)
        for right, down in positions:
            digit = main_axes(figure).text(right, down, str(order), fontsize=0.75 * size, color=INK, zorder=2 + order)
            digit.set(ha="center", va="center_baseline")


def _draw_dots(
    figure: Figure,
    positions: Float[np.ndarray, "m 2"],
    size: float,
    colour: Any,
    border: str | None = None,
    over: int = 0,
) -> None:
    """Dots of `size` points; those of later anchors lie over earlier ones."""
    right, down = positions.T
    edge = {"edgecolor": border, "linewidth": 0.4} if border else {"linewidth": 0}
    main_axes(figure).scatter(right, down, s=size**2, color=[colour], zorder=2 + over, **edge)


def _draw_steps(
    figure: Figure, layout: _Layout, column: int, steps: ClusteringSteps, image: Float[np.ndarray, "h w 3"]
) -> None:
    """A row for each step of a level."""
    for part, title in enumerate(_PARTS):
        rect = layout.step(column, 0, part)
        write(figure, rect.left + rect.width / 2, rect.top - TITLE / 2, title, SMALL)
    windows, anchors = len(steps.anchors), steps.used - 1
    for step in range(steps.used):
        scope, affinity, cluster = (layout.step(column, step, part) for part in range(3))
        name = str(step + 1) if step < anchors else "last"
        write(figure, scope.left - GAP, scope.top + scope.height / 2, name, SMALL, align="right")
        panels = [show(figure, scope, steps.scopes[step])]
        if step < anchors:
            panels.append(show(figure, affinity, steps.affinities[step]))
            for panel in panels if windows <= _DOTTED else ():
                positions = panel.to_inches(steps.anchors[:, step])
                _draw_dots(figure, positions, 3.4 if windows == 1 else 1.2, _DOT, "white" if windows == 1 else None)
        show(figure, cluster, over_white(image, steps.clusters[step]))


def _draw_legend(figure: Figure, layout: _Layout) -> None:
    """What the panels of the steps show, under the image."""
    left, top = layout.left(0), layout.top
    bar = Rect(left + 0.08, top, layout.big[0] - 0.16, 0.09)
    draw_colour_bar(figure, bar, "gray", "scope, affinity", vertical=False)
    lines = (
        "1, 2, …: anchors in order",
        "scope: not yet clustered",
        "affinity: to the anchor (dot)",
        "cluster: scope × affinity",
        "last: the remaining scope",
    )
    for number, line in enumerate(lines):
        write(figure, left, top + 0.55 + 0.15 * number, line, SMALL, align="left")


def draw_hierarchy(
    model: ObjectModel, images: Float[Tensor, "b 3 h w"], truth: Int[Tensor, "b h w"] | None, background_labels: int
) -> Figure:
    """The hierarchy of the first image."""
    as_coca_net(model, "the hierarchy figure")
    return hierarchy_figure(images, model(images), 0, truth, background_labels)
