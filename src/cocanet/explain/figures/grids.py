"""Tables of images, a row for each image: masks (the paper's Figure 3), compactness (Figure 1), generation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.explain.compactness import CompactnessMaps, compactness_maps
from cocanet.explain.figures.canvas import (
    GAP,
    MARGIN,
    PAGE_WIDTH,
    TITLE,
    Rect,
    array,
    draw_colour_bar,
    image_table,
    rgb,
)
from cocanet.explain.figures.colours import known_truth, slot_numbers, to_colours, truth_numbers
from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.coca_net import as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.models.output import Output
from cocanet.models.tokens import TokenDecoder

COMPACTNESS_COLOURS = "viridis"
"""Deep purple for scattered masks to bright yellow for compact ones, as in the paper."""
GENERATION_TITLES = ("image", "encoder masks", "teacher forcing", "from slots alone")
_WIDTH, _TINT, _BAR = 1.3, 0.55, 0.59


def discovery_grid(
    images: Float[Tensor, "b 3 h w"],
    truth: Int[Tensor, "b h w"] | None,
    output: Output,
    background_labels: int = 1,
    *,
    captions: Sequence[str] | None = None,
) -> Figure:
    """Image, reconstruction, ground truth, and the segments of decoder and encoder (Figure 3).

    An object has one colour in a row; the segment that overlaps the background most is grey. Without ground truth its
    column is left out, the encoder's colours follow the decoder's, and the decoder's largest segment is grey.
    """
    if captions is not None and len(captions) != len(images):
        raise ValueError(f"expected a caption for each of {len(images)} images; got {len(captions)}")
    titles = ["image", "reconstruction", *["truth"] * (truth is not None), "decoder masks", "encoder masks"]
    return image_table(titles, discovery_rows(images, truth, output, background_labels), _WIDTH, captions=captions)


def discovery_rows(
    images: Float[Tensor, "b 3 h w"],
    truth: Int[Tensor, "b h w"] | None,
    output: Output,
    background_labels: int,
) -> list[list[Float[np.ndarray, "h w 3"]]]:
    """The panels of `discovery_grid`; the ground truth of an image without labels is white."""
    decoder, encoder = hard_labels(output.decoder_masks), hard_labels(output.encoder_masks)
    slots = output.decoder_masks.shape[1]
    rows = []
    for index, image in enumerate(images):
        panels = [rgb(image), rgb(output.reconstruction[index])]
        labels = None if truth is None else known_truth(truth[index])
        if truth is not None:
            white = np.ones_like(panels[0])
            panels.append(white if labels is None else to_colours(truth_numbers(labels, background_labels)))
        predicted = [decoder[index], encoder[index]]
        for segments, numbers in zip(predicted, slot_numbers(predicted, slots, labels, background_labels), strict=True):
            panels.append(to_colours(numbers[segments.cpu().numpy()]))
        rows.append(panels)
    return rows


def compactness_figure(images: Float[Tensor, "b 3 h w"], maps: CompactnessMaps) -> Figure:
    """Image, compactness on each level, and compactness of the objects' masks (Figure 1)."""
    titles = ["image", *(f"level {number}" for number in range(1, len(maps.levels) + 1)), "objects"]
    columns = [[rgb(image) for image in images], *(list(array(x)) for x in (*maps.levels, maps.objects))]
    width = min(1.45, (PAGE_WIDTH - 2 * MARGIN - _BAR) / len(titles) - GAP)
    rows = list(zip(*columns, strict=True))
    figure = image_table(titles, rows, width, space_right=_BAR, colours=COMPACTNESS_COLOURS)
    wide, tall = figure.get_size_inches()
    available = tall - TITLE - MARGIN
    height = min(available, 2.2)
    rect = Rect(wide - _BAR, TITLE + (available - height) / 2, 0.1, height)
    draw_colour_bar(figure, rect, COMPACTNESS_COLOURS, "compactness", extend=True)
    return figure


def generation_figure(
    images: Float[Tensor, "b 3 h w"],
    truth: Int[Tensor, "b h w"] | None,
    output: Output,
    generated: Float[Tensor, "b 3 h w"],
    background_labels: int = 1,
) -> Figure:
    """Image, its segments, and two reconstructions of a token decoder (supplement, Figure 5).

    With teacher forcing each token is predicted from the true tokens before it; from slots alone, from the predicted
    tokens before it.
    """
    labels, slots = hard_labels(output.encoder_masks), output.encoder_masks.shape[1]
    rows = []
    for index, image in enumerate(images):
        known = None if truth is None else known_truth(truth[index])
        (numbers,) = slot_numbers([labels[index]], slots, known, background_labels)
        tinted = (1 - _TINT) * rgb(image) + _TINT * to_colours(numbers[labels[index].cpu().numpy()])
        rows.append([rgb(image), tinted, rgb(output.reconstruction[index]), rgb(generated[index])])
    return image_table(GENERATION_TITLES, rows, _WIDTH)


def draw_grid(
    model: ObjectModel, images: Float[Tensor, "b 3 h w"], truth: Int[Tensor, "b h w"] | None, background_labels: int
) -> Figure:
    return discovery_grid(images, truth, model(images), background_labels)


def draw_compactness(
    model: ObjectModel, images: Float[Tensor, "b 3 h w"], truth: Int[Tensor, "b h w"] | None, background_labels: int
) -> Figure:
    return compactness_figure(images, compactness_maps(as_coca_net(model, "the compactness figure"), images))


def draw_generation(
    model: ObjectModel, images: Float[Tensor, "b 3 h w"], truth: Int[Tensor, "b h w"] | None, background_labels: int
) -> Figure:
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, TokenDecoder):
        raise ValueError("the generation figure needs a token decoder; this model has a spatial broadcast decoder")
    output = model(images)
    generated = decoder.generate(output.slots, output.in_use)
    return generation_figure(images, truth, output, generated, background_labels)
