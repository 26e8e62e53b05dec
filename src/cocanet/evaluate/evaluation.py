"""An evaluation: what a model scores on which images, and the files that it leaves.

    evaluation.json            scores, images, provenance, the paper's values
    evaluation-images.csv      scores of every image, of the baselines too
    evaluation-worst.png       the images with the lowest ARI-FG, or the largest error without labels

The JSON file is written last: where it is, the others are.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float, Float64, Int64
from torch import Tensor

from cocanet.config.serialization import from_dict, to_dict
from cocanet.evaluate.provenance import Provenance
from cocanet.evaluate.scored_images import ScoredImages
from cocanet.explain.figures import discovery_grid, save
from cocanet.files import read_json, write_atomically
from cocanet.metrics.table import DISCOVERIES, OF_MASKS, OVERLAPS, SCORES
from cocanet.models.output import Output
from cocanet.paper_scores import PaperRow

FORMAT = "cocanet-evaluation"
VERSION = 1
FILE, PER_IMAGE, WORST = "evaluation.json", "evaluation-images.csv", "evaluation-worst.png"


@dataclass(frozen=True)
class Overrides:
    """How an evaluation differs from training and from the protocol."""

    slots: int
    dynamic: bool = False
    refined: bool = False
    paper_empty_foreground: bool = False
    """Whether images without foreground count as in the paper's code."""
    paper_masks: bool = False


@dataclass(frozen=True)
class Speed:
    """Images per second of the model alone."""

    images_per_second: float
    batch_size: int
    device: str
    threads: int


@dataclass(frozen=True)
class Baseline:
    """Scores of a non-learned baseline on the same images, by the names of `OF_MASKS`."""

    name: str
    title: str
    scores: dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of a model on images, as `evaluation.json` holds them; None for a score that no image has."""

    preset: str
    weights: str
    step: int | None
    scores: dict[str, float | None]
    slots: dict[str, float | None]
    images: int
    images_without_foreground: int | None
    images_without_labels: int = 0
    """They count in the MSE and the slots only."""
    data: ScoredImages
    overrides: Overrides
    provenance: Provenance
    speed: Speed
    baselines: tuple[Baseline, ...] = ()
    paper: PaperRow | None = None
    """The paper's scores of this model on this data set."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def decoder_repeats_encoder(self) -> bool:
        """Whether decoder masks score exactly as encoder masks do."""
        pairs = [(self.scores.get(f"decoder_{name}"), self.scores.get(f"encoder_{name}")) for name in OF_MASKS]
        return all(decoder is not None and decoder == encoder for decoder, encoder in pairs)

    @property
    def off_protocol(self) -> tuple[str, ...]:
        """How the scores differ from the protocol."""
        by_paper = self.overrides.paper_empty_foreground
        usual = self.data.source == "published"
        found = {
            "paper's counting": by_paper and not usual,
            "empty foreground left out": usual and not by_paper,
            "paper's encoder masks": self.overrides.paper_masks,
            "refined": self.overrides.refined,
        }
        return tuple(name for name, holds in found.items() if holds)

    @property
    def shown(self) -> list[str]:
        """Scores for tables: IoU and Dice first for images of one object, repeated decoder scores left out."""
        overlaps = [name for name in OVERLAPS if self.data.single and self.scores.get(name) is not None]
        found = DISCOVERIES if self.discovery_scores and self.data.has_labels else ()
        repeats = self.decoder_repeats_encoder
        return [name for name in (*overlaps, *SCORES, *found) if not (repeats and name.startswith("decoder_"))]

    @property
    def mask_scores(self) -> tuple[str, ...]:
        """Scores in the table of baselines."""
        return mask_scores(single=self.data.single)

    @property
    def discovery_scores(self) -> tuple[str, ...]:
        """Scores of object discovery, for images that were not generated."""
        return () if self.data.source == "generated" else OF_MASKS[8:]

    def to_dict(self) -> dict[str, Any]:
        kept = Evaluation(**{each.name: getattr(self, each.name) for each in fields(Evaluation)})
        return {"format": FORMAT, "version": VERSION} | to_dict(kept)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    @staticmethod
    def from_dict(plain: Mapping[str, Any], origin: str) -> Evaluation:
        if not isinstance(plain, dict) or (plain.get("format"), plain.get("version")) != (FORMAT, VERSION):
            raise ValueError(
                f'{origin} does not describe an evaluation: expected "format": "{FORMAT}", version {VERSION}'
            )
        content = {name: value for name, value in plain.items() if name not in ("format", "version")}
        return from_dict(Evaluation, content, origin)


class WorstImages(NamedTuple):
    """The images with the worst score, worst first, and the model's output for them."""

    indices: list[int]
    captions: list[str]
    images: Float[Tensor, "b 3 h w"]
    truth: Int64[Tensor, "b h w"] | None
    output: Output


@dataclass(frozen=True, kw_only=True)
class FullEvaluation(Evaluation):
    """An evaluation with what its other two files hold."""

    per_image: dict[str, Float64[Tensor, " n"]] = field(repr=False, compare=False)
    """Scores of every image, those of baselines as `kmeans2_iou`; NaN where there is nothing to score."""
    worst: WorstImages = field(repr=False, compare=False)


def mask_scores(*, single: bool) -> tuple[str, ...]:
    """The scores that compare masks: IoU and Dice for images of one object, else ARI and mSC."""
    return OF_MASKS[:4] if single else OF_MASKS[4:8]


def read_evaluation(folder: Path) -> Evaluation | None:
    """The evaluation in a folder, if there is one."""
    path = folder / FILE
    return Evaluation.from_dict(read_json(path), str(path)) if path.exists() else None


def write_evaluation(evaluation: FullEvaluation, out: Path) -> None:
    """Write the three files to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    worst = evaluation.worst
    save(
        discovery_grid(
            worst.images, worst.truth, worst.output, evaluation.data.background_labels, captions=worst.captions
        ),
        out / WORST,
    )
    write_atomically(out / PER_IMAGE, [_per_image_csv(evaluation).encode()])
    write_atomically(out / FILE, [evaluation.to_json().encode()])


def _per_image_csv(evaluation: FullEvaluation) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["index", *evaluation.per_image])
    columns = [values.tolist() for values in evaluation.per_image.values()]
    for index, row in enumerate(zip(*columns, strict=True)):
        writer.writerow([index, *("" if math.isnan(value) else repr(value) for value in row)])
    return text.getvalue()
