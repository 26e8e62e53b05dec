"""How a model is scored; the flags of `coca evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class EvaluationSettings:
    """How a model is scored."""

    data: Path | None = None
    """A store to score it on; what the run was trained for if left out."""
    checkpoint: Literal["last", "best"] = "last"
    """Which of the run's weights."""
    slots: int | None = None
    """Fewer or more slots than were trained; with --dynamic the most a scene may have."""
    dynamic: bool = False
    """As many slots as it takes to explain the scene."""
    feedback: int | None = None
    """Rounds of top-down feedback, 0 for none; as the model was trained if left out."""
    compat: bool = False
    """Count images without foreground as the paper's code does."""
    paper_masks: bool = False
    """Encoder masks of Slot Attention, INV-SA and BO-QSA as the paper normalises them."""
    yardsticks: bool = False
    """Score also what needs no training: clusters of colours, the untrained encoder, a disc; of images of one thing on
    a background that is done anyway."""
    batch_size: int | None = None
    """Images at a time; if left out 16, and fewer of more than 64 × 64 pixels."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""

    def images_at_a_time(self, size: tuple[int, int]) -> int:
        """Of images of a size: more would leave the memory that a process keeps, and take longer each."""
        return self.batch_size if self.batch_size is not None else max(1, min(16, 2**16 // (size[0] * size[1])))
