"""`python -m tools.outlines WEIGHTS DATA …`: segments of photographs, with the outlines of the true objects.

DATA is a folder with a store `validation`; WEIGHTS and DATA alternate. Of each set three photographs are drawn, which a
tenth, three tenths and half of the others score less than. Only segments are drawn: photographs belong to their
publishers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from jaxtyping import Float, Float64, Int64
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.data.loader import Loader, LoaderConfig
from cocanet.data.splits import at_size, open_split
from cocanet.evaluate.baselines import encoder_labels
from cocanet.explain.figures.canvas import INK, image_table, main_axes, save
from cocanet.explain.figures.colours import slot_numbers, to_colours
from cocanet.io.trained import open_model
from cocanet.metrics.functional.contingency import contingency
from cocanet.metrics.functional.covering import segmentation_covering

SHARES = (0.1, 0.3, 0.5)
_WIDTH, _LINE = 1.1, 0.9
BATCH = 16


class Found(NamedTuple):
    """The true objects of photographs, their segments, and the mean IoU of the objects with their best segments."""

    truth: Int64[Tensor, "b h w"]
    segments: Int64[Tensor, "b h w"]
    scores: Float64[Tensor, " b"]

    def at(self, indices: list[int]) -> Found:
        return Found(*(each[indices] for each in self))


@dataclass(frozen=True)
class Outlines:
    sets: tyro.conf.Positional[tuple[tuple[str, Path], ...]]
    """Weights and the folder of their data, one after the other."""
    out: Path = Path("docs/images/photographs.png")


@torch.inference_mode()
def find(weights: str, data: Path) -> Found:
    """Segments of all validation photographs."""
    trained = open_model(weights)
    preset = trained.preset
    images = at_size(open_split(preset.data, "validation", data), preset.model.image_size, preset.data, data)
    segment = encoder_labels(trained.model)
    loader = Loader(images, LoaderConfig(BATCH, shuffle=False, drop_last=False))
    pairs = [(batch.labels, segment(batch.images)) for batch in loader.epoch()]
    truth, segments = (torch.cat(each) for each in zip(*pairs, strict=True))
    table = contingency(truth, segments, None, preset.model.slots)
    return Found(truth, segments, segmentation_covering(table, ignored=images.background_labels))


def ranked(scores: Float64[Tensor, " n"], shares: tuple[float, ...] = SHARES) -> list[int]:
    """The images that these shares of the others score less than."""
    order = scores[~scores.isnan()].argsort(stable=True)
    known = (~scores.isnan()).nonzero().squeeze(1)
    return [int(known[order[int(share * len(order))]]) for share in shares]


def outlines_figure(sets: list[Found]) -> Figure:
    """A column for each photograph, with its IoU; the true objects are outlined."""
    shown = [(each, index) for each in sets for index in range(len(each.scores))]
    panels = [coloured(each.truth[index], each.segments[index]) for each, index in shown]
    figure = image_table([f"{each.scores[index]:.2f}" for each, index in shown], [panels], _WIDTH)
    axes = main_axes(figure)
    for picture, (each, index) in zip(list(axes.images), shown, strict=True):
        truth = each.truth[index].numpy()
        left, right, bottom, top = picture.get_extent()
        columns, rows = (
            np.linspace(*ends, 2 * count + 1)[1::2]
            for ends, count in (((left, right), truth.shape[1]), ((top, bottom), truth.shape[0]))
        )
        for label in range(1, int(truth.max()) + 1):
            axes.contour(columns, rows, truth == label, [0.5], colors=INK, linewidths=_LINE)
    return figure


def coloured(truth: Int64[Tensor, "h w"], segments: Int64[Tensor, "h w"]) -> Float[np.ndarray, "h w 3"]:
    (numbers,) = slot_numbers([segments], int(segments.max()) + 1, truth, 1)
    return to_colours(numbers[segments.numpy()])


def main() -> None:
    chosen = tyro.cli(Outlines, prog="python -m tools.outlines")
    found = [find(weights, data) for weights, data in chosen.sets]
    save(outlines_figure([each.at(ranked(each.scores)) for each in found]), chosen.out)
    print(f"{chosen.out}: {len(SHARES)} photographs of each of {len(found)} sets")


if __name__ == "__main__":
    main()
