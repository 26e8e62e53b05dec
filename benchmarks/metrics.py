"""`python -m benchmarks.metrics`: time to score masks, compared with scikit-learn and loops over segments."""

from __future__ import annotations

from dataclasses import dataclass
from timeit import timeit
from typing import NamedTuple

import numpy as np
import torch
import tyro
from jaxtyping import Float, Int
from rich.console import Console
from rich.table import Table
from sklearn.metrics import adjusted_rand_score  # type: ignore[import-untyped]
from torch import Tensor

from cocanet.metrics.functional.ari import adjusted_rand_index
from cocanet.metrics.functional.contingency import hard_labels, mask_contingency
from cocanet.metrics.functional.covering import segmentation_covering

BACKGROUND_LABELS = 1


@dataclass(frozen=True)
class MetricsBenchmark:
    """Measure the eight mask scores: ARI and covering, with and without background, of encoder and decoder masks."""

    images: int = 2000
    side: int = 64
    slots: int = 7
    batch_size: int = 50
    loop_images: int = 40
    """Images that the loop scores; its time is scaled up."""
    repeats: int = 3
    threads: int = 1


class Scenes(NamedTuple):
    """True labels and two sets of soft masks."""

    labels: Int[Tensor, "b h w"]
    decoder_masks: Float[Tensor, "b k h w"]
    encoder_masks: Float[Tensor, "b k h w"]


class Result(NamedTuple):
    """Seconds for all images, and the largest difference between the scores."""

    ours: float
    loop: float
    difference: float


def main() -> None:
    chosen = tyro.cli(MetricsBenchmark, prog="python -m benchmarks.metrics")
    result = measure(chosen)
    size = f"{chosen.images} images of {chosen.side}×{chosen.side} with {chosen.slots} slots"
    table = Table(title=f"Eight mask scores of {size}; threads: {chosen.threads}", min_width=80)
    for column in ("ours, s", "loop, s", "loop/ours", "largest difference"):
        table.add_column(column, justify="right")
    row = (f"{result.ours:.2f}", f"{result.loop:.1f}", f"{result.loop / result.ours:.0f}×", f"{result.difference:.0e}")
    table.add_row(*row)
    Console(width=110).print(table)


def measure(chosen: MetricsBenchmark) -> Result:
    """Ours starts from soft masks, the loop from hard labels, which favours the loop."""
    threads = torch.get_num_threads()
    torch.set_num_threads(chosen.threads)
    try:
        scenes = make_scenes(chosen)
        ours = min(timeit(lambda: score(scenes, chosen.batch_size), number=1) for _ in range(chosen.repeats))
        few = Scenes(*(x[: chosen.loop_images] for x in scenes))
        hard = [x.numpy() for x in (few.labels, hard_labels(few.decoder_masks), hard_labels(few.encoder_masks))]
        loop = timeit(lambda: score_by_loops(*hard), number=1) * chosen.images / chosen.loop_images
        difference = (score(few, chosen.batch_size) - score_by_loops(*hard)).abs().max()
    finally:
        torch.set_num_threads(threads)
    return Result(ours, loop, float(difference))


def make_scenes(chosen: MetricsBenchmark) -> Scenes:
    """Voronoi cells of random points as segments, and noisy masks of them."""
    rng = torch.Generator().manual_seed(0)
    axis = torch.linspace(0, 1, chosen.side)
    grid = torch.cartesian_prod(axis, axis)
    points = torch.rand(chosen.images, chosen.slots, 2, generator=rng)
    labels = torch.cdist(grid, points).argmin(-1).unflatten(1, (chosen.side, chosen.side))
    sure = torch.nn.functional.one_hot(labels, chosen.slots).movedim(-1, 1)
    decoder, encoder = (torch.rand(sure.shape, generator=rng) + part * sure for part in (0.8, 0.4))
    return Scenes(labels, decoder, encoder)


def score(scenes: Scenes, batch_size: int) -> Float[Tensor, "b 8"]:
    """Scores of each image, as an evaluation computes them."""
    batches = zip(*(x.split(batch_size) for x in scenes), strict=True)
    scores = []
    for labels, *sides in batches:
        tables = [mask_contingency(labels, masks) for masks in sides]
        functions = (adjusted_rand_index, segmentation_covering)
        columns = [f(table, part) for table in tables for part in (BACKGROUND_LABELS, 0) for f in functions]
        scores.append(torch.stack(columns, 1))
    return torch.cat(scores)


def score_by_loops(truths: np.ndarray, *sides: np.ndarray) -> Float[Tensor, "b 8"]:
    """The same scores by scikit-learn and loops over segments."""
    rows = []
    for truth, *maps in zip(truths, *sides, strict=True):
        row = []
        for predicted in maps:
            for ignored in (BACKGROUND_LABELS, 0):
                kept = truth >= ignored
                row += [adjusted_rand_score(truth[kept], predicted[kept]), _covering(truth, predicted, ignored)]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


def _covering(truth: np.ndarray, predicted: np.ndarray, ignored: int) -> float:
    found = [predicted == slot for slot in np.unique(predicted)]
    best = []
    for label in np.unique(truth[truth >= ignored]):
        segment = truth == label
        best.append(max((segment & other).sum() / (segment | other).sum() for other in found))
    return float(np.mean(best))


if __name__ == "__main__":
    main()
