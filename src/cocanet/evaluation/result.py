"""What an evaluation found, as `evaluation.json` holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cocanet.config.plain import from_plain, to_plain
from cocanet.files import read_json
from cocanet.metrics.table import OF_MASKS, OVERLAPS, SCORES

FORMAT = "cocanet-evaluation"
VERSION = 1
FILE = "evaluation.json"


@dataclass(frozen=True)
class ScoredImages:
    """The images that a model was scored on."""

    name: str
    data_set: str | None
    """The paper's name for them, if they are one of its sets."""
    path: str | None
    description: str
    has_labels: bool
    background_labels: int
    sha256: str
    single: bool = False
    """Whether every image shows one thing on a background."""
    generated: bool | None = None
    """Scenes that were generated after the published set, or images as published; unknown in older files."""


@dataclass(frozen=True)
class Asked:
    """How they were scored."""

    slots: int
    dynamic: bool
    compat: bool
    batch_size: int
    device: str
    threads: int
    feedback: int = 0
    paper_masks: bool = False


@dataclass(frozen=True)
class Provenance:
    """What a reader of the scores has to know of the model."""

    losses: str = ""
    decoder_masks: str = ""
    at_evaluation: str = ""


@dataclass(frozen=True)
class Yardstick:
    """What a way to segment that nobody trained scores on the same images, by the names of `OF_MASKS`."""

    name: str
    title: str
    scores: dict[str, float | None]


@dataclass(frozen=True)
class Result:
    """Scores of a model on images; None for a score that there is not."""

    preset: str
    weights: str
    step: int | None
    scores: dict[str, float | None]
    slots: dict[str, float | None]
    images: int
    images_without_foreground: int | None
    images_per_second: float
    data: ScoredImages
    settings: Asked
    paper: dict[str, Any] | None = None
    """The paper's row beside ours."""
    versions: dict[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    images_without_labels: int = 0
    """They count in the MSE and the slots only."""
    yardsticks: tuple[Yardstick, ...] = ()

    @property
    def shown(self) -> list[str]:
        """The scores worth a row: of images of one thing IoU and Dice come first."""
        overlaps = [name for name in OVERLAPS if self.data.single and self.scores.get(name) is not None]
        return [*overlaps, *SCORES]

    @property
    def told_by(self) -> tuple[str, ...]:
        """The scores that a yardstick shows, on these images."""
        return telling(single=self.data.single)

    def to_plain(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION} | to_plain(self)

    def to_json(self) -> str:
        return json.dumps(self.to_plain(), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], origin: str) -> Result:
        if not isinstance(plain, dict) or (plain.get("format"), plain.get("version")) != (FORMAT, VERSION):
            raise ValueError(
                f'{origin} does not describe an evaluation: expected "format": "{FORMAT}", version {VERSION}'
            )
        rest = {name: value for name, value in plain.items() if name not in ("format", "version")}
        return from_plain(cls, rest, origin)


def telling(*, single: bool) -> tuple[str, ...]:
    """Scores that tell something of masks, whichever they are: of images of one thing IoU and Dice."""
    return OF_MASKS[:4] if single else OF_MASKS[4:]


def read_result(folder: Path) -> Result | None:
    """The result in a folder, if there is one."""
    path = folder / FILE
    return Result.from_plain(read_json(path), str(path)) if path.exists() else None
