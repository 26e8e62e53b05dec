"""Settings of an evaluation: the flags of `coca evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class EvaluationSettings:
    """Which images and weights an evaluation takes, and how it differs from training and from the protocol."""

    data: Path | None = None
    """A store of images; the test split of what the run was trained on if left out."""
    first: int | None = None
    """Score only this many images, the first of the split; all of them if left out."""
    checkpoint: Literal["last", "best"] = "last"
    """Which weights of the run."""
    slots: int | None = None
    """Fewer or more slots than in training; with --dynamic the largest number of slots."""
    dynamic: bool = False
    """Choose the number of slots for each image (Dyna)."""
    refine: bool = False
    """Refine the encoder masks after the network, before they are scored."""
    paper_empty_foreground: bool = False
    """Score images without foreground as the paper's code does, ARI-FG 1 and mSC-FG 0. Published images always are."""
    skip_empty_foreground: bool = False
    """Leave images without foreground out of the -FG scores. Generated scenes always are."""
    paper_masks: bool = False
    """Normalise encoder masks of Slot Attention, INV-SA and BO-QSA as the paper does."""
    baselines: bool = False
    """Score non-learned baselines too: k-means of colours, the untrained encoder. Images of one object always have
    them."""
    batch_size: int | None = None
    """Images at a time; 16 if left out, fewer if they have more than 64 × 64 pixels."""
    device: str = "cpu"
    """Device to run on: cpu, cuda, cuda:1, mps."""

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise ValueError(f"--first is {self.first}; expected the number of images to score, 1 or more")
        if self.paper_empty_foreground and self.skip_empty_foreground:
            raise ValueError("--paper-empty-foreground and --skip-empty-foreground exclude each other; expected one")

    def images_at_a_time(self, size: tuple[int, int]) -> int:
        """The batch size for images of a size; larger batches would leave the memory that a process keeps."""
        return self.batch_size if self.batch_size is not None else max(1, min(16, 2**16 // (size[0] * size[1])))
