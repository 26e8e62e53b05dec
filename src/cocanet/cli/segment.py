"""`coca segment`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


@dataclass(frozen=True)
class Segment:
    """Find the objects in your own images: label maps, overlays, COCO annotations, slot vectors."""

    weights: tyro.conf.Positional[str]
    """Weights that come with the package (tetrominoes, multi-dsprites, objects-room, shapestacks), a weights
    file, a run folder or a save_pretrained folder."""
    paths: tyro.conf.Positional[tuple[str, ...]]
    """Images, folders of them, also nested, or patterns such as 'photos/*.jpg'."""
    out: Path
    """Folder for the results."""
    masks: Literal["encoder", "decoder"] = "encoder"
    """Whose masks; the encoder's are faster and usually sharper."""
    level: int | None = None
    """A level of the hierarchy, 1 for the smallest parts; the objects if left out."""
    dynamic: bool = False
    """As many slots as it takes to explain each image."""
    slots: int | None = None
    """So many slots, with --dynamic at most so many; those of training if left out."""
    feedback: int | None = None
    """Rounds of top-down feedback, 0 for none; as the model was trained if left out."""
    min_area: int = 0
    """Give segments of fewer pixels to their neighbours."""
    fit: Literal["stretch", "pad", "crop"] = "stretch"
    """How an image of another shape is brought to the model's."""
    keep_background: bool = False
    """Annotate the background too: the segment with most of the image's border."""
    sheet: int = 24
    """Images on the contact sheet, 0 for none."""
    checkpoint: Literal["last", "best"] = "last"
    """Of a run folder."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""
    batch: int = 16
    """Images the model takes at a time."""
    overwrite: bool = False
    """Write into a folder that is not empty."""

    def run(self) -> None:
        from cocanet.segment.command import Plan, segment_files
        from cocanet.segment.segmenter import Settings

        settings = Settings(
            masks=self.masks,
            level=self.level,
            dynamic=self.dynamic or None,
            slots=self.slots,
            min_area=self.min_area,
            fit=self.fit,
            feedback=self.feedback,
        )
        plan = Plan(self.out, settings, self.batch, self.sheet, self.keep_background)
        sys.exit(
            segment_files(
                self.weights,
                list(self.paths),
                plan,
                device=self.device,
                checkpoint=self.checkpoint,
                overwrite=self.overwrite,
            )
        )
