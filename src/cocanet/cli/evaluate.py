"""`coca evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


@dataclass(frozen=True)
class Evaluate:
    """Score a trained model by the paper's protocol: nine numbers on its test split."""

    weights: tyro.conf.Positional[str]
    """A run folder, a weights file, or a name of weights that come with the package (tetrominoes, multi-dsprites,
    objects-room, shapestacks)."""
    data: Path | None = None
    """A store to score it on; what the run was trained for if left out."""
    json: str | None = None
    """Write the result to this file too; - prints it, and nothing else."""
    checkpoint: Literal["last", "best"] = "last"
    """Which of the run's weights."""
    slots: int | None = None
    """Fewer slots than were trained; with --dynamic the most a scene may have."""
    dynamic: bool = False
    """As many slots as it takes to explain the scene."""
    feedback: int | None = None
    """Rounds of top-down feedback, 0 for none; as the model was trained if left out."""
    compat: bool = False
    """Count images without foreground as the paper's code does."""
    paper_masks: bool = False
    """Encoder masks of Slot Attention, INV-SA and BO-QSA as the paper normalises them."""
    batch_size: int = 16
    """Images at a time."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""
    out: Path | None = None
    """Folder for the files; the run's own if left out, or evaluation/ for a weights file."""

    def run(self) -> None:
        from cocanet.evaluation.command import run_evaluation
        from cocanet.evaluation.trained import EvaluationSettings

        settings = EvaluationSettings(
            checkpoint=self.checkpoint,
            data=self.data,
            slots=self.slots,
            dynamic=self.dynamic,
            feedback=self.feedback,
            compat=self.compat,
            paper_masks=self.paper_masks,
            batch_size=self.batch_size,
            device=self.device,
        )
        run_evaluation(self.weights, settings, out=self.out, json_file=self.json)
