"""Figures of many panels, placed in inches from the top left corner, and their files.

All panels share one Axes that covers the figure; one Axes for each would be much slower to draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
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
from cocanet.files import write_atomically

FORMATS = ("png", "pdf", "svg")
PAGE_WIDTH = 7.0
"""Width of a paper's page in inches; no figure is wider."""
MARGIN, GAP, TITLE = 0.08, 0.05, 0.24
SMALL, NORMAL = 7.0, 8.5
INK, BORDER = "0.15", "0.7"


class Rect(NamedTuple):
    """A rectangle in inches from the top left corner."""

    left: float
    top: float
    width: float
    height: float


class Panel(NamedTuple):
    """An image on the figure, and its size in pixels."""

    rect: Rect
    rows: int
    columns: int

    def to_inches(self, positions: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 2"]:
        """Inches to the right and down of positions given as row and column; whole numbers are centres of pixels."""
        left, top, width, height = self.rect
        right = left + (positions[:, 1] + 0.5) * width / self.columns
        down = top + (positions[:, 0] + 0.5) * height / self.rows
        return np.stack((right, down), -1)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    axes.autoscale(False)
    return figure


def main_axes(figure: Figure) -> Axes:
    """The Axes that covers the figure, in inches."""
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
    """Write a line of text, centred vertically at `top`."""
    main_axes(figure).text(left, top, text, fontsize=size, color=INK, ha=align, va="center", rotation=turn)


def show(
    figure: Figure,
    rect: Rect,
    image: Shaped[np.ndarray, "h w *rgb"],
    colours: str = "gray",
    *,
    border: object = BORDER,
    thickness: float = 0.4,
) -> Panel:
    """Draw an image with a border: RGB, or values from 0 to 1 in a colour map."""
    left, top, width, height = rect
    axes = main_axes(figure)
    extent = (left, left + width, top + height, top)
    axes.imshow(image, interpolation="nearest", cmap=colours, vmin=0, vmax=1, aspect="auto", extent=extent)
    axes.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=border, linewidth=thickness))  # type: ignore[arg-type]
    return Panel(rect, *image.shape[:2])


def image_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[np.ndarray]],
    width: float,
    *,
    captions: Sequence[str] | None = None,
    space_right: float = 0.0,
    colours: str = "gray",
) -> Figure:
    """A table of images, each `width` inches wide, under column titles; a caption stands over its row."""
    tall, wide = rows[0][0].shape[:2]
    height = width * tall / wide
    step = height + GAP + (TITLE if captions is not None else 0)
    figure = new_figure(
        2 * MARGIN + len(titles) * (width + GAP) - GAP + space_right, TITLE + len(rows) * step - GAP + MARGIN
    )
    lefts = [MARGIN + column * (width + GAP) for column in range(len(titles))]
    for left, title in zip(lefts, titles, strict=True):
        write(figure, left + width / 2, TITLE / 2, title)
    for number, images in enumerate(rows):
        top = TITLE + number * step
        if captions is not None:
            write(figure, MARGIN, top + TITLE / 2, captions[number], NORMAL - 1, align="left")
            top += TITLE
        for left, image in zip(lefts, images, strict=True):
            show(figure, Rect(left, top, width, height), image, colours)
    return figure


def draw_window_borders(figure: Figure, panel: Panel, window: Window, thickness: float) -> None:
    """Thin white lines between windows of `window` pixels."""
    rows, columns = np.arange(window[0], panel.rows, window[0]), np.arange(window[1], panel.columns, window[1])
    across = [[(row, 0), (row, panel.columns)] for row in rows]
    down = [[(0, column), (panel.rows, column)] for column in columns]
    lines = [panel.to_inches(np.array(line) - 0.5) for line in across + down]
    main_axes(figure).add_collection(LineCollection(lines, colors="white", linewidths=thickness))


def draw_colour_bar(
    figure: Figure, rect: Rect, colours: str, label: str, *, vertical: bool = True, extend: bool = False
) -> None:
    """A colour bar from 0 to 1; `extend` marks that larger values have the colour of 1."""
    width, height = figure.get_size_inches()
    place = (rect.left / width, 1 - (rect.top + rect.height) / height, rect.width / width, rect.height / height)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), colours),
        cax=figure.add_axes(place),
        orientation="vertical" if vertical else "horizontal",
        extend="max" if extend else "neither",
        ticks=[0, 0.5, 1],
    )
    bar.set_label(label, fontsize=SMALL, color=INK, labelpad=2)
    bar.ax.tick_params(labelsize=SMALL, length=2, colors=INK, pad=1.5)
    bar.outline.set(linewidth=0.4, edgecolor=BORDER)  # type: ignore[operator]


def array(values: Shaped[Tensor, "*shape"]) -> Shaped[np.ndarray, "*shape"]:
    return np.asarray(values.detach().cpu().numpy())


def rgb(image: Float[Tensor, "3 h w"]) -> Float[np.ndarray, "h w 3"]:
    """An image as matplotlib expects it, with colours clamped to [0, 1]."""
    return array(image.clamp(0, 1).permute(1, 2, 0))


def over_white(image: Float[np.ndarray, "h w 3"], mask: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w 3"]:
    """An image masked over white."""
    return np.asarray(1 - mask[..., None] * (1 - image))


def check_format(path: Path) -> str:
    """The format that a file's suffix names."""
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise ValueError(f"cannot write a figure to {path}: expected a file that ends in .png, .pdf or .svg")
    return suffix


def save(figure: Figure, path: Path, dpi: int = 200) -> None:
    """Write a figure atomically, in the format of the file's suffix."""
    content = BytesIO()
    figure.savefig(content, dpi=dpi, format=check_format(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [content.getbuffer()])
