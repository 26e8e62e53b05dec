"""Non-learned baselines, scored on the same images as a model.

k-means of colours, Felzenszwalb's segments, GrabCut from a central box, the untrained encoder, a central disc for
images of one object, and one mask for the whole image.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from cocanet.config import CocaNetConfig, FeatureBackboneConfig, Preset, RefineConfig
from cocanet.data.colour_clusters import CLUSTERED_SIDE, kmeans, nearest, pixel_colours, shrink
from cocanet.data.loader import Batch
from cocanet.evaluate.evaluation import Baseline
from cocanet.evaluate.feature_baselines import feature_methods
from cocanet.evaluate.methods import Method, Segment
from cocanet.extras import extra
from cocanet.metrics.functional.contingency import contingency, hard_labels, is_labelled
from cocanet.metrics.functional.discovery import localised
from cocanet.metrics.scores import score_masks
from cocanet.metrics.table import TABLE
from cocanet.models.build import build
from cocanet.models.coca_net import CocaNet
from cocanet.models.model import ObjectModel
from cocanet.models.output import Encoding
from cocanet.models.pretrained import PretrainedFeatures
from cocanet.refine import refine

DISC_RADIUS = 0.25
"""Share of the image's shorter side."""
SEED = 0
"""Seed of the untrained weights, and of GrabCut."""
SCALES = tuple(2.0**power for power in range(-2, 11))
"""Scales among which Felzenszwalb's algorithm finds one, on at most `TUNED_ON` images."""
TUNED_ON, LEAST_SEGMENT = 16, 0.01
GRABCUT_ROUNDS = 5


class BaselineScores(NamedTuple):
    """Scores of a baseline on every image; NaN where an image has nothing to score."""

    name: str
    title: str
    per_image: dict[str, Float64[Tensor, " n"]]
    labelled: Bool[Tensor, " n"]

    def means(self, paper_empty_foreground: bool = False) -> Baseline:
        """Means over the images that have a score; images without foreground may count as in the paper's code."""
        scores = {}
        for name, values in self.per_image.items():
            known = values[self.labelled]
            if paper_empty_foreground:
                known = known.nan_to_num(TABLE[f"encoder_{name}"].empty)
            known = known[~known.isnan()]
            scores[name] = float(known.mean()) if len(known) else None
        return Baseline(self.name, self.title, scores)


def methods(
    preset: Preset,
    device: torch.device | str = "cpu",
    *,
    single: bool = False,
    refined: bool = False,
    sample: Float[Tensor, "b 3 h w"] | None = None,
) -> list[Method]:
    """All baselines of a model; k-means has two clusters, and as many as the model has slots.

    Felzenszwalb's and GrabCut need scikit-image and OpenCV, the extra `baselines`, and are left out without.

    Images of one object (`single`) have the central disc too. With `refined` the untrained encoder's masks are refined
    like those of the model. A model of frozen features has baselines of these features; k-means over the data set
    finds its centres by the images `sample`.
    """
    model = preset.model
    dynamic = model.dynamic if isinstance(model, CocaNetConfig) else None
    slots = dynamic.max_slots if dynamic else model.slots
    backbone = getattr(model, "backbone", None)
    of_features: list[Method] = []
    if isinstance(backbone, FeatureBackboneConfig) and sample is not None:
        of_features = feature_methods(PretrainedFeatures(backbone), slots, sample)
    return [
        *(colour_clusters(count) for count in dict.fromkeys((2, slots))),
        *([felzenszwalb_segments(slots)] if find_spec("skimage") else []),
        *([Method("grabcut", "GrabCut from a central box", grabcut)] if find_spec("cv2") else []),
        *of_features,
        untrained_encoder(preset, device, refined=refined),
        *([Method("disc", "central disc", central_disc)] if single else []),
        Method("whole", "one mask for the whole image", lambda images: torch.zeros_like(images[:, 0]).long()),
    ]


@torch.inference_mode()
def score_baselines(
    methods: Sequence[Method], batches: Iterable[Batch], background_labels: int
) -> list[BaselineScores]:
    """Score each method on all images."""
    rows: list[list[Float64[Tensor, "_ scores"]]] = [[] for _ in methods]
    known, names = [], []
    for batch in batches:
        labelled = is_labelled(batch.labels)
        truth = batch.labels * labelled[:, None, None]
        known.append(labelled.cpu())
        for row, method in zip(rows, methods, strict=True):
            found = method.segment(batch.images)
            table = contingency(truth, found, None, int(found.max()) + 1)
            scores = score_masks(table, background_labels)
            scores["corloc"] = localised(truth, found, table.shape[2], background_labels)
            names = list(scores)
            row.append(torch.stack(list(scores.values()), 1).masked_fill(~labelled[:, None], torch.nan).cpu())
    columns = [dict(zip(names, torch.cat(row).unbind(1), strict=True)) for row in rows]
    return [
        BaselineScores(method.name, method.title, scores, torch.cat(known))
        for method, scores in zip(methods, columns, strict=True)
    ]


