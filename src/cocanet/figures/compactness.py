"""The paper's Figure 1: how compact the mask of every pixel is."""

from __future__ import annotations

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.explain.compactness import CompactnessMaps, compactness_maps
from cocanet.figures.canvas import GAP, MARGIN, PAGE, TITLE, Box, array, blank, colour_bar, pixels, show, write
from cocanet.figures.images import Pictured
from cocanet.models.coca_net import as_coca_net
from cocanet.models.model import ObjectModel

COLOURS = "viridis"
"""Deep purple for scattered masks to bright yellow for compact ones, as in the paper."""


def compactness_figure(images: Float[Tensor, "b 3 h w"], maps: CompactnessMaps) -> Figure:
    """Rows of image, compactness on each level, and compactness of the objects' masks, yellow for the most compact."""
    titles = ["image", *(f"level {number}" for number in range(1, len(maps.levels) + 1)), "objects"]
    columns = [[pixels(image) for image in images], *(list(array(x)) for x in (*maps.levels, maps.objects))]
    bar = 0.62
    width = min(1.45, (PAGE - 2 * MARGIN - bar) / len(titles) - GAP)
    height = width * images.shape[-2] / images.shape[-1]
    down = len(images) * (height + GAP) - GAP
    right = MARGIN + len(titles) * (width + GAP)
    figure = blank(right + bar, TITLE + down + MARGIN)
    for number, (title, pictures) in enumerate(zip(titles, columns, strict=True)):
        left = MARGIN + number * (width + GAP)
        write(figure, left + width / 2, TITLE / 2, title)
        for row, picture in enumerate(pictures):
            show(figure, Box(left, TITLE + row * (height + GAP), width, height), picture, COLOURS)
    tall = min(down, 2.2)
    colour_bar(figure, Box(right + 0.05, TITLE + (down - tall) / 2, 0.1, tall), COLOURS, "compactness", over=True)
    return figure


def draw(model: ObjectModel, pictured: Pictured) -> Figure:
    net = as_coca_net(model, "the compactness figure")
    return compactness_figure(pictured.images, compactness_maps(net, pictured.images))
