"""How objects are put together, level by level: every anchor, what it took, and what it left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.config.windows import Window
from cocanet.explain.choices import Choices, level_choices
from cocanet.explain.nodes import of_one_image, window_cells
from cocanet.figures.canvas import (
    GAP,
    INK,
    MARGIN,
    PAGE,
    SMALL,
    TITLE,
    Box,
    Panel,
    array,
    blank,
    colour_bar,
    over_white,
    pixels,
    rule,
    sheet,
    show,
    write,
)
from cocanet.figures.colours import PALETTE, paint, slot_numbers
from cocanet.figures.images import Pictured
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
"""With more windows than this a small panel would be all dots."""
_NUMBERED = 0.2
"""Windows smaller than this many inches have no room for the numbers of their anchors."""


def hierarchy_figure(
    images: Float[Tensor, "b 3 h w"],
    output: Output,
    index: int = 0,
    truth: Int[Tensor, "b h w"] | None = None,
    background_labels: int = 1,
) -> Figure:
    """One image through the hierarchy, a column for each level.

    On top is what the level made: clusters in the mean colour of their pixels, or on the last level the slots in the
    colours of `discovery_grid`, with numbers where the anchors of each window lie. Below, step by step, are the scope
    that was left when an anchor was chosen, the anchor's affinity mask, and the cluster it became. With top-down
    feedback one more column has the slots as they were corrected, and each slot's mask before and after.
    """
    if not output.levels:
        raise ValueError("this model has no hierarchy to draw")
    picture, levels = pixels(images[index]), of_one_image(output.levels, index)
    cells = pixels(shrink(images[index].unsqueeze(0), levels[0].grid).squeeze(0))
    choices = [level_choices(levels, number) for number in range(len(levels))]
    slots = _paint_slots(output, index, None if truth is None else truth[index], background_labels)
    corrected = output.masks_from_below is not None and output.masks_from_below is not output.encoder_masks
    steps = [choice.steps for choice in choices]
    layout = _Layout.of(picture.shape[0] / picture.shape[1], steps + [int(output.in_use[index].sum())] * corrected)
    figure = blank(layout.left(layout.columns) - _BETWEEN + MARGIN, layout.bottom)
    write(figure, layout.left(0) + layout.big[0] / 2, TITLE / 2, "image")
    show(figure, Box(layout.left(0), TITLE, *layout.big), picture)
    _explain(figure, layout)
    for number, choice in enumerate(choices):
        window = window_cells(levels, number)
        box = Box(layout.left(number + 1), TITLE, *layout.big)
        last = number == len(levels) - 1
        write(figure, box.left + box.width / 2, TITLE / 2, _title(levels, number, choice.steps))
        every = len(picture) // len(cells)
        made = slots.from_below[::every, ::every] if last else mean_colours(cells, choice.clusters, window)
        panel = show(figure, box, made)
        _draw_anchors(figure, panel, choice, window)
        _draw_steps(figure, layout, number + 1, choice, cells)
    if corrected:
        _draw_feedback(figure, layout, output, index, picture, slots.corrected)
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
        room = (PAGE - 2 * MARGIN - (columns - 1) * _BETWEEN) / columns
        width = min(0.75, (room - 2 * GAP) / 3)
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

    def step(self, column: int, row: int, part: int) -> Box:
        width, height = self.small
        return Box(self.left(column) + part * (width + GAP), self.top + row * (height + GAP), width, height)


def mean_colours(
    picture: Float[np.ndarray, "h w 3"], clusters: Float[np.ndarray, "k h w"], window: Window
) -> Float[np.ndarray, "h w 3"]:
    """Each cluster of each window in the mean colour of the pixels that are mostly its own."""
    rows, columns = np.indices(picture.shape[:2])
    place = rows // window[0] * (picture.shape[1] // window[1]) + columns // window[1]
    cluster = place * len(clusters) + clusters.argmax(0)
    count = np.bincount(cluster.ravel())
    sums = [np.bincount(cluster.ravel(), channel.ravel()) for channel in np.moveaxis(picture, -1, 0)]
    return np.asarray((np.stack(sums, -1) / np.maximum(count, 1)[:, None])[cluster])


class _Slots(NamedTuple):
    """The slots in colours, as the hierarchy made them and as feedback left them."""

    from_below: Float[np.ndarray, "h w 3"]
    corrected: Float[np.ndarray, "h w 3"]


def _paint_slots(output: Output, index: int, truth: Int[Tensor, "h w"] | None, background_labels: int) -> _Slots:
    found = [hard_labels(masks)[index] for masks in (output.decoder_masks, output.encoder_masks)]
    numbers = slot_numbers(found, output.encoder_masks.shape[1], truth, background_labels)[1]
    made = output.encoder_masks if output.masks_from_below is None else output.masks_from_below
    return _Slots(*(paint(numbers[owner.cpu().numpy()]) for owner in (hard_labels(made)[index], found[1])))


def _draw_feedback(
    figure: Figure,
    layout: _Layout,
    output: Output,
    index: int,
    picture: Float[np.ndarray, "h w 3"],
    slots: Float[np.ndarray, "h w 3"],
) -> None:
    """The last column: corrected slots, and a row for each with its mask before and after."""
    assert output.masks_from_below is not None
    column, used = layout.columns - 1, output.in_use[index]
    box = Box(layout.left(column), TITLE, *layout.big)
    write(figure, box.left + box.width / 2, TITLE / 2, "feedback from the slots")
    show(figure, box, slots)
    _write_parts(figure, layout, column, ("before", "after", "slot"))
    before, after = (array(masks[index][used]) for masks in (output.masks_from_below, output.encoder_masks))
    for row, masks in enumerate(zip(before, after, strict=True)):
        boxes = [layout.step(column, row, part) for part in range(3)]
        write(figure, boxes[0].left - GAP, boxes[0].top + boxes[0].height / 2, str(row + 1), SMALL, align="right")
        for place, mask in zip(boxes, masks, strict=False):
            show(figure, place, mask)
        show(figure, boxes[2], over_white(picture, masks[1]))


def _write_parts(figure: Figure, layout: _Layout, column: int, titles: Sequence[str]) -> None:
    for part, title in enumerate(titles):
        box = layout.step(column, 0, part)
        write(figure, box.left + box.width / 2, box.top - TITLE / 2, title, SMALL)


def _title(levels: Sequence[Level], number: int, steps: int) -> str:
    last = number == len(levels) - 1
    count, what = (steps, "slot") if last else (levels[number].clusters.masks.shape[1], "window")
    return f"level {number + 1}: {plural(count, what)}"


def _draw_anchors(figure: Figure, panel: Panel, choice: Choices, window: Window) -> None:
    """Window borders, and dots at the anchors; with numbers where there is room."""
    side = min(panel.box.height * window[0] / panel.rows, panel.box.width * window[1] / panel.columns)
    numbered = side >= _NUMBERED
    rule(figure, panel, window, 0.5 if numbered else 0.25)
    for order, places in enumerate(choice.anchors.transpose(1, 0, 2), 1):
        places = panel.on_sheet(places[~np.isnan(places[:, 0])])
        if not numbered:
            _draw_dots(figure, places, min(1.5, 72 * side / 6), colour=_DOT)
            continue
        size = min(9.0, 72 * side / 3.2)
        _draw_dots(figure, places, size, colour="white", rim=INK, over=order)
        for right, down in places:
            digit = sheet(figure).text(right, down, str(order), fontsize=0.75 * size, color=INK, zorder=2 + order)
            digit.set(ha="center", va="center_baseline")


def _draw_dots(
    figure: Figure, places: Float[np.ndarray, "m 2"], size: float, colour: Any, rim: str | None = None, over: int = 0
) -> None:
    """Dots of `size` points; a later anchor's lie over those before."""
    right, down = places.T
    edge = {"edgecolor": rim, "linewidth": 0.4} if rim else {"linewidth": 0}
    sheet(figure).scatter(right, down, s=size**2, color=[colour], zorder=2 + over, **edge)


