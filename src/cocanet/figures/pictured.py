"""Images to draw, and what a trained model makes of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from cocanet.data.splits import at_size, open_split
from cocanet.data.views import Images
from cocanet.figures import KINDS
from cocanet.figures.images import Pictured
from cocanet.figures.saving import check_format, save
from cocanet.files import check_folder_writable
from cocanet.models.model import ObjectModel
from cocanet.runs.folder import trained_on
from cocanet.watch import QUIET, Watcher
from cocanet.weights import open_model
from cocanet.words import plural


def save_figure(
    kind: str,
    weights: Path | str,
    *,
    data: Path | None = None,
    count: int | None = None,
    first: int = 0,
    out: Path | None = None,
    watcher: Watcher = QUIET,
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
    shuffle = own is not None and own.shuffle
    images = open_split(trained.preset.data, "validation", folder, watcher=watcher, shuffle=shuffle)
    images = at_size(images, trained.preset.model.image_size, trained.preset.data, folder)
    pictured = pick(images, count, first)
    save(draw(kind, trained.model, pictured), out)
    watcher.say(f"{out}: {kind} of {plural(len(pictured.images), 'image')} through {trained.path}")
    return out


def pick(images: Images, count: int, first: int) -> Pictured:
    """`count` images of a split from `first` on, or as many as there are."""
    if not 0 <= first < len(images):
        raise ValueError(f"cannot show images from {first} on: there are {len(images)}, counted from 0")
    bytes_, labels = images.gather(np.arange(first, min(first + count, len(images))))
    planes = torch.from_numpy(bytes_).permute(0, 3, 1, 2).float() / 255
    truth = torch.from_numpy(labels).long() if images.has_labels else None
    return Pictured(planes, truth, images.background_labels)


@torch.no_grad()
def draw(kind: str, model: ObjectModel, pictured: Pictured) -> Figure:
    """One of the pictures of `KINDS`."""
    figure: Figure = import_module(KINDS[kind].module).draw(model, pictured)
    return figure


def _check_count(kind: str, count: int | None) -> int:
    if kind not in KINDS:
        raise ValueError(f"there is no figure {kind!r}; expected one of {', '.join(KINDS)}")
    if count is None:
        return KINDS[kind].count
    if count < 1:
        raise ValueError(f"expected a count of at least 1; got {count}")
    if KINDS[kind].one_image and count > 1:
        raise ValueError(f"a {kind} figure shows one image; got a count of {count}: choose the image with --first")
    return count
