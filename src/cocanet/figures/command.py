"""What `coca figure` does."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.data.splits import at_size, open_split
from cocanet.data.views import Images
from cocanet.figures.compactness import compactness_figure, compactness_maps
from cocanet.figures.grid import discovery_grid
from cocanet.figures.hierarchy import hierarchy_figure
from cocanet.figures.save import check_format, save
from cocanet.figures.slots import slots_figure
from cocanet.files import check_folder_writable
from cocanet.models.coca_net import as_coca_net
from cocanet.models.model import ObjectModel
from cocanet.runs.folder import trained_on
from cocanet.weights import open_model
from cocanet.words import plural

Kind = Literal["grid", "hierarchy", "compactness", "slots"]
COUNTS: dict[Kind, int] = {"grid": 6, "hierarchy": 1, "compactness": 6, "slots": 3}
"""How many images a picture shows unless told."""


class Pictured(NamedTuple):
    """Images to draw, with their true segments if those are known."""

    images: Float[Tensor, "b 3 h w"]
    truth: Int[Tensor, "b h w"] | None = None
    background_labels: int = 1


def save_figure(
    kind: Kind,
    weights: Path | str,
    *,
    data: Path | None = None,
    count: int | None = None,
    first: int = 0,
    out: Path | None = None,
) -> Path:
    """Draw what a trained model makes of images: of the store at `data`, or of its preset's validation split."""
    out = Path(f"{kind}.png") if out is None else out
    check_format(out)
    if out.is_dir():
        raise ValueError(f"cannot write a picture to {out}: it is a folder")
    check_folder_writable(out.parent)
    count = _check_count(kind, count)
    trained = open_model(weights)
    own = trained_on(weights)
    folder = data or (own.path if own else None)
    images = open_split(trained.preset.data, "validation", folder, shuffle=own is not None and own.shuffle)
    images = at_size(images, trained.preset.model.image_size, trained.preset.data, folder)
    pictured = pick(images, count, first)
    save(draw(kind, trained.model, pictured), out)
    print(f"{out}: {kind} of {plural(len(pictured.images), 'image')} through {trained.path}")
    return out


def pick(images: Images, count: int, first: int) -> Pictured:
    """So many images of a split from `first` on, or as many as there are."""
    if not 0 <= first < len(images):
        raise ValueError(f"cannot show images from {first} on: there are {len(images)}, counted from 0")
    bytes_, labels = images.gather(np.arange(first, min(first + count, len(images))))
    planes = torch.from_numpy(bytes_).permute(0, 3, 1, 2).float() / 255
    truth = torch.from_numpy(labels).long() if images.has_labels else None
    return Pictured(planes, truth, images.background_labels)


@torch.no_grad()
def draw(kind: Kind, model: ObjectModel, pictured: Pictured) -> Figure:
    """One of the pictures; the hierarchy is that of the first image."""
    images, truth, background_labels = pictured
    if kind == "compactness":
        return compactness_figure(images, compactness_maps(as_coca_net(model, "the compactness figure"), images))
    output = model(images)
    if kind == "grid":
        return discovery_grid(images, truth, output, background_labels)
    if kind == "hierarchy":
        as_coca_net(model, "the hierarchy figure")
        return hierarchy_figure(images, output, 0, truth, background_labels)
    return slots_figure(images, output, truth, background_labels)


def _check_count(kind: Kind, count: int | None) -> int:
    if kind not in COUNTS:
        raise ValueError(f"there is no figure {kind!r}; expected one of {', '.join(get_args(Kind))}")
    if count is None:
        return COUNTS[kind]
    if count < 1:
        raise ValueError(f"expected a count of at least 1; got {count}")
    if kind == "hierarchy" and count > 1:
        raise ValueError(f"a hierarchy figure shows one image; got a count of {count}: choose the image with --first")
    return count
