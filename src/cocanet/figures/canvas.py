"""Sheets of many panels, placed by inches from the top left corner.

All panels share one Axes that covers the figure: an Axes for each would take longer than everything in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from cocanet.config.windows import Window

PAGE = 7.0
"""Width of a paper's page in inches; no picture is wider."""
MARGIN, GAP, TITLE = 0.08, 0.05, 0.24
SMALL, NORMAL = 7.0, 8.5
INK, RIM = "0.15", "0.7"


class Box(NamedTuple):
    """Where a panel lies, in inches from the top left corner."""

    left: float
    top: float
    width: float
    height: float


class Panel(NamedTuple):
    """A picture on the sheet, and its size in pixels."""

    box: Box
    rows: int
    columns: int

    def on_sheet(self, places: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 2"]:
        """Inches to the right and down of places given as row and column of the picture, 0 for a pixel's middle."""
        box = self.box
        right = box.left + (places[:, 1] + 0.5) * box.width / self.columns
        down = box.top + (places[:, 0] + 0.5) * box.height / self.rows
        return np.stack((right, down), -1)


def blank(width: float, height: float) -> Figure:
    """An empty sheet."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, width), ylim=(height, 0))
    axis.set_axis_off()
    axis.autoscale(False)
    return figure


def sheet(figure: Figure) -> Axes:
    """What everything is drawn on, in inches."""
    return figure.axes[0]


def write(
    figure: Figure,
    left: float,
    top: float,
    text: str,
    size: float = NORMAL,
    *,
    align: str = "center",
    turn: float = 0.0,
) -> None:
    """A line of text whose middle is `top` inches down."""
    sheet(figure).text(left, top, text, fontsize=size, color=INK, ha=align, va="center", rotation=turn)


def show(
    figure: Figure,
    box: Box,
    picture: Shaped[np.ndarray, "h w *rgb"],
    colours: str = "gray",
    *,
    rim: object = RIM,
    thick: float = 0.4,
) -> Panel:
    """A picture in a frame: colours, or values from 0 to 1 in a colour map."""
    extent = (box.left, box.left + box.width, box.top + box.height, box.top)
    axis = sheet(figure)
    axis.imshow(picture, interpolation="nearest", cmap=colours, vmin=0, vmax=1, aspect="auto", extent=extent)
    frame = Rectangle((box.left, box.top), box.width, box.height, fill=False, edgecolor=rim, linewidth=thick)  # type: ignore[arg-type]
    axis.add_patch(frame)
    return Panel(box, *picture.shape[:2])


def rule(figure: Figure, panel: Panel, window: Window, thick: float) -> None:
    """Thin white lines between the windows of a picture, each of `window` pixels."""
    rows, columns = np.arange(window[0], panel.rows, window[0]), np.arange(window[1], panel.columns, window[1])
    across = [[(row, 0), (row, panel.columns)] for row in rows]
    down = [[(0, column), (panel.rows, column)] for column in columns]
    lines = [panel.on_sheet(np.array(line) - 0.5) for line in across + down]
    sheet(figure).add_collection(LineCollection(lines, colors="white", linewidths=thick))


def colour_bar(figure: Figure, box: Box, colours: str, label: str, upright: bool = True, over: bool = False) -> None:
    """A scale from 0 to 1; `over` says that larger values are shown like 1."""
    width, height = figure.get_size_inches()
    place = (box.left / width, 1 - (box.top + box.height) / height, box.width / width, box.height / height)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), colours),
        cax=figure.add_axes(place),
        orientation="vertical" if upright else "horizontal",
        extend="max" if over else "neither",
        ticks=[0, 0.5, 1],
    )
    bar.set_label(label, fontsize=SMALL, color=INK, labelpad=2)
    bar.ax.tick_params(labelsize=SMALL, length=2, colors=INK, pad=1.5)
    bar.outline.set(linewidth=0.4, edgecolor=RIM)  # type: ignore[operator]


def array(values: Shaped[Tensor, "*shape"]) -> Shaped[np.ndarray, "*shape"]:
    return np.asarray(values.detach().cpu().numpy())


def pixels(image: Float[Tensor, "3 h w"]) -> Float[np.ndarray, "h w 3"]:
    """A picture as matplotlib wants it."""
    return array(image.clamp(0, 1).permute(1, 2, 0))


def over_white(picture: Float[np.ndarray, "h w 3"], mask: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w 3"]:
    """The part of a picture that a mask holds, on white paper."""
    return np.asarray(1 - mask[..., None] * (1 - picture))