def colour_clusters(count: int) -> Method:
    """k-means of the colours of each image."""

    def segment(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
        height, width = images.shape[-2:]
        centres = kmeans(pixel_colours(shrink(images, CLUSTERED_SIDE)), count)
        return nearest(pixel_colours(images), centres).view(-1, height, width)

    return Method(f"kmeans{count}", f"k-means of colours, {count}", segment)


def felzenszwalb_segments(count: int) -> Method:
    """Graph-based segmentation (Felzenszwalb and Huttenlocher, 2004) with the scale that gives about `count` segments.

    The scale is the same for all images; the number of segments is the median of the first batch.
    """
    chosen: list[float] = []

    def segment(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
        found = extra("skimage.segmentation", "baselines", "images are segmented by Felzenszwalb's algorithm")
        pictures = images.permute(0, 2, 3, 1).cpu().numpy()
        least = max(2, round(LEAST_SEGMENT * pictures.shape[1] * pictures.shape[2]))

        def labels(picture: np.ndarray, scale: float) -> np.ndarray:
            return np.asarray(found.felzenszwalb(picture, scale=scale, sigma=0.5, min_size=least))

        if not chosen:
            few = pictures[:TUNED_ON]
            medians = [float(np.median([labels(each, scale).max() + 1 for each in few])) for scale in SCALES]
            chosen.append(min(zip(medians, SCALES, strict=True), key=lambda pair: abs(pair[0] - count))[1])
        return torch.from_numpy(np.stack([labels(each, chosen[0]) for each in pictures])).long().to(images.device)

    return Method("felzenszwalb", f"felzenszwalb, about {count}", segment)


def grabcut(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
    """GrabCut (Rother et al., 2004) from a box that leaves an eighth of each side: 1 in the object, else 0."""
    cv2 = extra("cv2", "baselines", "images are segmented by GrabCut")
    height, width = images.shape[-2:]
    box = (width // 8, height // 8, width - 2 * (width // 8), height - 2 * (height // 8))
    found = []
    for picture in images.permute(0, 2, 3, 1).mul(255).round().byte().cpu().numpy():
        mask, models = np.zeros((height, width), np.uint8), (np.zeros((1, 65)), np.zeros((1, 65)))
        cv2.setRNGSeed(SEED)
        try:
            cv2.grabCut(np.ascontiguousarray(picture), mask, box, *models, GRABCUT_ROUNDS, cv2.GC_INIT_WITH_RECT)
        except cv2.error:  # no colour tells the box from the rest
            mask[:] = 0
        found.append(np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)))
    return torch.from_numpy(np.stack(found)).long().to(images.device)


def untrained_encoder(preset: Preset, device: torch.device | str = "cpu", *, refined: bool = False) -> Method:
    """The encoder of a preset before its first training step."""
    segment = encoder_labels(build(preset, seed=SEED).to(device).eval(), refined=refined)
    return Method("untrained", f"untrained encoder of {preset.name}" + ", refined" * refined, segment)


def encoder_labels(model: ObjectModel, *, refined: bool = False) -> Segment:
    """The largest encoder mask of every pixel."""

    def segment(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
        encoding = _encode(model, images)
        masks = encoding.masks
        if refined:
            masks = refine(masks, images, encoding.in_use, RefineConfig())
        return hard_labels(masks)

    return segment


def central_disc(images: Float[Tensor, "b 3 h w"]) -> Int64[Tensor, "b h w"]:
    """1 within a quarter of the shorter side from the centre, else 0."""
    height, width = images.shape[-2:]
    rows, columns = (torch.arange(side, device=images.device) + 0.5 - side / 2 for side in (height, width))
    inside = rows[:, None].square() + columns.square() <= (DISC_RADIUS * min(height, width)) ** 2
    return inside.long().expand(len(images), -1, -1)


def _encode(model: ObjectModel, images: Float[Tensor, "b 3 h w"]) -> Encoding:
    if isinstance(model, CocaNet):
        return model.encode(images)
    output = model(images)
    return Encoding(output.slots, output.encoder_masks, output.in_use)
