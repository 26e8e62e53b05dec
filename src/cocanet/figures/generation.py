"""Photographs, what was found in them, and what the slots alone tell of them (supplement, Figure 5)."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from cocanet.figures.canvas import GAP, MARGIN, TITLE, Box, blank, pixels, show, write
from cocanet.figures.colours import known_truth, paint, slot_numbers
from cocanet.figures.images import Pictured
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output
from cocanet.models.tokens import TokenDecoder

TITLES = ("photograph", "encoder masks", "told token by token", "from the slots alone")
_SIDE, _TINT = 1.3, 0.55


def generation_figure(pictured: Pictured, output: Output, generated: torch.Tensor) -> Figure:
    """A row for each image: itself, tinted by its segments, the picture whose tokens were told after the true ones,
    and the one in which every token was told after those told before."""
    images, truth, background_labels = pictured
    height, width = _SIDE * images.shape[-2] / images.shape[-1], _SIDE
    figure = blank(2 * MARGIN + len(TITLES) * (width + GAP) - GAP, TITLE + len(images) * (height + GAP) - GAP + MARGIN)
    for column, title in enumerate(TITLES):
        write(figure, MARGIN + column * (width + GAP) + width / 2, TITLE / 2, title)
    found, slots = hard_labels(output.encoder_masks), output.encoder_masks.shape[1]
    for row, image in enumerate(images):
        labels = None if truth is None else known_truth(truth[row])
        (numbers,) = slot_numbers([found[row]], slots, labels, background_labels)
        picture = pixels(image)
        tinted = (1 - _TINT) * picture + _TINT * paint(numbers[found[row].cpu().numpy()])
        shown = (picture, tinted, pixels(output.reconstruction[row]), pixels(generated[row]))
        for column, panel in enumerate(shown):
            show(figure, Box(MARGIN + column * (width + GAP), TITLE + row * (height + GAP), width, height), panel)
    return figure


def draw(model: ObjectModel, pictured: Pictured) -> Figure:
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, TokenDecoder):
        raise ValueError("the generation figure needs a decoder by tokens; this model paints each slot by itself")
    output = model(pictured.images)
    return generation_figure(pictured, output, decoder.generate(output.slots, output.in_use))
