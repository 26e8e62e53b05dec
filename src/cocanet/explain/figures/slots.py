"""Image and mask of each slot, as the decoder makes them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.explain.figures.canvas import (
    GAP,
    MARGIN,
    PAGE_WIDTH,
    SMALL,
    TITLE,
    Rect,
    array,
    new_figure,
    over_white,
    rgb,
    show,
    write,
)
from cocanet.explain.figures.colours import slot_numbers, to_colours
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

_LEFT_TITLES = ("image", "reconstruction", "masks")
_RIGHT_TITLES = ("slot image", "mask", "masked")
_WIDTH, _LABEL, _BETWEEN = 0.9, 0.17, 0.16


def slots_figure(
    images: Float[Tensor, "b 3 h w"],
    output: Output,
    truth: Int[Tensor, "b h w"] | None = None,
    background_labels: int = 1,
) -> Figure:
    """For each image three rows: slot images, decoder masks, and slot images masked over white.

    To the left are the image, the reconstruction and all masks together. A slot's border has the colour of its mask,
    that of `discovery_grid`. Slots that an image does not use stay blank.
    """
    slots = 1 + int(output.in_use.any(0).nonzero().max())
    available = PAGE_WIDTH - 2 * MARGIN - 2 * _LABEL - _BETWEEN
    width = min(_WIDTH, available / (slots + 1) - GAP)
    height = width * images.shape[-2] / images.shape[-1]
    first = MARGIN + _LABEL + width + _BETWEEN
    block = 3 * (height + GAP) + _BETWEEN
    right = first + slots * (width + GAP)
    figure = new_figure(right + _LABEL + MARGIN, TITLE + len(images) * block - _BETWEEN - GAP + MARGIN)
    for slot in range(slots):
        write(figure, first + slot * (width + GAP) + width / 2, TITLE / 2, f"slot {slot + 1}")
    for index, image in enumerate(images):
        top = TITLE + index * block
        labels = hard_labels(output.decoder_masks[index : index + 1])[0]
        known = None if truth is None else truth[index]
        (numbers,) = slot_numbers([labels], output.decoder_masks.shape[1], known, background_labels)
        colours = to_colours(numbers)
        left_panels = [rgb(image), rgb(output.reconstruction[index]), colours[labels.cpu().numpy()]]
        for row, (panel, name, part) in enumerate(zip(left_panels, _LEFT_TITLES, _RIGHT_TITLES, strict=True)):
            rect = Rect(MARGIN + _LABEL, top + row * (height + GAP), width, height)
            show(figure, rect, panel)
            write(figure, MARGIN + _LABEL / 2, rect.top + height / 2, name, SMALL, turn=90.0)
            write(figure, right + _LABEL / 2, rect.top + height / 2, part, SMALL, turn=90.0)
        for slot in output.in_use[index].nonzero().flatten().tolist():
            rect = Rect(first + slot * (width + GAP), top, width, height)
            slot_image, mask = output.slot_images[index, slot], output.decoder_masks[index, slot]
            _draw_slot(figure, rect, rgb(slot_image), array(mask), colours[slot])
    return figure


def _draw_slot(
    figure: Figure,
    rect: Rect,
    image: Float[np.ndarray, "h w 3"],
    mask: Float[np.ndarray, "h w"],
    colour: Float[np.ndarray, "3"],
) -> None:
    for row, panel in enumerate((image, mask, over_white(image, mask))):
        place = rect._replace(top=rect.top + row * (rect.height + GAP))
        show(figure, place, panel, border=tuple(colour), thickness=1.2)


def draw_slots(
    model: ObjectModel, images: Float[Tensor, "b 3 h w"], truth: Int[Tensor, "b h w"] | None, background_labels: int
) -> Figure:
    return slots_figure(images, model(images), truth, background_labels)
