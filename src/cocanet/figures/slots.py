"""Each slot's own picture: what the decoder paints with it, and where that counts."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.figures.canvas import (
    GAP,
    MARGIN,
    PAGE,
    SMALL,
    TITLE,
    Box,
    array,
    blank,
    over_white,
    pixels,
    show,
    write,
)
from cocanet.figures.colours import paint, slot_numbers
from cocanet.figures.images import Pictured
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

_WHOLE = ("image", "mixture", "masks")
_SLOT = ("painted", "mask", "masked")
_SIDE, _LABEL, _BETWEEN = 0.9, 0.17, 0.16


def slots_figure(
    images: Float[Tensor, "b 3 h w"],
    output: Output,
    truth: Int[Tensor, "b h w"] | None = None,
    background_labels: int = 1,
) -> Figure:
    """For each image three rows: each slot's picture, its decoder mask, and the picture where the mask holds it.

    To the left are the image, the mixture of all slots and their masks together. A slot is framed in its colour among
    the masks, that of `discovery_grid`; a slot that an image does not use is left blank.
    """
    slots = 1 + int(output.in_use.any(0).nonzero().max())
    room = PAGE - 2 * MARGIN - 2 * _LABEL - _BETWEEN
    width = min(_SIDE, room / (slots + 1) - GAP)
    height = width * images.shape[-2] / images.shape[-1]
    first = MARGIN + _LABEL + width + _BETWEEN
    block = 3 * (height + GAP) + _BETWEEN
    right = first + slots * (width + GAP)
    figure = blank(right + _LABEL + MARGIN, TITLE + len(images) * block - _BETWEEN - GAP + MARGIN)
    for slot in range(slots):
        write(figure, first + slot * (width + GAP) + width / 2, TITLE / 2, f"slot {slot + 1}")
    for index, image in enumerate(images):
        top = TITLE + index * block
        colours = _slot_colours(output, index, None if truth is None else truth[index], background_labels)
        whole = [pixels(image), pixels(output.reconstruction[index]), colours[_segments(output, index)]]
        for row, (picture, name, part) in enumerate(zip(whole, _WHOLE, _SLOT, strict=True)):
            box = Box(MARGIN + _LABEL, top + row * (height + GAP), width, height)
            show(figure, box, picture)
            write(figure, MARGIN + _LABEL / 2, box.top + height / 2, name, SMALL, turn=90.0)
            write(figure, right + _LABEL / 2, box.top + height / 2, part, SMALL, turn=90.0)
        for slot in output.in_use[index].nonzero().flatten().tolist():
            box = Box(first + slot * (width + GAP), top, width, height)
            _draw_slot(figure, box, output, index, slot, colours[slot])
    return figure


def _draw_slot(figure: Figure, box: Box, output: Output, index: int, slot: int, colour: Float[np.ndarray, "3"]) -> None:
    painted, mask = pixels(output.slot_images[index, slot]), array(output.decoder_masks[index, slot])
    for row, picture in enumerate((painted, mask, over_white(painted, mask))):
        place = box._replace(top=box.top + row * (box.height + GAP))
        show(figure, place, picture, rim=tuple(colour), thick=1.2)


def _segments(output: Output, index: int) -> Int[np.ndarray, "h w"]:
    return np.asarray(hard_labels(output.decoder_masks[index : index + 1])[0].cpu().numpy())


def _slot_colours(
    output: Output, index: int, truth: Int[Tensor, "h w"] | None, background_labels: int
) -> Float[np.ndarray, "k 3"]:
    found = hard_labels(output.decoder_masks[index : index + 1])
    return paint(slot_numbers([found[0]], output.decoder_masks.shape[1], truth, background_labels)[0])


def draw(model: ObjectModel, pictured: Pictured) -> Figure:
    images, truth, background_labels = pictured
    return slots_figure(images, model(images), truth, background_labels)
