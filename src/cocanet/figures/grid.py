"""The paper's Figure 3: what was there, what was painted, and what was found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.figures.canvas import GAP, MARGIN, NORMAL, TITLE, Box, blank, pixels, show, write
from cocanet.figures.colours import known_truth, paint, slot_numbers, truth_numbers
from cocanet.figures.images import Pictured
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output

_SIDE = 1.3


def discovery_grid(
    images: Float[Tensor, "b 3 h w"],
    truth: Int[Tensor, "b h w"] | None,
    output: Output,
    background_labels: int = 1,
    *,
    captions: Sequence[str] | None = None,
) -> Figure:
    """Rows of image, reconstruction, true segments, and the segments of decoder and encoder (Figure 3).

    An object has one colour in a row; the segment that overlaps the background most is grey. Without a truth there is
    no column of it, the encoder's colours follow the decoder's, and the decoder's largest segment is taken for the
    background. A caption stands over its row.
    """
    if captions is not None and len(captions) != len(images):
        raise ValueError(f"expected a caption for each of {len(images)} images; got {len(captions)}")
    titles = ["image", "reconstruction", *["truth"] * (truth is not None), "decoder masks", "encoder masks"]
    height, width = _SIDE * images.shape[-2] / images.shape[-1], _SIDE
    step = height + GAP + (TITLE if captions is not None else 0)
    figure = blank(2 * MARGIN + len(titles) * (width + GAP) - GAP, TITLE + len(images) * step - GAP + MARGIN)
    for column, title in enumerate(titles):
        write(figure, MARGIN + column * (width + GAP) + width / 2, TITLE / 2, title)
    for row, pictures in enumerate(discovery_rows(images, truth, output, background_labels)):
        top = TITLE + row * step
        if captions is not None:
            write(figure, MARGIN, top + TITLE / 2, captions[row], NORMAL - 1, align="left")
            top += TITLE
        for column, picture in enumerate(pictures):
            show(figure, Box(MARGIN + column * (width + GAP), top, width, height), picture)
    return figure


def discovery_rows(
    images: Float[Tensor, "b 3 h w"],
    truth: Int[Tensor, "b h w"] | None,
    output: Output,
    background_labels: int,
) -> list[list[Float[np.ndarray, "h w 3"]]]:
    """For each image its panels: image, reconstruction, true segments if they are known, decoder and encoder masks.

    Where only some images have a truth, the others have white in its place.
    """
    decoder, encoder = hard_labels(output.decoder_masks), hard_labels(output.encoder_masks)
    slots = output.decoder_masks.shape[1]
    rows = []
    for index, image in enumerate(images):
        pictures = [pixels(image), pixels(output.reconstruction[index])]
        labels = None if truth is None else known_truth(truth[index])
        if truth is not None:
            white = np.ones_like(pictures[0])
            pictures.append(white if labels is None else paint(truth_numbers(labels, background_labels)))
        found = [decoder[index], encoder[index]]
        for segments, numbers in zip(found, slot_numbers(found, slots, labels, background_labels), strict=True):
            pictures.append(paint(numbers[segments.cpu().numpy()]))
        rows.append(pictures)
    return rows


def draw(model: ObjectModel, pictured: Pictured) -> Figure:
    images, truth, background_labels = pictured
    return discovery_grid(images, truth, model(images), background_labels)
