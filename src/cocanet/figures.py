"""Pictures of what a model found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from cocanet.metrics.functional.contingency import hard_labels
from cocanet.models.output import Output

BACKGROUND = (0.45, 0.45, 0.45)
PALETTE = np.array(
    [
        (0.90, 0.29, 0.23), (0.20, 0.60, 0.86), (0.95, 0.77, 0.06), (0.18, 0.70, 0.44), (0.61, 0.35, 0.71),
        (0.95, 0.55, 0.15), (0.10, 0.74, 0.71), (0.91, 0.47, 0.71), (0.55, 0.76, 0.29), (0.36, 0.42, 0.75),
        (0.75, 0.60, 0.42),
    ]
)  # fmt: skip


def colour_segments(labels: Int[Tensor, "h w"], background: Sequence[int] = ()) -> Float[np.ndarray, "h w 3"]:
    """A colour for each label, grey for the background ones."""
    count = int(labels.max()) + 1
    colours = np.zeros((count, 3))
    shown = [label for label in range(count) if label not in background]
    colours[shown] = PALETTE[np.arange(len(shown)) % len(PALETTE)]
    colours[[label for label in background if label < count]] = BACKGROUND
    return np.asarray(colours[labels.cpu().numpy()])


def background_slot(segments: Int[Tensor, "h w"], truth: Int[Tensor, "h w"], background_labels: int) -> int:
    """The predicted segment that covers most of the true background."""
    covered = segments[truth < background_labels]
    return int(covered.bincount().argmax()) if covered.numel() else -1


def discovery_grid(
    images: Float[Tensor, "b 3 h w"],
    truth: Int[Tensor, "b h w"],
    output: Output,
    background_labels: int,
) -> Figure:
    """Rows of image, reconstruction, true segments, and the segments of decoder and encoder (Figure 3)."""
    titles = ("image", "reconstruction", "truth", "decoder masks", "encoder masks")
    count = len(images)
    figure = Figure(figsize=(1.5 * len(titles), 1.5 * count + 0.35), layout="constrained")
    axes = figure.subplots(count, len(titles), squeeze=False)
    found = [hard_labels(masks) for masks in (output.decoder_masks, output.encoder_masks)]
    for index in range(count):
        pictures = [x[index].permute(1, 2, 0).cpu().numpy() for x in (images, output.reconstruction)]
        pictures.append(colour_segments(truth[index], range(background_labels)))
        for segments in found:
            grey = background_slot(segments[index], truth[index], background_labels)
            pictures.append(colour_segments(segments[index], [grey]))
        for axis, picture, title in zip(axes[index], pictures, titles, strict=True):
            axis.imshow(picture, interpolation="nearest")
            axis.set_axis_off()
            if index == 0:
                axis.set_title(title, fontsize=10)
    return figure


def save(figure: Figure, path: Path, dpi: int = 120) -> None:
    """Write a picture so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    figure.savefig(partial, dpi=dpi, format=path.suffix.lstrip(".") or "png")
    partial.replace(path)
