"""Figures of a trained model: choose images, predict, draw and save."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.data.splits import at_size, open_split
from cocanet.data.views import Images
from cocanet.explain.figures import KINDS
from cocanet.explain.figures.canvas import check_format, save
from cocanet.files import check_folder_writable
from cocanet.io.run_folder import trained_on
from cocanet.io.trained import open_model
from cocanet.models.model import ObjectModel
from cocanet.progress import QUIET, Progress
from cocanet.words import plural, unknown


class FigureImages(NamedTuple):
    """Images that a figure shows, with their ground truth if it is known."""

    images: Float[Tensor, "b 3 h w"]
    truth: Int[Tensor, "b h w"] | None = None
    background_labels: int = 1


def save_figure(
    kind: str,
    weights: Path | str,
    *,
    data: Path | None = None,
    count: int | None = None,
    first: int = 0,
    out: Path | None = None,
    progress: Progress = QUIET,
) -> Path:
    """Draw what a trained model predicts for images of the store at `data`, or of its preset's validation split."""
    out = Path(f"{kind}.png") if out is None else out
    check_format(out)
    if out.is_dir():
        raise ValueError(f"cannot write a figure to {out}: it is a folder")
    check_folder_writable(out.parent)
    count = _check_count(kind, count)
    trained = open_model(weights)
    folder = data or trained_on(weights)
    images = open_split(trained.preset.data, "validation", folder, progress=progress)
    images = at_size(images, trained.preset.model.image_size, trained.preset.data, folder)
    chosen = pick(images, count, first)
    save(draw(kind, trained.model, chosen), out)
    progress.say(f"{out}: {kind} of {plural(len(chosen.images), 'image')}, weights {trained.path}")
    return out


def pick(images: Images, count: int, first: int) -> FigureImages:
    """`count` images of a split from `first` on, or as many as there are."""
    if not 0 <= first < len(images):
        raise ValueError(f"cannot show images from {first} on: there are {len(images)}, counted from 0")
    bytes_, labels = images.gather(np.arange(first, min(first + count, len(images))))
    planes = torch.from_numpy(bytes_).permute(0, 3, 1, 2).float() / 255
    truth = torch.from_numpy(labels).long() if images.has_labels else None
    return FigureImages(planes, truth, images.background_labels)


@torch.no_grad()
def draw(kind: str, model: ObjectModel, chosen: FigureImages) -> Figure:
    """One of the figures of `KINDS`."""
    module = import_module(f"cocanet.explain.figures.{KINDS[kind].module}")
    figure: Figure = getattr(module, KINDS[kind].function)(model, *chosen)
    return figure


def _check_count(kind: str, count: int | None) -> int:
    if kind not in KINDS:
        raise ValueError(unknown("figure", kind, list(KINDS)))
    if count is None:
        return KINDS[kind].count
    if count < 1:
        raise ValueError(f"expected a count of at least 1; got {count}")
    if KINDS[kind].one_image and count > 1:
        raise ValueError(f"a {kind} figure shows one image; got a count of {count}: choose the image with --first")
    return count