def _draw_steps(
    figure: Figure, layout: _Layout, column: int, choice: Choices, picture: Float[np.ndarray, "h w 3"]
) -> None:
    """A row for each step of a level."""
    _write_parts(figure, layout, column, _PARTS)
    windows, rest = len(choice.anchors), choice.steps - 1
    for step in range(choice.steps):
        scope, affinity, cluster = (layout.step(column, step, part) for part in range(3))
        name = str(step + 1) if step < rest else "rest"
        write(figure, scope.left - GAP, scope.top + scope.height / 2, name, SMALL, align="right")
        panels = [show(figure, scope, choice.scopes[step])]
        if step < rest:
            panels.append(show(figure, affinity, choice.affinities[step]))
            for panel in panels if windows <= _DOTTED else ():
                places = panel.on_sheet(choice.anchors[:, step])
                _draw_dots(figure, places, 3.4 if windows == 1 else 1.2, _DOT, "white" if windows == 1 else None)
        show(figure, cluster, over_white(picture, choice.clusters[step]))


def _explain(figure: Figure, layout: _Layout) -> None:
    """What the panels of the steps show, under the image."""
    left, top = layout.left(0), layout.top
    colour_bar(figure, Box(left + 0.08, top, layout.big[0] - 0.16, 0.09), "gray", "scope, affinity", upright=False)
    lines = (
        "1, 2, …: anchors in order",
        "scope: still to be taken",
        "affinity: to the anchor (dot)",
        "cluster: scope × affinity",
        "rest: taken by no anchor",
    )
    for number, line in enumerate(lines):
        write(figure, left, top + 0.55 + 0.15 * number, line, SMALL, align="left")


def draw(model: ObjectModel, pictured: Pictured) -> Figure:
    """The hierarchy of the first image."""
    as_coca_net(model, "the hierarchy figure")
    images, truth, background_labels = pictured
    return hierarchy_figure(images, model(images), 0, truth, background_labels)
