"""What an evaluation leaves behind.

    evaluation.json            scores, what they were measured on and with, the paper's values
    evaluation-images.csv      the scores of every image, of the yardsticks too where there are any
    evaluation-worst.png       the scenes with the lowest ARI-FG, or the largest error if there are no labels

The result is written last: where it is, the others are.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from cocanet.evaluation.result import FILE as RESULT
from cocanet.evaluation.trained import Evaluation, repeatable
from cocanet.figures import discovery_grid, save
from cocanet.files import write_atomically
from cocanet.metrics.table import title

PER_IMAGE, WORST = "evaluation-images.csv", "evaluation-worst.png"
WORST_SCENES = 6


def write_evaluation(evaluation: Evaluation, out: Path) -> None:
    """Write picture, table and result to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    save(_draw_worst(evaluation), out / WORST)
    write_atomically(out / PER_IMAGE, [_per_image_csv(evaluation).encode()])
    write_atomically(out / RESULT, [evaluation.result.to_json().encode()])


def worst_scenes(evaluation: Evaluation) -> tuple[str, list[int]]:
    """The score that tells and the indices of the images that do worst in it, the worst first."""
    scores = evaluation.scored.per_image
    found = scores["decoder_ari_fg"]
    if bool(found.isnan().all()):
        return "mse", scores["mse"].argsort(descending=True, stable=True)[:WORST_SCENES].tolist()
    count = min(WORST_SCENES, int((~found.isnan()).sum()))
    return "decoder_ari_fg", found.nan_to_num(math.inf).argsort(stable=True)[:count].tolist()


@torch.inference_mode()
def _draw_worst(evaluation: Evaluation) -> Figure:
    score, indices = worst_scenes(evaluation)
    data = evaluation.data.images
    picked, labels = data.gather(np.array(indices))
    images = torch.from_numpy(picked).permute(0, 3, 1, 2).float().div(255)
    truth = torch.from_numpy(labels).long() if data.has_labels else None
    with repeatable():
        output = evaluation.trained.model(images.to(evaluation.settings.device))
    values = [float(evaluation.scored.per_image[score][index]) for index in indices]
    captions = [f"scene {index}: {title(score)} {value:.3f}" for index, value in zip(indices, values, strict=True)]
    return discovery_grid(images, truth, output, data.background_labels, captions=captions)


def _per_image_csv(evaluation: Evaluation) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    scores = dict(evaluation.scored.per_image)
    for way in evaluation.judged:
        scores |= {f"{way.name}_{name}": way.per_image[name] for name in evaluation.result.told_by}
    writer.writerow(["index", *scores])
    columns = [values.tolist() for values in scores.values()]
    for index, row in enumerate(zip(*columns, strict=True)):
        writer.writerow([index, *("" if math.isnan(value) else repr(value) for value in row)])
    return text.getvalue()
