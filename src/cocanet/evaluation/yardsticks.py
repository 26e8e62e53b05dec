"""What anybody has without training: rows to judge a model by, on the very images that it is scored on.

Clusters of colours, the encoder before it learned anything, a disc in the middle, what feedback makes of the middle
without any encoder, and one mask for everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from cocanet.config import CocaNetConfig, Preset
from cocanet.data.loader import Batch
from cocanet.evaluation.result import Yardstick
from cocanet.functional.feedback import correct_masks
from cocanet.functional.palettes import middle_first
from cocanet.metrics.functional.contingency import contingency, hard_labels, is_labelled
from cocanet.metrics.scores import score_masks
from cocanet.metrics.table import TABLE
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.models.model import ObjectModel

CLUSTERED_SIDE = 64
"""Pixels a side, at most, that colours are clustered of; every pixel of the image then joins the nearest colour."""
CANDIDATES, MOST_ROUNDS = 32, 50
DISC_RADIUS = 0.25
"""Of the image's shorter side."""
SEED = 0
"""Of the weights that have not learned anything."""

Segment = Callable[[Float[Tensor, "b 3 h w"]], Int64[Tensor, "b h w"]]


class Way(NamedTuple):
    """A way to segment an image into some number of segments."""

    name: str
    title: str
    segment: Segment


class Judged(NamedTuple):
    """A way's scores on every image; NaN where an image has nothing to score."""

    name: str
    title: str
    per_image: dict[str, Float64[Tensor, " n"]]
    labelled: Bool[Tensor, " n"]

    def yardstick(self, *, compat: bool = False) -> Yardstick:
        """Its means; with `compat` an image without foreground counts as in the paper's code."""
        scores = {}
        for name, values in self.per_image.items():
            known = values[self.labelled]
            known = known.nan_to_num(TABLE[f"encoder_{name}"].empty) if compat else known[~known.isnan()]
            scores[name] = float(known.mean()) if len(known) else None
        return Yardstick(self.name, self.title, scores)


def ways(preset: Preset, device: torch.device | str = "cpu") -> list[Way]:
    """All yardsticks of a model; colours are clustered in two and in as many as it has slots."""
    model = preset.model
    dynamic = model.dynamic if isinstance(model, CocaNetConfig) else None
    slots = dynamic.most if dynamic else model.slots
    return [
        *(clusters_of_colours(count) for count in dict.fromkeys((2, slots))),
        untrained_encoder(preset, device),
        Way("disc", "central disc", central_disc),
        *([feedback_from_the_middle(preset)] if preset.train.figure else []),
        Way("whole", "one mask for everything", lambda images: torch.zeros_like(images[:, 0], dtype=torch.int64)),
    ]


@torch.inference_mode()
def judge(ways: Sequence[Way], batches: Iterable[Batch], background_labels: int) -> list[Judged]:
    """Score each way on all images."""
    rows: list[list[Float64[Tensor, "_ scores"]]] = [[] for _ in ways]
    known, names = [], []
    for batch in batches:
        labelled = is_labelled(batch.labels)
        truth = batch.labels * labelled[:, None, None]
        known.append(labelled.cpu())
        for row, way in zip(rows, ways, strict=True):
            found = way.segment(batch.images)
            table = contingency(truth, found, None, int(found.max()) + 1)
            scores = score_masks(table, background_labels)
            names = list(scores)
            row.append(torch.stack(list(scores.values()), 1).masked_fill(~labelled[:, None], torch.nan).cpu())
    columns = [dict(zip(names, torch.cat(row).unbind(1), strict=True)) for row in rows]
    return [Judged(way.name, way.title, scores, torch.cat(known)) for way, scores in zip(ways, columns, strict=True)]


def clusters_of_colours(count: int) -> Way:
    """k-means of the colours of each image alone."""

    def segment(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
        height, width = images.shape[-2:]
        small = F.interpolate(images, (min(height, CLUSTERED_SIDE), min(width, CLUSTERED_SIDE)), mode="area")
        centres = kmeans(_points(small), count)
        return _nearest(_points(images), centres).view(-1, height, width)

    return Way(f"kmeans{count}", f"k-means of colours, {count}", segment)


def untrained_encoder(preset: Preset, device: torch.device | str = "cpu") -> Way:
    """The encoder of a preset as it begins."""
    model = build(preset, seed=SEED).to(device).eval()

    def segment(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
        return hard_labels(_encoder_masks(model, images))

    return Way("untrained", f"untrained encoder of {preset.name}", segment)


def central_disc(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
    """1 within a quarter of the shorter side from the middle."""
    height, width = images.shape[-2:]
    rows, columns = (torch.arange(side, device=images.device) + 0.5 - side / 2 for side in (height, width))
    inside = rows[:, None].square() + columns.square() <= (DISC_RADIUS * min(height, width)) ** 2
    return inside.long().expand(len(images), -1, -1)


def feedback_from_the_middle(preset: Preset) -> Way:
    """What an encoder that learns a figure is taught at first: feedback of a blob in the middle, two slots."""
    model, spread = preset.model, preset.train.figure_spread
    assert isinstance(model, CocaNetConfig), "a preset checks that"

    def segment(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
        begun = middle_first(torch.full_like(images[:, :2], 0.5), spread, trust=0.0)
        used = torch.ones(len(images), 2, dtype=torch.bool, device=images.device)
        return hard_labels(correct_masks(begun, images, used, **asdict(model.feedback)))

    return Way("middle", "feedback from the middle", segment)


def kmeans(points: Float[Tensor, "b n d"], count: int) -> Float[Tensor, "b k d"]:
    """Centres of clusters by Lloyd's algorithm, the same each time (see `first_centres`); an empty one stays put."""
    centres = first_centres(points, count)
    for _ in range(MOST_ROUNDS):
        members = F.one_hot(_nearest(points, centres), count).to(points.dtype)
        sizes = members.sum(1).unsqueeze(2)
        moved = torch.where(sizes > 0, members.transpose(1, 2) @ points / sizes.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres


def first_centres(points: Float[Tensor, "b n d"], count: int) -> Float[Tensor, "b k d"]:
    """Where Lloyd's algorithm begins: k-means++ without its dice.

    Each centre is the one that leaves the smallest error, of candidates that are evenly spaced from dark to bright.
    """
    places = (2 * torch.arange(CANDIDATES, device=points.device) + 1) * points.shape[1] // (2 * CANDIDATES)
    from_dark = points.sum(2).argsort(dim=1, stable=True)[:, places]
    candidates = points.gather(1, from_dark.unsqueeze(2).expand(-1, -1, points.shape[2]))
    errors = torch.cdist(points, candidates).square()
    left, chosen, each = torch.full_like(errors[..., 0], torch.inf), [], torch.arange(len(points), device=points.device)
    for _ in range(count):
        best = torch.minimum(left.unsqueeze(2), errors).sum(1).argmin(1)
        left = torch.minimum(left, errors[each, :, best])
        chosen.append(candidates[each, best])
    return torch.stack(chosen, 1)


def _points(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b n 3"]:
    return images.flatten(2).transpose(1, 2).contiguous()


def _nearest(points: Float[Tensor, "b n d"], centres: Float[Tensor, "b k d"]) -> Int64[Tensor, "b n"]:
    """The nearest centre of each point, the first of several that are as near."""
    return (centres.square().sum(2).unsqueeze(1) - 2 * points @ centres.transpose(1, 2)).min(2).indices


def _encoder_masks(model: ObjectModel, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b k h w"]:
    return model.encode(images).masks if isinstance(model, CocaNet) else model(images).encoder_masks
